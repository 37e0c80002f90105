// Tries /docs in Chromium: every operation by its form, keyboard, errors, curl, light and dark, phone width.
// node docs.mjs URL CREDENTIALS.json SHOTS_FOLDER, run from where playwright-core is installed.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [url, credentialsFile, shots] = process.argv.slice(2);
const { chromium } = createRequire(path.join(process.cwd(), "package.json"))("playwright-core");
const credentials = JSON.parse(readFileSync(credentialsFile, "utf8"));
const values = {
  "x-gateway-client-id": credentials.gateway_client_id,
  "x-gateway-client-secret": credentials.gateway_client_secret,
  authorization: credentials.bearer,
};
const environment = {
  ...process.env,
  ...credentials,
};
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-first-run"];
const PATIENCE = 20_000;
let checks = 0;

function check(holds, what) {
  if (!holds) throw new Error(`not so: ${what}`);
  checks += 1;
}

// A page that must log nothing, break no policy, and ask nobody but the service.
async function open(browser, options) {
  const context = await browser.newContext({ locale: "en-GB", ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: url });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  // An answer that is no success is noted by the browser itself; which ones may be is checked by their outcome.
  page.on("console", (message) => {
    const isStatus = message.text().startsWith("Failed to load resource: the server responded with a status of");
    if (["error", "warning"].includes(message.type()) && !isStatus) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith(`${url}/`) && !asked.startsWith("data:")) faults.push(`asked ${asked}`);
  });
  await page.exposeFunction("violated", (what) => faults.push(`policy: ${what}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      window.violated(`${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  const answer = await page.goto(`${url}/docs`, { waitUntil: "networkidle" });
  check(answer.status() === 200, "the page is there");
  check(answer.headers()["content-security-policy"].includes("default-src 'none'"), "the policy is strict");
  await page.locator("article.operation").first().waitFor();
  return { context, page, faults };
}

const operation = (page, id) => page.locator(`#${id}`);

async function send(page, id, way = "click") {
  const article = operation(page, id);
  if (way === "click") await article.getByRole("button", { name: "Send" }).click();
  else await article.locator(way).press("Control+Enter");
  const outcome = article.locator(".outcome.good, .outcome.bad");
  await outcome.waitFor();
  return { article, outcome: await outcome.textContent() };
}

async function sign(page) {
  for (const [header, value] of Object.entries(values)) await page.getByLabel(header, { exact: true }).fill(value);
}

async function shoot(page, name) {
  await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
}

const shownAnswer = async (article) => JSON.parse(await article.locator(".shown-answer").textContent());

// Without credentials only /health answers; refusals are shown as they came.
async function refusals(page) {
  const health = await send(page, "health");
  check(health.outcome.startsWith("200"), `health is open: ${health.outcome}`);
  check((await shownAnswer(health.article)).status === "ok", "health is shown");
  const stats = await send(page, "stats");
  check(stats.outcome.startsWith("403"), `no credentials: ${stats.outcome}`);
  check((await shownAnswer(stats.article)).detail === "Gateway service token required", "its reason is shown");
  await page.getByLabel("x-gateway-client-id", { exact: true }).fill(values["x-gateway-client-id"]);
  await page.getByLabel("x-gateway-client-secret", { exact: true }).fill(values["x-gateway-client-secret"]);
  check((await send(page, "stats")).outcome.startsWith("401"), "no bearer");
  check((await stats.article.locator(".shown-head").textContent()).includes("www-authenticate: Bearer"), "its head");
}

// Every operation by its form, then from the keyboard.
async function successes(page) {
  await sign(page);
  const stats = await send(page, "stats");
  check(stats.outcome.startsWith("200"), `stats: ${stats.outcome}`);
  check((await shownAnswer(stats.article)).memory_items > 0, "counts are shown");

  const recall = operation(page, "recall");
  await recall.getByLabel("query").fill("torn writes of the log");
  await recall.getByLabel("limit", { exact: true }).fill("2");
  await recall.getByLabel("graph").check();
  const seeds = await send(page, "recall");
  check(seeds.outcome.startsWith("200"), `recall: ${seeds.outcome}`);
  const found = await shownAnswer(seeds.article);
  check(found.length === 2 && found.every((seed) => Array.isArray(seed.neighbors)), "two seeds with neighbors");
  const sent = await recall.locator(".shown-request").textContent();
  check(sent.startsWith("POST /recall HTTP/1.1\nhost: "), "the request is shown");
  check(!Object.values(values).some((value) => sent.includes(value)), "credentials are not shown");

  const meaning = operation(page, "semantic_recall");
  await meaning.getByLabel("query").fill("what is left after the power fails? it's \"quoted\" $HOME `id`");
  await meaning.getByLabel("limit", { exact: true }).fill("3");
  const nearest = await send(page, "semantic_recall", "#semantic_recall-limit");
  check(nearest.outcome.startsWith("200"), `from the keyboard: ${nearest.outcome}`);
  check((await shownAnswer(nearest.article)).results.length === 3, "three results");
}

// What the form does not check is the service's to refuse, and any body can be sent.
async function wrongBodies(page) {
  const recall = operation(page, "recall");
  await recall.getByLabel("limit", { exact: true }).fill("51");
  const refused = await send(page, "recall");
  check(refused.outcome.startsWith("422"), `51 is too many: ${refused.outcome}`);
  check((await shownAnswer(refused.article)).detail[0].ctx.le === 50, "the error is shown");
  await recall.getByRole("button", { name: "JSON", exact: true }).click();
  const area = recall.getByLabel("Body, sent as it is");
  check(JSON.parse(await area.inputValue()).limit === 51, "the fields are the body's beginning");
  await area.fill('{"query": <b>not json</b>');
  const broken = await send(page, "recall", "textarea");
  check((await shownAnswer(broken.article)).detail[0].type === "json_invalid", "broken JSON is sent as it is");
  await area.fill('{"query": "lamp", "limit": "1"}');
  check((await send(page, "recall")).outcome.startsWith("200"), "a text that is a number is taken");
  await recall.getByRole("button", { name: "Fields" }).click();
}

// The curl command, pasted into a shell with the credentials in its environment, gets the same answer.
async function asCurl(page) {
  for (const id of ["health", "stats", "recall", "semantic_recall"]) {
    const { article, outcome } = await send(page, id);
    await article.getByRole("button", { name: "curl" }).click();
    await article.locator(".request .copy").click();
    await article.getByRole("button", { name: "Copied" }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    check(command === await article.locator(".shown-request").textContent(), "what is copied is what is shown");
    check(!Object.values(values).some((value) => command.includes(value)), "curl takes credentials from outside");
    const full = `${command} -o /dev/null -w '%{http_code}'`;
    const status = execFileSync("bash", ["-c", full], { env: environment, timeout: PATIENCE }).toString();
    check(outcome.startsWith(status), `curl of ${id}: ${status}, and ${outcome} here`);
  }
}

// Credentials are nowhere but in the page.
async function keepsNothing(page, context) {
  const stored = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie, location.href]);
  check(stored[0] === 0 && stored[1] === 0 && stored[2] === "" && stored[3] === `${url}/docs`, `stored: ${stored}`);
  check((await context.cookies()).length === 0, "no cookies");
  await page.reload({ waitUntil: "networkidle" });
  for (const header of Object.keys(values)) {
    check((await page.getByLabel(header, { exact: true }).inputValue()) === "", `${header} is forgotten`);
  }
}

// All there is can be reached with Tab, and where one is can be seen.
async function byKeyboard(page) {
  await page.evaluate(() => document.activeElement.blur());
  const reached = new Set();
  for (let step = 0; step < 120; step += 1) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const now = document.activeElement;
      const seen = getComputedStyle(now).outlineStyle !== "none";
      return { name: now.id || now.textContent.trim().slice(0, 40) || now.tagName, tag: now.tagName, seen };
    });
    if (at.tag === "BODY") break;
    check(at.seen, `the focus on ${at.name} can be seen`);
    reached.add(at.name);
  }
  for (const name of ["credential-bearer", "recall-query", "recall-neighbor_limit", "semantic_recall-limit", "Send"]) {
    check(reached.has(name), `${name} is reached by Tab`);
  }
}

