// Administration in the console: sessions, every act, and pages that may not have one.
import { check, client, press } from "./people.mjs";
import { bearer, go, shot, unharmed, url, watched } from "./console_page.mjs";

export async function signIn(page, secret) {
  await page.getByLabel("The operator's bearer").fill(secret);
  await press(page, "Sign in");
}

export async function administration(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/tenants");
  await signIn(page, "not the bearer");
  await page.locator(".problem", { hasText: "not the operator's bearer" }).waitFor();
  await signIn(page, bearer);
  await page.locator(".create summary").waitFor();
  const [cookie] = await context.cookies();
  check(
    cookie.httpOnly && cookie.sameSite === "Strict" && cookie.expires === -1 && cookie.path === "/console",
    "the cookie is for this browser and no script",
  );
  check(!(await page.evaluate(() => document.cookie)).includes("recalld"), "no script reads it");
  await page.locator(".empty", { hasText: "There are no tenants" }).waitFor();

  await page.getByText("New tenant").click();
  await page.getByLabel("Slug").fill("No Slug");
  await press(page, "Create");
  await page.locator(".problem").waitFor();
  await page.getByLabel("Slug").fill("acme");
  await page.getByLabel("Title").fill("Acme <b>Lighthouses</b>");
  await page.getByLabel("Plan").selectOption("team");
  await press(page, "Create");
  await page.locator("h1", { hasText: "Acme <b>Lighthouses</b>" }).waitFor();
  await page.getByText("Issue a key").click();
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("tenant:read").check();
  await press(page, "Issue");
  await page.locator(".secret .key").waitFor();
  const secret = await page.locator(".secret .key").textContent();
  check(secret.length > 40, "the key is shown");
  await page.screenshot({ path: shot("key"), fullPage: true });
  check(
    (await page.locator(".rows .rule").allTextContents()).join() === "tenant:read",
    "with the scopes that were ticked",
  );
  await page.reload();
  await page.locator("li.row", { hasText: "ada" }).waitFor();
  check(!(await page.content()).includes(secret), "and shown once");

  await page.getByRole("button", { name: "Revoke ada" }).click();
  await press(page, "Leave it");
  check((await page.locator("li.row", { hasText: "ada" }).textContent()).includes("active"), "what is left stays");
  await page.getByRole("button", { name: "Revoke ada" }).click();
  await press(page, "Revoke");
  await page.locator("li.row", { hasText: "revoked" }).waitFor();
  await press(page, "New workspace key");
  await press(page, "Rotate");
  await page.locator(".secret .key").waitFor();
  await press(page, "I have it");
  await page.getByLabel("Calls a month").fill("5000");
  await press(page, "Set");
  await page.locator(".facts", { hasText: "5,000" }).waitFor();
  await page.getByLabel("Plan", { exact: true }).selectOption("free");
  await press(page, "Change");
  await page.locator(".of .badge", { hasText: "free" }).waitFor();
  await press(page, "Suspend");
  await page.locator("dialog[open]").getByRole("button", { name: "Suspend" }).click();
  await page.locator(".of .badge", { hasText: "suspended" }).waitFor();
  await press(page, "Resume");
  await page.locator(".of .badge", { hasText: "active" }).waitFor();

  // Another window of the same browser is signed in as well.
  const second = await context.newPage();
  await go(second, "#/tenants");
  await second.locator("li.row", { hasText: "acme" }).waitFor();
  await second.close();
  await foreign(browser, context);

  await press(page, "Delete");
  await page.getByLabel("Type acme to go on").fill("acne");
  await press(page, "Delete for good");
  check(await page.locator("dialog[open]").isVisible(), "another name deletes nothing");
  await page.getByLabel("Type acme to go on").fill("acme");
  await press(page, "Delete for good");
  await page.locator("h1", { hasText: "Tenants" }).waitFor();
  await page.locator("li.row", { hasText: "deleted" }).waitFor();
  await press(page, "Sign out");
  await page.getByLabel("The operator's bearer").waitFor();
  check((await context.cookies()).length === 0, "signing out takes the cookie away");
  const statuses = faults.filter((fault) => !fault.includes("pattern"));
  await unharmed(page, statuses, "administration");
  await context.close();
}

// A page of another port of this machine, to which the browser gives the cookie: nothing it sends does anything.
async function foreign(browser, context) {
  const other = await client("127.0.0.1");
  const page = await context.newPage();
  await page.goto(other.redirect);
  const told = await page.evaluate(async (target) => {
    const act = JSON.stringify({ act: "tenant create", slug: "stolen" });
    const send = (path, options) =>
      fetch(`${target}${path}`, { method: "POST", body: act, credentials: "include", ...options }).then(
        (answer) => answer.type,
        () => "refused",
      );
    const form = document.createElement("form");
    Object.assign(form, { action: `${target}/console/admin`, method: "post", enctype: "text/plain", target: "_blank" });
    document.body.append(form);
    return [
      await send("/console/admin", { headers: { "content-type": "application/json" } }),
      await send("/console/admin", { mode: "no-cors" }),
      await send("/console/call", { mode: "no-cors" }),
      await send("/console/session", { method: "DELETE" }),
    ];
  }, url);
  check(told[0] === "refused" && told[3] === "refused", `another page cannot ask: ${told}`);
  const frame = await page.evaluate(async (target) => {
    const inside = document.createElement("iframe");
    inside.src = `${target}/console`;
    document.body.append(inside);
    await new Promise((resolve) => {
      inside.addEventListener("load", resolve);
    });
    try {
      return inside.contentDocument === null ? "hidden" : "open";
    } catch {
      return "hidden";
    }
  }, url);
  check(frame === "hidden", "another page cannot have it in a frame");
  await page.close();
  other.close();
  const again = await context.newPage();
  await go(again, "#/tenants");
  await again.locator("li.row", { hasText: "acme" }).waitFor();
  check(!(await again.locator("main").textContent()).includes("stolen"), "and nothing was done");
  await again.close();
}
