// In a session of the console: tenants' workspaces, and items that are corrected, hidden, erased.
import { check, focused, press } from "./people.mjs";
import { signIn } from "./console_admin.mjs";
import { bearer, go, settled, shot, unharmed, url, watched } from "./console_page.mjs";

const TENANT = "harbour";
const TENANTS_TEXT = "The lamp of the harbour is lit at dusk by Mira.";

// What the command line asks of the server.
async function operator(path, body) {
  const answer = await fetch(`${url}/operator/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${bearer}` },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const calling = (tool, given, workspace) => operator("call", { tool, arguments: given, workspace });

// A tenant with something in its workspace, made once.
export async function tenant() {
  const { tenants } = await operator("admin", { act: "tenant list" });
  if (tenants.some(({ slug }) => slug === TENANT)) return TENANT;
  await operator("admin", { act: "tenant create", slug: TENANT, plan: "team", title: "Harbour" });
  await calling("brain_remember", { text: TENANTS_TEXT, title: "The lamp" }, TENANT);
  return TENANT;
}

export async function workspaces(browser) {
  const { page, faults, context } = await watched(browser);
  const slug = await tenant();
  await go(page, `#/@${slug}/`);
  check((await page.locator(".whose").textContent()).includes(slug), "whose workspace it is stands above");
  check(!(await page.content()).includes("The lamp"), "nothing of a tenant is shown to whoever is not signed in");
  await page.screenshot({ path: shot("workspace-sign-in") });
  await signIn(page, bearer);
  await page.locator(".strip").waitFor();
  check((await page.locator(".strip strong").first().textContent()) === "1", "the start counts the tenant's items");
  await page.locator("#query").fill("who lights the lamp at dusk?");
  await page.locator(".result", { hasText: "The lamp" }).waitFor();
  await page.screenshot({ path: shot("workspace-search"), fullPage: true });
  const href = await page.locator(".result h2 a").first().getAttribute("href");
  check(href.startsWith(`#/@${slug}/item/`), `links stay within it: ${href}`);
  await page.locator(".result h2 a").first().click();
  await page.locator(".prose", { hasText: TENANTS_TEXT }).waitFor();
  await settled(page);
  check((await page.title()).includes(slug), "its title says so");
  for (const [entry, there] of [
    ["Ledger", "tbody tr"],
    ["Figures", ".tile"],
    ["Documents", ".empty"],
    ["Tasks", ".empty"],
    ["Follow-ups", ".empty"],
    ["Today", ".card"],
  ]) {
    await page.getByRole("link", { name: entry, exact: true }).click();
    await page.locator(there).first().waitFor();
    await settled(page);
    check(page.url().includes(`#/@${slug}/`), `${entry} stays within it`);
    if (entry === "Ledger") {
      const who = await page.locator("tbody tr td:nth-child(5)").allTextContents();
      check(who.length > 0 && who.every((name) => name === "operator"), `its ledger names who looked: ${who}`);
    }
    if (entry === "Figures") {
      check((await page.locator(".plot").count()) === 0, "figures of the machine are not shown as a tenant's");
      await page.screenshot({ path: shot("workspace-figures"), fullPage: true });
    }
  }
  await unharmed(page, faults, "a tenant's workspace");
  await page.getByRole("link", { name: "Back to your own" }).click();
  await page.locator(".strip").waitFor();
  check((await page.locator(".whose").count()) === 0, "one's own has no such line");
  await go(page, "#/search?q=who+lights+the+lamp+at+dusk");
  check(!(await page.locator("main").textContent()).includes("Mira"), "nothing of it is in one's own");
  await go(page, "#/@nobody/tasks");
  await page.locator(".problem", { hasText: "no workspace of that name" }).waitFor();
  await go(page, `#/@${slug}/tenants`);
  check((await page.locator("h1").textContent()) === "There is no such view", "tenants are of no workspace");
  await go(page, `#/tenant/${slug}`);
  await page.getByRole("link", { name: "Look at its workspace" }).click();
  await page.locator(".strip").waitFor();
  await press(page, "Sign out");
  await page.getByLabel("The operator's bearer").waitFor();
  check(!(await page.content()).includes("The lamp"), "signing out takes it from the page");
  const own = faults.filter((fault) => !fault.includes("status of 4"));
  await unharmed(page, own, "workspaces");
  await context.close();
}

export async function changes(browser) {
  const { page, faults, context } = await watched(browser);
  const id = (await calling("brain_remember", { text: "The winch of the slipway is red.", title: "The winch" }))
    .structured.item.id;
  await go(page, `#/item/${id}`);
  await press(page, "Correct");
  await signIn(page, "not the bearer");
  await page.locator("dialog .problem").waitFor();
  await page.screenshot({ path: shot("change-sign-in") });
  await signIn(page, bearer);
  await page.getByLabel("Text", { exact: true }).fill("The winch of the slipway is green.");
  await press(page, "Put it in its place");
  check(await page.locator("dialog[open]").isVisible(), "without a reason nothing is done");
  await page.getByLabel("Why").fill("It was painted");
  await page.screenshot({ path: shot("correct") });
  await press(page, "Put it in its place");
  await page.locator(".prose", { hasText: "is green" }).waitFor();
  await page.locator(".timeline", { hasText: "It was painted" }).waitFor();
  check((await page.locator("dialog[open]").count()) === 0, "the dialog is gone");
  await settled(page);

  // By keys alone.
  await page.getByRole("button", { name: "Forget", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.type("It was scrapped");
  check((await focused(page)) === "forget-reason", "Tab leads to the reason");
  await page.keyboard.press("Enter");
  await page.locator("dialog .going li", { hasText: "The winch" }).waitFor();
  await page.screenshot({ path: shot("forget") });
  await page.keyboard.press("Escape");
  check((await page.locator("dialog[open]").count()) === 0, "Esc leaves it");
  await page.reload();
  await page.locator(".prose", { hasText: "is green" }).waitFor();
  check(true, "and nothing went");

  await press(page, "Forget");
  await page.getByLabel("Why").fill("It was scrapped");
  await press(page, "See what goes");
  await press(page, "Hide");
  await page.locator(".empty", { hasText: "It is hidden from everybody" }).waitFor();
  await page.screenshot({ path: shot("forgotten") });
  await press(page, "Erase it as well");
  await page.getByLabel("Why").fill("It was scrapped");
  await press(page, "See what goes");
  const again = page.getByLabel(/the end of its id/);
  await again.fill("zzzzzz");
  await press(page, "Erase for good");
  check(await again.isVisible(), "another end erases nothing");
  const label = await page.locator("label", { hasText: "the end of its id" }).textContent();
  await again.fill(/Type (\S+),/.exec(label)[1]);
  await page.screenshot({ path: shot("erase") });
  await press(page, "Erase for good");
  await page.locator(".empty", { hasText: /No file of the store holds it|is being erased/ }).waitFor();
  await go(page, "#/ledger?tool=forget_item_tool");
  check((await page.locator("tbody tr").count()) >= 2, "each has its entry");

  // A document goes with its pieces.
  await go(page, "#/documents");
  await page.locator(".row", { hasText: "console.md" }).locator("a").click();
  await page.getByRole("link", { name: "policy, chain, neighbours" }).click();
  await page.locator(".prose, .empty").first().waitFor();
  check(
    (await page.getByRole("button", { name: "Correct", exact: true }).count()) === 0,
    "a document is not corrected",
  );
  await press(page, "Forget");
  await page.getByLabel("Why").fill("Only a look");
  await press(page, "See what goes");
  await page.locator("dialog[open] h2", { hasText: /^Hide \d+ items\?$/ }).waitFor();
  await page.screenshot({ path: shot("forget-document") });
  await page.goBack();
  await page.locator(".lines li").first().waitFor();
  check((await page.locator("dialog[open]").count()) === 0, "leaving the page leaves the dialog");
  await press(page, "Sign out");
  const own = faults.filter((fault) => !fault.includes("pattern"));
  await unharmed(page, own, "changes");
  await context.close();
}
