// Tries the console in Chromium: node console.mjs URL CREDENTIALS.json ITEMS SHOTS_FOLDER [PART...], run from where
// playwright-core and axe-core are installed. The store is that of tests/campaigns/console_store.py, and a folder was
// ingested.
import { check, focused, heading, looks, openToLook, press, reaches, run } from "./people.mjs";
import { administration, signIn } from "./console_admin.mjs";
import { changes, tenant, workspaces } from "./console_change.mjs";
import { fill } from "./console_fill.mjs";
import { measure } from "./console_measure.mjs";
import { bearer, go, items, settled, shot, shots, unharmed, url, wanted, watch, watched } from "./console_page.mjs";

const DAY_MS = 86_400_000;
// More than the ledger gives in a page.
const ENTRIES = 120;

// ---- Search ------------------------------------------------------------------------------------------

async function search(browser) {
  const opened = await watched(browser);
  const { page, faults } = opened;
  const answer = await page.goto(`${url}/console`);
  check(answer.headers()["content-security-policy"].startsWith("default-src 'none'"), "the policy is strict");
  await settled(page);
  check(
    Number((await page.locator(".strip strong").first().textContent()).replaceAll(",", "")) > items,
    "the start counts the items",
  );
  check((await page.locator(".cards .card").count()) >= 4, "the start has something to begin with");
  check((await focused(page)) === "query", "one can type at once");

  let calls = 0;
  page.on("request", (request) => {
    calls += request.url().endsWith("/console/call") ? 1 : 0;
  });
  await page.keyboard.type("why epoll and not io_uring", { delay: 15 });
  await page.waitForFunction(() => location.hash === "#/search?q=why+epoll+and+not+io_uring");
  await settled(page);
  check(calls < 26, `keys that come fast do not all ask (${calls} calls for 26 keys)`);
  const found = page.locator(".result");
  const first = await found.first().textContent();
  check(first.includes("epoll"), `the best is about it: ${first}`);
  check((await page.locator(".reasons .reason").allTextContents()).includes("meaning"), "reasons are told");
  check((await page.locator(".result mark").count()) > 0, "words are marked");
  const old = page.locator(".result.is-past", { hasText: "The front end uses io_uring" });
  check(
    (await old.locator(".stands a").textContent()) === "The front end waits on epoll",
    "what stands now is named beside what was replaced",
  );
  await page.getByText("How it was answered").click();
  check((await page.locator(".how tbody tr").count()) >= 3, "lanes are told");
  await page.screenshot({ path: shot("search"), fullPage: true });

  await page.reload();
  await page.locator(".result").first().waitFor();
  check((await page.inputValue("#query")) === "why epoll and not io_uring", "the address can be kept");
  await page.locator(".result a").first().click();
  await page.locator("h1:not(.unseen)").waitFor();
  await page.goBack();
  await page.locator(".result").first().waitFor();
  check((await page.inputValue("#query")) === "why epoll and not io_uring", "back leads back to what was found");

  await page.fill("#query", "how long do we keep backups");
  await page.locator(".notice.warn").waitFor();
  check(
    (await page.locator(".notice.warn .hint").textContent()).includes("against"),
    "what disagrees is told with what each says",
  );
  await page.fill("#query", "xqzv wibble frobnicate");
  await page.locator(".notice.quiet").waitFor();
  check((await page.locator("#outcome").textContent()) === "Nothing on record answers this", "an abstention is told");
  await page.screenshot({ path: shot("abstained"), fullPage: true });
  await page.fill("#query", "");
  await page.locator(".strip").waitFor();
  check(page.url().endsWith("#/"), "without a question it is the start");
  await unharmed(page, faults, "search");
  await stale(page);
  await opened.context.close();
}

