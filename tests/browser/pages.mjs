// Tries the sign-in pages in Chromium: allow, refuse, wrong key, back button, double submit, other browsers, the
// confirmation, each page for a problem; keyboard, focus, contrast, widths, text twice as large, light and dark.
// node pages.mjs URL SHOTS_FOLDER, run from where playwright-core and axe-core are installed; URL is served by the example
// sign_in_pages.
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const [url, shots] = process.argv.slice(2);
const installed = createRequire(path.join(process.cwd(), "package.json"));
const { chromium } = installed("playwright-core");
const axe = readFileSync(installed.resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-first-run"];
const PATIENCE = 20_000;
const PROBLEMS = 11;
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
let checks = 0;

function check(holds, what) {
  if (!holds) throw new Error(`not so: ${what}`);
  checks += 1;
}

// The client's end: another origin, which remembers what it was told.
async function client(host) {
  const told = [];
  const server = createServer((request, response) => {
    told.push(request.url);
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><html lang=en><title>Notebook</title><link rel=icon href=data:,><h1>Back in the notebook</h1>");
  });
  await new Promise((resolve) => server.listen(0, host, resolve));
  const shown = host.includes(":") ? `[${host}]` : host;
  return { told, close: () => server.close(), redirect: `http://${shown}:${server.address().port}/callback` };
}

const authorize = (redirect, name) =>
  `${url}/authorize?redirect=${encodeURIComponent(redirect)}${name ? `&name=${encodeURIComponent(name)}` : ""}`;

// A page without scripts (but for axe's), which must log nothing and break no policy.
async function open(browser, options = {}) {
  const context = await browser.newContext({ locale: "en-GB", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on("console", (message) => {
    const isStatus = message.text().startsWith("Failed to load resource: the server responded with a status of");
    if (["error", "warning"].includes(message.type()) && !isStatus) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  return { context, page, faults };
}

async function sign(page, key) {
  await page.getByLabel("Workspace").fill("acme-notes");
  await page.getByLabel("Access key").fill(key);
}

const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
const heading = (page) => page.locator("h1").textContent();
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());

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

// A frame of another origin stays empty; a form that leads elsewhere is not sent.
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
  checks += 1;
  await page.goto(authorize("https://notebook.example/cb"));
  const blocked = page.waitForEvent("console", (message) => message.text().includes("form-action"));
  await page.evaluate((elsewhere) => {
    document.querySelector("form").action = elsewhere;
    document.querySelector("form").submit();
  }, at.redirect);
  await blocked;
  check(at.told.every((one) => !one.includes("workspace")), "nothing is sent elsewhere");
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

// Tab reaches these in order, and one sees where one is.
async function byKeyboard(browser) {
  const { context, page } = await open(browser);
  await page.goto(authorize("http://127.0.0.1:9/cb"));
  for (const name of ["workspace", "key", "Allow", "Refuse"]) {
    await page.keyboard.press("Tab");
    check((await focused(page)) === name, `Tab reaches ${name}, not ${await focused(page)}`);
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outline);
    check(outline.includes("solid") && outline.includes("3px"), `the focus on ${name} can be seen: ${outline}`);
  }
  await context.close();
}

async function looks(page, name, faults) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${name}: nothing is wider than the window (${wide} px)`);
  const small = await page.evaluate(() => [...document.querySelectorAll("button, input:not([type=hidden])")]
    .map((one) => one.getBoundingClientRect()).filter((box) => box.height < 44 || box.width < 44).length);
  check(small === 0, `${name}: ${small} targets are smaller than 44 px`);
  const found = await page.evaluate((values) => window.axe.run({ runOnly: { type: "tag", values } }), RULES);
  const told = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
  check(told.length === 0, `${name}: ${told.join("; ")}`);
  check(found.passes.length > 10, `${name}: axe looked at ${found.passes.length} things`);
  await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
  check(faults.length === 0, `${name}: ${faults.join("; ")}`);
}

const LONG = "The notebook application with an unreasonably long name that goes on and on, Incorporated";

async function themed(browser, colorScheme, width, text) {
  const { context, page, faults } = await open(browser, { viewport: { width, height: 900 }, colorScheme });
  // Not by a script element, which the policy rightly refuses.
  await context.addInitScript({ content: axe });
  const name = (what) => `${what}-${width}-${colorScheme}${text === 1 ? "" : "-large"}`;
  const show = async (address, what, prepare = async () => {}) => {
    await page.goto(address);
    await prepare();
    // As a browser does whose owner chose a larger font.
    await page.evaluate((times) => document.documentElement.style.setProperty("font-size", `${16 * times}px`), text);
    await looks(page, name(what), faults);
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
  await context.close();
}

async function main() {
  mkdirSync(shots, { recursive: true });
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    for (const one of [allows, refuses, wrongKey, strangers, framed, confirms, byKeyboard]) await one(browser);
    for (const width of [320, 768, 1280]) {
      for (const colorScheme of ["light", "dark"]) await themed(browser, colorScheme, width, 1);
    }
    await themed(browser, "light", 320, 2);
  } finally {
    await browser.close();
  }
  console.log(`pages: ${checks} checks passed, screenshots in ${shots}`);
}

await main();
