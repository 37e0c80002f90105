// Tries the sign-in pages in Chromium: allow, refuse, wrong key, back button, double submit, other browsers, the
// confirmation, each page for a problem; keyboard, focus, contrast, widths, text twice as large, light and dark.
// node pages.mjs URL SHOTS_FOLDER, run from where playwright-core and axe-core are installed; URL is served by the example
// sign_in_pages.
import path from "node:path";
import { check, client, enlarge, focused, heading, looks, open, openToLook, press, reaches, run } from "./people.mjs";

const [url, shots] = process.argv.slice(2);
const PROBLEMS = 11;

const authorize = (redirect, name) =>
  `${url}/authorize?redirect=${encodeURIComponent(redirect)}${name ? `&name=${encodeURIComponent(name)}` : ""}`;

async function sign(page, key) {
  await page.getByLabel("Workspace").fill("acme-notes");
  await page.getByLabel("Access key").fill(key);
}

async function allows(browser) {
  for (const host of ["127.0.0.1", "::1"]) {
    const at = await client(host);
    const { context, page, faults } = await open(browser, { javaScriptEnabled: false });
    const answer = await page.goto(authorize(at.redirect));
    check(answer.status() === 200, "the page is there");
    check((await context.cookies()).every((one) => one.httpOnly && one.sameSite === "Lax"), "its cookie is kept from scripts");
    await sign(page, "recalld_once_right");
    await press(page, "Allow");
    await page.getByText("Back in the notebook").waitFor();
    check(at.told.join() === "/callback?code=good", `${host}: the client is told: ${at.told}`);
    // The page is kept nowhere, so the back button begins anew.
    await page.goBack();
    check((await heading(page)).startsWith("Let "), `the back button leads to the form: ${await heading(page)}`);
    check((await page.getByLabel("Access key").inputValue()) === "", "which is empty");
    check(at.told.length === 1, "nobody is told twice");
    check(faults.length === 0, faults.join("; "));
    await context.close();
    at.close();
  }
}

async function refuses(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser, { javaScriptEnabled: false });
  await page.goto(authorize(at.redirect));
  await press(page, "Refuse");
  await page.getByText("Back in the notebook").waitFor();
  check(at.told.join() === "/callback?error=access_denied", `the client is told of the refusal: ${at.told}`);
  await context.close();
  at.close();
}

async function wrongKey(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser);
  await page.goto(authorize(at.redirect));
  await press(page, "Allow");
  check((await focused(page)) === "workspace", "an empty field is not sent");
  await sign(page, "recalld_once_wrong");
  await page.getByLabel("Access key").press("Enter");
  await page.getByRole("alert").waitFor();
  check((await focused(page)) === "fault", `what was wrong has the focus, not ${await focused(page)}`);
  check((await page.getByRole("alert").textContent()).includes("is wrong, expired or already used"), "it is said");
  check((await page.getByLabel("Workspace").inputValue()) === "acme-notes", "the workspace stays");
  check((await page.getByLabel("Access key").inputValue()) === "", "the key does not");
  check((await page.title()).startsWith("Not signed in"), "the title says it first");
  // Empty fields, from a browser that does not hold them back: each is named, and its link leads there.
  await page.evaluate(() => document.querySelector("form").setAttribute("novalidate", ""));
  await press(page, "Allow");
  await page.getByRole("alert").getByRole("link").press("Enter");
  check((await focused(page)) === "key", "the link leads to the field");
  await page.getByLabel("Access key").fill("recalld_once_right");
  await page.keyboard.press("Enter");
  await page.getByText("Back in the notebook").waitFor();
  check(at.told.join() === "/callback?code=good", "Enter allows");
  await context.close();
  at.close();
}

// Two answers to one form: the second says that it is done. Another browser's form is not taken.
async function strangers(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser);
  await page.goto(authorize(at.redirect));
  const form = await page.evaluate(() => Object.fromEntries(new FormData(document.querySelector("form"))));
  const filled = { ...form, workspace: "acme-notes", key: "recalld_once_right", decision: "allow" };
  const send = (from, data) => from.request.post(`${url}/authorize`, { form: data, maxRedirects: 0 });
  const other = await browser.newContext();
  check((await (await send(other, filled)).text()).includes("belongs to another browser"), "no cookie");
  await other.request.get(authorize(at.redirect));
  check((await (await send(other, filled)).text()).includes("belongs to another browser"), "another cookie");
  check((await (await send(context, { ...filled, csrf: "AAAA" })).text()).includes("not one of ours"), "no token");
  const both = await Promise.all([send(context, filled), send(context, filled)]);
  check(both.map((one) => one.status()).sort().join() === "303,409", "one of two is answered");
  await other.close();
  await context.close();
  at.close();
}

// A frame of another origin stays empty.
async function framed(browser) {
  const at = await client("127.0.0.1");
  const { context, page } = await open(browser);
  await page.goto(at.redirect);
  const refused = page.waitForEvent("console", (message) => message.text().includes("frame-ancestors"));
  await page.evaluate((source) => {
    const frame = document.createElement("iframe");
    frame.src = source;
    document.body.append(frame);
  }, authorize(at.redirect));
  await refused;
  check(at.told.length === 1, "the page that framed it learns nothing");
  await context.close();
  at.close();
}

async function confirms(browser) {
  const { context, page, faults } = await open(browser, { javaScriptEnabled: false });
  await page.goto(`${url}/confirm?token=good`);
  await press(page, "Confirm the address");
  check((await heading(page)) === "The address is confirmed", "it is confirmed");
  await page.goto(`${url}/confirm?token=old`);
  await press(page, "Confirm the address");
  check((await heading(page)) === "This link is no longer good", "an old link is not");
  check(faults.length === 0, faults.join("; "));
  await context.close();
}

async function byKeyboard(browser) {
  const { context, page } = await open(browser);
  await page.goto(authorize("http://127.0.0.1:9/cb"));
  await reaches(page, ["workspace", "key", "Allow", "Refuse"]);
  await context.close();
}

const LONG = "The notebook application with an unreasonably long name that goes on and on, Incorporated";

async function themed(browser, colorScheme, width, text) {
  const { context, page, faults } = await openToLook(browser, colorScheme, width);
  const name = (what) => `${what}-${width}-${colorScheme}${text === 1 ? "" : "-large"}`;
  const show = async (address, what, prepare = async () => {}) => {
    await page.goto(address);
    await prepare();
    await enlarge(page, text);
    await looks(page, path.join(shots, `${name(what)}.png`), faults);
  };
  await show(authorize("http://127.0.0.1:49152/callback", "Notebook"), "local");
  await show(authorize("https://notebook.example/callback", LONG), "web");
  await show(authorize("http://127.0.0.1:49152/callback"), "fault", async () => {
    await sign(page, "recalld_once_wrong");
    await press(page, "Allow");
  });
  await show(`${url}/confirm?token=good`, "confirm");
  const problems = width === 320 ? PROBLEMS : 2;
  for (let at = 0; at < problems; at += 1) await show(`${url}/problem/${at}`, `problem-${at}`);
  await show(`${url}/returning`, "returning");
  await context.close();
}

await run("pages", shots, async (browser) => {
  for (const one of [allows, refuses, wrongKey, strangers, framed, confirms, byKeyboard]) await one(browser);
  for (const width of [320, 768, 1280]) {
    for (const colorScheme of ["light", "dark"]) await themed(browser, colorScheme, width, 1);
  }
  await themed(browser, "light", 320, 2);
});