// A slow answer to an old question never stands beneath a newer one.
async function stale(page) {
  let held;
  await page.route("**/console/call", async (route) => {
    if (route.request().postData().includes("first question")) held = route;
    else await route.continue();
  });
  await page.fill("#query", "first question");
  await page.waitForRequest((request) => (request.postData() ?? "").includes("first question"));
  const gone = page.waitForEvent("requestfailed", (request) => (request.postData() ?? "").includes("first question"));
  await page.fill("#query", "kernels of the fleet");
  await gone;
  await page.locator(".result", { hasText: "Kernels of the fleet" }).first().waitFor();
  await held?.abort().catch(() => {});
  check(page.url().endsWith("kernels+of+the+fleet"), "what was typed last is what is shown");
  await page.unroute("**/console/call");
}

// ---- One item ----------------------------------------------------------------------------------------

async function item(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/search?q=why+epoll+and+not+io_uring");
  await page.locator(".result h2 a", { hasText: "The front end waits on epoll" }).click();
  await page.locator("svg.graph").waitFor();
  await page.locator(".card", { hasText: "What happened" }).locator("li").first().waitFor();
  check((await heading(page)) === "The front end waits on epoll", "its title");
  const chain = await page.locator(".card", { hasText: "Its chain" }).locator("li").allTextContents();
  check(
    chain.length === 3 && chain[0].includes("A thread for each connection") && chain[2].includes("This one"),
    `its chain: ${chain}`,
  );
  check(chain[1].includes("fewer system calls"), "older versions say what they said");
  check((await page.locator(".facts").allTextContents()).join().includes("default/operator"), "policy is explained");
  const nodes = page.locator("svg.graph a.node");
  check((await nodes.count()) >= 5 && (await page.locator("svg.graph line").count()) >= 4, "its neighbours are drawn");
  const overlapping = await nodes.evaluateAll((all) => {
    const places = all.map((one) => one.querySelector("circle").getBoundingClientRect()).map(({ x, y }) => [x, y]);
    return places.filter(([x, y], at) => places.slice(at + 1).some(([a, b]) => Math.hypot(a - x, b - y) < 16)).length;
  });
  check(overlapping === 0, "no two nodes lie on each other");
  await page.getByText("As a list").click();
  await page.locator(".neighbours li").first().waitFor();
  check((await page.locator(".neighbours").textContent()).includes("depends_on"), "and listed");
  await page.getByText("As the service gave it").click();
  check((await page.locator(".raw pre").textContent()).includes('"provenance"'), "the whole of it can be seen");
  await page.screenshot({ path: shot("item"), fullPage: true });
  await page.locator("svg.graph a.node", { hasText: "Kernels of the fleet" }).click();
  await page.locator("h1", { hasText: "Kernels of the fleet" }).waitFor();
  check((await page.title()).startsWith("Kernels of the fleet"), "a node leads to its item");
  await page.goBack();
  await page.locator(".timeline a", { hasText: "A thread for each connection" }).first().click();
  await page.locator(".notice a", { hasText: "itm_" }).waitFor();
  check((await page.locator(".of").textContent()).includes("superseded"), "an older version says that it is one");
  await go(page, "#/item/itm_00000000000000000000000000");
  check((await page.locator(".problem").textContent()).includes("That is not there"), "what is not there is told");
  await go(page, "#/nonsense/%E0%A4%A");
  check((await heading(page)) === "There is no such view", "an address that means nothing is told");
  await unharmed(page, faults, "item");
  await context.close();
}