// Words against what is behind them: WCAG 2.2 AA wants 4.5 to 1.
async function contrast(page, theme) {
  const poor = await page.evaluate(() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = (color) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (color) => {
      const [r, g, b] = color.map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const color = rgb(getComputedStyle(at).backgroundColor);
        if (color[3] === 255) return color;
      }
      return [255, 255, 255, 255];
    };
    const found = [];
    for (const element of document.body.querySelectorAll("*")) {
      const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      if (!hasText || !element.checkVisibility()) continue;
      const two = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
      const ratio = (two[0] + 0.05) / (two[1] + 0.05);
      if (ratio < 4.5) found.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
    }
    return found;
  });
  check(poor.length === 0, `${theme}: enough contrast, but ${poor.join(", ")}`);
}

async function fits(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(wide <= 0, `${name}: nothing is wider than the window (${wide} px)`);
}

async function themed(browser, name, options) {
  const { context, page, faults } = await open(browser, options);
  await shoot(page, `${name}-start`);
  await sign(page);
  await operation(page, "recall").getByLabel("query").fill("torn writes of the log");
  await send(page, "recall");
  await operation(page, "stats").locator("summary").click();
  await send(page, "stats");
  await operation(page, "recall").getByLabel("limit", { exact: true }).fill("0");
  await send(page, "semantic_recall");
  await contrast(page, name);
  await fits(page, name);
  await shoot(page, `${name}-answers`);
  await operation(page, "recall").screenshot({ path: path.join(shots, `${name}-recall.png`) });
  check(faults.length === 0, `${name}: ${faults.join("; ")}`);
  await context.close();
}

async function main() {
  mkdirSync(shots, { recursive: true });
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    const { context, page, faults } = await open(browser, { viewport: { width: 1280, height: 900 } });
    await refusals(page);
    await successes(page);
    await wrongBodies(page);
    await asCurl(page);
    await keepsNothing(page, context);
    await byKeyboard(page);
    check(faults.length === 0, faults.join("; "));
    await context.close();
    await themed(browser, "light", { viewport: { width: 1280, height: 900 }, colorScheme: "light" });
    await themed(browser, "dark", { viewport: { width: 1280, height: 900 }, colorScheme: "dark" });
    await themed(browser, "phone", { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, colorScheme: "light" });
    await themed(browser, "phone-dark", { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, colorScheme: "dark" });
  } finally {
    await browser.close();
  }
  console.log(`docs: ${checks} checks passed, screenshots in ${shots}`);
}

await main();
