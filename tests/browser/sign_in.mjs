// Signs in to the real server in Chromium: allow, refuse, wrong key, spent key, the back button, a form sent twice, a
// window of the client's own, by keyboard; how each page looks.
// node sign_in.mjs URL GROUND.json SHOTS_FOLDER, run from where playwright-core and axe-core are installed; GROUND.json is what
// the example sign_in_ground printed.
import { readFileSync } from "node:fs";
import path from "node:path";
import { check, client, enlarge, focused, heading, looks, open, openToLook, press, reaches, run } from "./people.mjs";

const [url, groundFile, shots] = process.argv.slice(2);
const ground = JSON.parse(readFileSync(groundFile, "utf8"));
// RFC 7636, appendix B.
const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const STATE = "of the client & <its own>";
const WRONG = "recalld_once_wrong";

const once = () => {
  const key = ground.once.pop();
  check(key !== undefined, "there is a key left");
  return key;
};

function authorize(redirect, changed = {}) {
  const query = new URLSearchParams({
    response_type: "code", client_id: ground.local, redirect_uri: redirect, code_challenge: CHALLENGE,
    code_challenge_method: "S256", state: STATE, ...changed,
  });
  return `${url}/authorize?${query}`;
}

async function fill(page, key) {
  await page.getByLabel("Workspace").fill(ground.workspace);
  await page.getByLabel("Access key").fill(key);
}

const isBack = (page) => page.getByText("Back in the notebook").waitFor();

// What the client was told: one thing, in answer to its own request, from this server.
function told(at) {
  check(at.told.length === 1, `the client is told once: ${at.told}`);
  const query = new URL(at.told[0], at.redirect).searchParams;
  check(query.get("state") === STATE, `its state comes back: ${query.get("state")}`);
  check(query.get("iss") === url, `it knows who answers: ${query.get("iss")}`);
  return query;
}

async function allows(browser) {
  for (const host of ["127.0.0.1", "::1"]) {
    const at = await client(host);
    const { context, page, faults } = await open(browser, { javaScriptEnabled: false });
    const answer = await page.goto(authorize(at.redirect));
    check(answer.status() === 200, "the page is there");
    check((await context.cookies()).every((one) => one.httpOnly && one.sameSite === "Lax"), "its cookie is kept from scripts");
    const key = once();
    await fill(page, key);
    await press(page, "Allow");
    await isBack(page);
    check(told(at).get("code").length > 40, `${host}: the client has a code`);
    // The page is kept nowhere, so the back button begins anew, and the key is spent.
    await page.goBack();
    check((await heading(page)).startsWith("Let "), `the back button leads to the form: ${await heading(page)}`);
    check((await page.getByLabel("Access key").inputValue()) === "", "which is empty");
    await fill(page, key);
    await press(page, "Allow");
    await page.getByRole("alert").waitFor();
    check((await page.getByRole("alert").textContent()).includes("already used"), "a spent key is told");
    check(at.told.length === 1, "nobody is told twice");
    check(faults.length === 0, faults.join("; "));
    await context.close();
    at.close();
  }
}

// Many clients send the browser on from where they had the answer, to a host of another name: browsers count that as part
// of what the form did.
async function goesOn(browser) {
  const further = await client("127.0.0.1");
  const at = await client("127.0.0.1", further.redirect.replace("127.0.0.1", "localhost"));
  const { context, page, faults } = await open(browser, { javaScriptEnabled: false });
  await page.goto(authorize(at.redirect));
  await fill(page, once());
  await press(page, "Allow");
  await isBack(page);
  check(told(at).get("code") !== null, "the client has its code");
  check(further.told.join() === "/callback", `and the browser gets to where it sends it: ${further.told}`);
  check(faults.length === 0, faults.join("; "));
  await context.close();
  at.close();
  further.close();
}

async function refuses(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser, { javaScriptEnabled: false });
  await page.goto(authorize(at.redirect));
  await press(page, "Refuse");
  await isBack(page);
  check(told(at).get("error") === "access_denied", "the client is told of the refusal");
  check(told(at).get("code") === null, "and has no code");
  await context.close();
  at.close();
}

async function wrongKey(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser);
  await page.goto(authorize(at.redirect));
  await fill(page, WRONG);
  await page.getByLabel("Access key").press("Enter");
  await page.getByRole("alert").waitFor();
  check((await focused(page)) === "fault", `what was wrong has the focus, not ${await focused(page)}`);
  check((await page.getByLabel("Workspace").inputValue()) === ground.workspace, "the workspace stays");
  check((await page.getByLabel("Access key").inputValue()) === "", "the key does not");
  // Reloaded, the browser sends the form again.
  const again = await page.reload();
  check(again.status() === 403, `the form that is sent again is ours: ${again.status()}`);
  await page.getByRole("alert").getByRole("link", { name: "access key" }).press("Enter");
  check((await focused(page)) === "key", "a link in the words leads to the field");
  await page.keyboard.type(ground.user);
  await page.keyboard.press("Enter");
  await isBack(page);
  check(told(at).get("code") !== null, "Enter allows, with a key for any number of times");
  await context.close();
  at.close();
}

