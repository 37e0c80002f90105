// What those have in common that try pages for people in Chromium: a client that waits for its answer, a browser that
// logs nothing and breaks no policy, and how a page looks. Run from where playwright-core and axe-core are installed.
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const installed = createRequire(path.join(process.cwd(), "package.json"));
const { chromium } = installed("playwright-core");
const axe = readFileSync(installed.resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-first-run"];
const PATIENCE = 20_000;
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
let checks = 0;

export function check(holds, what) {
  if (!holds) throw new Error(`not so: ${what}`);
  checks += 1;
}

// The client's end: another origin, which remembers what it was told, and may send the browser on to somewhere else.
export async function client(host, onward) {
  const told = [];
  const server = createServer((request, response) => {
    told.push(request.url);
    if (onward) return response.writeHead(302, { location: onward }).end();
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><html lang=en><title>Notebook</title><link rel=icon href=data:,><h1>Back in the notebook</h1>");
    return undefined;
  });
  await new Promise((resolve) => server.listen(0, host, resolve));
  const shown = host.includes(":") ? `[${host}]` : host;
  return { told, close: () => server.close(), redirect: `http://${shown}:${server.address().port}/callback` };
}

// A page without scripts (but for axe's), which must log nothing and break no policy.
export async function open(browser, options = {}) {
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

// The same, in which axe can look at pages: not by a script element, which their policy rightly refuses.
export async function openToLook(browser, colorScheme, width) {
  const opened = await open(browser, { viewport: { width, height: 900 }, colorScheme });
  await opened.context.addInitScript({ content: axe });
  return opened;
}

export const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
export const heading = (page) => page.locator("h1").textContent();
export const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());

// As a browser does whose owner chose a larger font.
export const enlarge = (page, times) =>
  page.evaluate((by) => document.documentElement.style.setProperty("font-size", `${16 * by}px`), times);

// Tab reaches these in order, and one sees where one is.
export async function reaches(page, names) {
  for (const name of names) {
    await page.keyboard.press("Tab");
    check((await focused(page)) === name, `Tab reaches ${name}, not ${await focused(page)}`);
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outline);
    check(outline.includes("solid") && outline.includes("3px"), `the focus on ${name} can be seen: ${outline}`);
  }
}

export async function looks(page, file, faults) {
  const name = path.basename(file, ".png");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${name}: nothing is wider than the window (${wide} px)`);
  const small = await page.evaluate(() => [...document.querySelectorAll("button, input:not([type=hidden])")]
    .map((one) => one.getBoundingClientRect()).filter((box) => box.width > 0 && (box.height < 44 || box.width < 44)).length);
  check(small === 0, `${name}: ${small} targets are smaller than 44 px`);
  const found = await page.evaluate((values) => window.axe.run({ runOnly: { type: "tag", values } }), RULES);
  const told = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
  check(told.length === 0, `${name}: ${told.join("; ")}`);
  check(found.passes.length > 10, `${name}: axe looked at ${found.passes.length} things`);
  await page.screenshot({ path: file, fullPage: true });
  check(faults.length === 0, `${name}: ${faults.join("; ")}`);
}

// Runs all of it in one browser, and says how much was looked at.
export async function run(what, shots, work) {
  mkdirSync(shots, { recursive: true });
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    await work(browser);
  } finally {
    await browser.close();
  }
  console.log(`${what}: ${checks} checks passed, screenshots in ${shots}`);
}