async function hostile(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/search?q=zebrafish");
  await page.locator(".result").nth(4).waitFor();
  await unharmed(page, faults, "hostile texts that were found");
  const found = await page.locator(".result h2 a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  await page.screenshot({ path: shot("hostile"), fullPage: true });
  let drawn = 0;
  for (const hash of found) {
    await go(page, hash);
    await page.locator(".card", { hasText: "What happened" }).locator("li").first().waitFor();
    await unharmed(page, faults, `hostile item ${hash}`);
    drawn += await page.locator("svg.graph a.node").count();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(wide <= 0, `${hash}: nothing is wider than the window (${wide} px)`);
  }
  check(drawn > 5, "hostile neighbours are drawn");
  await go(page, found[0]);
  const more = page.getByRole("button", { name: /Show all [\d,]+ characters/ });
  if (await more.count()) {
    const before = (await page.locator(".prose").textContent()).length;
    await more.click();
    check(
      (await page.locator(".prose").textContent()).length > before,
      "the rest of a long text is shown when asked for",
    );
  }
  await go(page, "#/search?q=%3Cscript%3Ewindow.harmed%3D1%3C%2Fscript%3E");
  await unharmed(page, faults, "a hostile address");
  await context.close();
}

// ---- Documents, work, ledger, figures ----------------------------------------------------------------

async function documents(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/documents");
  check((await page.locator(".row").count()) > 10, "documents are listed");
  const prefix = (await page.locator(".row", { hasText: "limits.md" }).locator(".uri").textContent()).replace(
    "limits.md",
    "lim",
  );
  await page.getByLabel("Path begins with").fill(prefix);
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
  check(page.url().includes("prefix="), "the filter is in the address");
  check((await focused(page)) === "filter-prefix", "and whoever types in it can go on");
  await page.locator(".row a").click();
  await page.locator(".lines li").first().waitFor();
  check((await page.locator(".lines li").count()) === 200, "lines come some at a time");
  await press(page, "More lines");
  await page.waitForFunction(() => document.querySelectorAll(".lines li").length === 400);
  await page.locator(".outline a").first().waitFor();
  await page.locator(".card", { hasText: "Versions" }).locator("li.is-here").waitFor();
  await page.goto(`${page.url().split("?")[0]}?line=300`);
  await page.locator(".lines .is-asked").waitFor();
  check((await page.locator(".lines .is-asked").getAttribute("value")) === "300", "an address may name a line");
  const shown = await page.locator(".lines .is-asked").evaluate((one) => one.getBoundingClientRect().top);
  check(shown > 0 && shown < 900, "and it is in sight");
  await page.screenshot({ path: shot("document") });
  await press(page, "Lines above");
  await page.waitForFunction(() => document.querySelector(".lines li").value < 281);
  await go(page, "#/documents?prefix=%2Fnothing%2Fhere");
  await unharmed(page, faults, "documents");
  await context.close();
}

async function work(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/tasks");
  check((await page.locator(".row").count()) === 3, "tasks are listed");
  await page.screenshot({ path: shot("tasks") });
  await page.getByLabel("State").selectOption("succeeded");
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
  await page.locator(".row a").click();
  await page.locator(".timeline li").nth(3).waitFor();
  check((await page.locator(".timeline").textContent()).includes("rack 3"), "a task tells its moves");
  await go(page, "#/followups");
  const groups = await page.locator("h2.group:visible").allTextContents();
  check(groups.join() === "Overdue,Ahead", `what is overdue comes first: ${groups}`);
  await page.screenshot({ path: shot("followups") });
  await page.getByLabel("How far ahead").selectOption("0");
  await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
  await go(page, "#/brief");
  check((await page.locator(".card").count()) >= 3, "the brief has sections");
  await page.screenshot({ path: shot("brief"), fullPage: true });
  await page.getByRole("link", { name: "Day before" }).click();
  await page.waitForFunction(
    (day) => document.querySelector("#day")?.value === day,
    new Date(Date.now() - DAY_MS).toISOString().slice(0, 10),
  );
  await unharmed(page, faults, "work");
  await context.close();
}

async function ledger(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/");
  await page.evaluate(async (times) => {
    const body = JSON.stringify({ tool: "recall_stats" });
    for (let time = 0; time < times; time += 1) {
      await fetch("/console/call", { method: "POST", body, headers: { "content-type": "application/json" } });
    }
  }, ENTRIES);
  await go(page, "#/ledger");
  const first = await page.locator("tbody tr").count();
  check(first >= 20 && first <= ENTRIES, `a page of entries is listed (${first})`);
  await press(page, "Show more");
  await page.waitForFunction((before) => document.querySelectorAll("tbody tr").length > before, first);
  await page.getByLabel("Tool").fill("retrieval_arbitrate_tool");
  await page.getByLabel("Tool").press("Enter");
  await page.waitForFunction(() =>
    [...document.querySelectorAll("tbody tr td:nth-child(3)")].every((cell) =>
      cell.textContent.startsWith("retrieval_arbitrate_tool"),
    ),
  );
  await page.locator("tbody tr details summary").first().click();
  check((await page.locator("tbody tr details[open] a").count()) > 0, "items that were touched are links");
  await press(page, "Check the whole ledger");
  await page.locator(".hint.good").waitFor();
  check((await page.locator(".hint.good").textContent()).startsWith("Whole: "), "the ledger is whole");
  // The check has left an entry, which the page hears of by the count alone.
  await page.locator(".news:visible").waitFor();
  await press(page, "Show them");
  await settled(page);
  check((await page.locator(".news:visible").count()) === 0, "what came since is shown");
  await page.screenshot({ path: shot("ledger") });
  await go(page, "#/ledger?decision=deny&tool=nothing");
  await page.locator(".empty", { hasText: "No entry is like that" }).waitFor();
  await unharmed(page, faults, "ledger");
  await context.close();
}

async function figures(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/figures");
  check(
    Number((await page.locator(".tile strong").first().textContent()).replaceAll(",", "")) > items,
    "items are counted",
  );
  const other = await context.newPage();
  const asking = other
    .goto(`${url}/console#/search?q=torn+writes`)
    .then(() => other.locator(".result").first().waitFor());
  await page.bringToFront();
  await asking;
  await page.waitForFunction(() => document.querySelectorAll(".plot .line, .plot .dot").length >= 6);
  check((await page.locator(".plots").textContent()).includes("ms"), "calls took some time");
  check((await page.locator(".bars li").count()) > 8, "kinds and steps are told");
  await page.screenshot({ path: shot("figures"), fullPage: true });
  await other.close();
  await unharmed(page, faults, "figures");
  await context.close();
}

// ---- The keyboard, and what goes wrong ---------------------------------------------------------------

async function keyboard(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/tasks");
  await page.keyboard.press("/");
  await page.locator("#query").waitFor();
  await settled(page);
  await page.keyboard.type("kernels of the fleet");
  await page.locator(".result", { hasText: "Kernels of the fleet" }).first().waitFor();
  await settled(page);
  await page.keyboard.press("Escape");
  check((await page.evaluate(() => document.activeElement.id)) === "main", "Esc leaves the field");
  check((await page.inputValue("#query")) === "kernels of the fleet", "and does not empty it");
  await page.keyboard.press("j");
  const best = await focused(page);
  await page.keyboard.press("j");
  check((await focused(page)) !== best, "j goes on");
  await page.keyboard.press("k");
  check((await focused(page)) === best, "k goes back");
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: best }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".result").first().waitFor();
  check((await page.inputValue("#query")) === "kernels of the fleet", "Esc leads back");
  await page.keyboard.press("Escape");
  for (const [letter, title] of [
    ["d", "Documents"],
    ["l", "Ledger"],
    ["t", "Tasks"],
    ["f", "Follow-ups"],
    ["i", "Figures"],
    ["n", "Tenants"],
    ["b", "Today"],
  ]) {
    await page.keyboard.press("g");
    await page.keyboard.press(letter);
    await page.locator("h1", { hasText: title }).waitFor();
    await settled(page);
    if (letter === "n") await page.keyboard.press("Escape");
  }
  await page.keyboard.press("?");
  check(await page.locator("#help").isVisible(), "? shows the keys");
  await page.screenshot({ path: shot("keys") });
  await page.keyboard.press("Escape");
  check(!(await page.locator("#help").isVisible()), "Esc closes them");
  await page.reload();
  await settled(page);
  await page.evaluate(() => document.activeElement.blur());
  await reaches(page, ["Skip to the content", "recalld", "Search", "Today", "Tasks"]);
  await press(page, "Theme: auto");
  await press(page, "Theme: light");
  check((await page.evaluate(() => getComputedStyle(document.body).colorScheme)) === "dark", "the theme can be chosen");
  await page.reload();
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "dark", "and stays");
  await unharmed(page, faults, "keyboard");
  await context.close();
}