// A button that is pressed again before there is an answer, and a form that is sent again after it.
async function twice(browser) {
  const at = await client("127.0.0.1");
  const { context, page, faults } = await openToLook(browser, "light", 768);
  await page.goto(authorize(at.redirect));
  await fill(page, ground.user);
  const form = await page.evaluate(() => Object.fromEntries(new FormData(document.querySelector("form"))));
  const filled = { ...form, decision: "allow" };
  const send = () => context.request.post(`${url}/authorize`, { form: filled, maxRedirects: 0 });
  const all = await Promise.all(Array.from({ length: 10 }, send));
  check(all.map((one) => one.status()).sort().join() === `303${",409".repeat(9)}`, "one of ten is answered");
  await press(page, "Allow");
  await page.getByRole("heading", { name: "This sign-in is already complete" }).waitFor();
  await looks(page, path.join(shots, "complete.png"), faults);
  await page.goto(authorize(at.redirect));
  await fill(page, ground.user);
  await page.getByRole("button", { name: "Allow" }).dblclick({ noWaitAfter: true });
  await page.waitForURL((address) => address.href !== authorize(at.redirect));
  check(at.told.length <= 1, `the client is told once at most: ${at.told}`);
  await context.close();
  at.close();
}

// Another browser's form, and one whose cookie is gone.
async function strangers(browser) {
  const at = await client("127.0.0.1");
  const { context, page, faults } = await openToLook(browser, "dark", 320);
  await page.goto(authorize(at.redirect));
  await fill(page, once());
  await context.clearCookies();
  await press(page, "Allow");
  await page.getByRole("heading", { name: "This sign-in belongs to another browser" }).waitFor();
  await looks(page, path.join(shots, "other-browser.png"), faults);
  check(at.told.length === 0, "the client is told nothing");
  // A form of another site, which Chromium sends without the cookie, and says so.
  await page.goto(authorize(at.redirect));
  const form = await page.evaluate(() => Object.fromEntries(new FormData(document.querySelector("form"))));
  await page.goto(at.redirect);
  await page.evaluate(([action, fields]) => {
    const stolen = document.createElement("form");
    Object.assign(stolen, { method: "post", action });
    for (const [name, value] of Object.entries(fields)) stolen.append(Object.assign(document.createElement("input"), { name, value }));
    document.body.append(stolen);
    stolen.submit();
  }, [`${url}/authorize`, { ...form, workspace: ground.workspace, key: ground.user, decision: "allow" }]);
  await page.getByRole("heading", { name: "This form is not one of ours" }).waitFor();
  await looks(page, path.join(shots, "forged.png"), faults);
  await context.close();
  at.close();
}

// A client on the web opens the page in a window of its own, and waits for it to come back.
async function inAWindow(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser);
  await page.goto(at.redirect);
  const opened = page.waitForEvent("popup");
  await page.evaluate((address) => { window.signIn = window.open(address, "sign-in", "width=500,height=700"); }, authorize(at.redirect));
  const popup = await opened;
  await fill(popup, once());
  await press(popup, "Allow");
  await isBack(popup);
  const seen = await page.evaluate(() => window.signIn.location.search);
  check(new URLSearchParams(seen).get("state") === STATE, `the client sees its answer: ${seen}`);
  await context.close();
  at.close();
}

async function byKeyboard(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser, { javaScriptEnabled: true });
  await page.goto(authorize(at.redirect));
  await reaches(page, ["workspace", "key", "Allow", "Refuse"]);
  for (let back = 0; back < 3; back += 1) await page.keyboard.press("Shift+Tab");
  await page.keyboard.type(ground.workspace);
  await page.keyboard.press("Tab");
  await page.keyboard.type(once());
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await isBack(page);
  check(told(at).get("code") !== null, "no mouse is needed");
  await context.close();
  at.close();
}

async function themed(browser, colorScheme, width, text) {
  const { context, page, faults } = await openToLook(browser, colorScheme, width);
  const show = async (address, what, prepare = async () => {}) => {
    await page.goto(address);
    await prepare();
    await enlarge(page, text);
    const name = `${what}-${width}-${colorScheme}${text === 1 ? "" : "-large"}.png`;
    await looks(page, path.join(shots, name), faults);
  };
  const here = "http://127.0.0.1:49152/callback";
  const web = { client_id: ground.web, redirect_uri: "https://notebook.example/callback" };
  await show(authorize(here), "local");
  await show(authorize("", { ...web, scope: "tenant:read brain:proxy audit:read identity:assert" }), "web");
  await show(authorize(here, { client_id: "c0" }), "unknown-client");
  await show(authorize("http://127.0.0.1:49152/other"), "unknown-redirect");
  // Two wrong keys, so that enough guesses are left for all.
  if (width === 320 && text === 1) {
    await show(authorize(here), "fault", async () => {
      await fill(page, WRONG);
      await press(page, "Allow");
    });
  }
  await context.close();
}

// Last, since after it this machine has to wait.
async function guesses(browser) {
  const { context, page, faults } = await openToLook(browser, "light", 768);
  await page.goto(authorize("http://127.0.0.1:49152/callback"));
  for (let guess = 0; (await heading(page)) !== "Too many attempts"; guess += 1) {
    check(guess < 100, "who guesses waits");
    await fill(page, WRONG);
    await Promise.all([page.waitForNavigation(), press(page, "Allow")]);
  }
  await looks(page, path.join(shots, "too-many.png"), faults);
  await context.close();
}

await run("signing in", shots, async (browser) => {
  for (const one of [allows, goesOn, refuses, wrongKey, twice, strangers, inAWindow, byKeyboard]) await one(browser);
  for (const width of [320, 768, 1280]) {
    for (const colorScheme of ["light", "dark"]) await themed(browser, colorScheme, width, 1);
  }
  await themed(browser, "light", 320, 2);
  await guesses(browser);
});