async function failures(browser) {
  const { page, faults, context } = await watched(browser);
  await go(page, "#/tasks");
  await page.route("**/console/call", (route) => route.abort());
  await page.goto(`${url}/console#/followups`);
  await page.locator(".problem").waitFor();
  check(
    (await page.locator(".problem").textContent()).includes("The service does not answer"),
    "a service that is gone is told",
  );
  await page.screenshot({ path: shot("gone") });
  await page.unroute("**/console/call");
  await page.route("**/console/call", (route) =>
    route.fulfill({
      status: 503,
      json: { detail: "the audit ledger takes no entries" },
      headers: { "retry-after": "2" },
    }),
  );
  await press(page, "Try again");
  await page.locator(".problem", { hasText: "another try in 2 s" }).waitFor();
  await page.unroute("**/console/call");
  await press(page, "Try again");
  await page.locator(".row").first().waitFor();
  const own = faults.filter((fault) => !fault.includes("net::ERR_FAILED"));
  await unharmed(page, own, "failures");
  await context.close();
}

// ---- How all of it looks -----------------------------------------------------------------------------

async function appearance(browser, ids) {
  const slug = await tenant();
  const views = [
    ["start", "#/"],
    ["search", "#/search?q=how+long+do+we+keep+backups"],
    ["item", `#/item/${ids.item}`],
    ["documents", "#/documents"],
    ["document", `#/document/${ids.document}`],
    ["tasks", "#/tasks"],
    ["task", `#/task/${ids.task}`],
    ["followups", "#/followups"],
    ["brief", "#/brief"],
    ["ledger", "#/ledger"],
    ["figures", "#/figures"],
    ["sign-in", "#/tenants"],
    ["nothing", "#/documents?prefix=%2Fnothing"],
  ];
  // All of them twice; of the other two ways those with most on them.
  const full = new Set(["search", "item", "ledger", "figures"]);
  for (const [scheme, width, which] of [
    ["light", 1280],
    ["dark", 390],
    ["dark", 1280, full],
    ["light", 390, full],
  ]) {
    const opened = await openToLook(browser, scheme, width);
    await watch(opened);
    const { page, faults } = opened;
    for (const [name, hash] of views.filter(([name]) => !which || which.has(name))) {
      await go(page, hash);
      await page.evaluate(() => document.activeElement.blur());
      await looks(page, shot(`${name}-${scheme}-${width}`), faults);
    }
    await go(page, "#/tenants");
    await signIn(page, bearer);
    await page.locator(".create summary").click();
    await looks(page, shot(`tenants-${scheme}-${width}`), faults);
    await go(page, `#/@${slug}/search?q=who+lights+the+lamp+at+dusk`);
    await looks(page, shot(`workspace-${scheme}-${width}`), faults);
    await go(page, `#/tenant/${slug}`);
    await looks(page, shot(`tenant-${scheme}-${width}`), faults);
    await go(page, `#/item/${ids.item}`);
    await press(page, "Correct");
    await looks(page, shot(`correct-${scheme}-${width}`), faults);
    await press(page, "Leave it");
    await press(page, "Forget");
    await page.getByLabel("How", { exact: true }).selectOption("erase");
    await page.getByLabel("Why").fill("Only a look");
    await press(page, "See what goes");
    await page.locator(".going").waitFor();
    await looks(page, shot(`erase-${scheme}-${width}`), faults);
    await press(page, "Leave it");
    await press(page, "Sign out");
    await opened.context.close();
  }
}

// In their order: later ones count what earlier ones left.
const PARTS = {
  search,
  measure,
  item,
  hostile,
  documents,
  work,
  ledger,
  figures,
  keyboard,
  failures,
  administration,
  changes,
  workspaces,
  appearance,
};

await run("the console", shots, async (browser) => {
  const ids = await fill(url);
  for (const [name, part] of Object.entries(PARTS)) {
    if (!wanted.length || wanted.includes(name)) await part(browser, ids);
  }
});
