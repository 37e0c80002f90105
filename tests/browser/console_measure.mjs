// How long the console takes on a store of many items: from a key to what was found, from a click to a view, to the first paint;
// how much is moved for it, and how much memory the server has. Nothing here fails for being slow: the figures are told, each
// beside its bar, and as lines for benches/records.
import { cpus, release, totalmem } from "node:os";

import { check } from "./people.mjs";
import { go, items, settled, url, watched } from "./console_page.mjs";

// The page waits so long for another key (server/api/src/console/page/search.js).
const TYPING_MS = 120;
const KEY_BAR_MS = TYPING_MS + 100;
const VIEW_BAR_MS = 200;
const VIEWS_TIMES = 30;
const LOADS_TIMES = 10;
const TYPED = [
  "the scheduler of Bergen was verified beside the gateway",
  "why was the ledger of Porto split beside the cache?",
  "which encoder was tuned since its memory grew",
];
const MIB = 2 ** 20;

// ---- Figures and how they are told -------------------------------------------------------------------

const figures = [];

function noted(what, times, bar, moved) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  figures.push({ what, median: at(0.5), worst: at(0.99), bar, runs: sorted.length, moved });
}

function tell(memory) {
  const rows = figures.map(({ what, median, worst, bar, runs, moved }) => {
    const kept = worst <= bar ? "kept" : median <= bar ? "kept by the median" : "missed";
    const bytes = moved
      ? `${Math.round(moved.bytes / moved.times / 1024)} KiB, ${Math.round(moved.calls / moved.times)}`
      : "";
    return `| ${what} | ${median.toFixed(0)} | ${worst.toFixed(0)} | ${bar}: ${kept} | ${runs} | ${bytes} |`;
  });
  console.log(`| of ${items} items | median ms | p99 ms | bar | runs | moved, requests |\n|---|---|---|---|---|---|`);
  console.log(rows.join("\n"));
  for (const [when, bytes] of memory) console.log(`resident ${when}: ${(bytes / MIB).toFixed(0)} MiB`);
  const machine = [cpus()[0].model, cpus().length, Math.round(totalmem() / 2 ** 30), release(), "-"].join(",");
  const line = (what, value, unit, runs) => `console,"${what}",${items} items,${value},${unit},${runs},${machine}`;
  for (const { what, median, worst, runs, moved } of figures) {
    console.log(line(`${what}: p50`, median.toFixed(1), "ms", runs));
    console.log(line(`${what}: p99`, worst.toFixed(1), "ms", runs));
    if (moved) console.log(line(`${what}: moved`, Math.round(moved.bytes / moved.times), "bytes", moved.times));
  }
  for (const [when, bytes] of memory) console.log(line(`resident ${when}`, Math.round(bytes), "bytes", 1));
}

async function resident() {
  const answer = await fetch(`${url}/metrics`);
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(await answer.text())[1]);
}

// What the page's requests move from now on, heads included.
async function counting({ page, context }) {
  const client = await context.newCDPSession(page);
  await client.send("Network.enable");
  const moved = { bytes: 0, calls: 0, times: 0 };
  client.on("Network.loadingFinished", ({ encodedDataLength }) => {
    moved.bytes += encodedDataLength;
    moved.calls += 1;
  });
  return moved;
}

// ---- What is measured --------------------------------------------------------------------------------

// From a key to what was found: the wait for more keys, the way, the search, and the drawing.
async function keys(opened) {
  const { page } = opened;
  await go(page, "#/");
  const times = [];
  const moved = await counting(opened);
  for (const text of TYPED) {
    times.push(
      ...(await page.evaluate(async (words) => {
        const input = document.querySelector("#query");
        const found = document.querySelector(".found");
        const took = [];
        for (let length = 4; length <= words.length; length += 1) {
          // A space more asks nothing.
          if (words[length - 1] === " ") continue;
          const shown = new Promise((resolve) => {
            const observer = new MutationObserver(() => {
              observer.disconnect();
              requestAnimationFrame(() => resolve(performance.now()));
            });
            observer.observe(found, { childList: true });
          });
          const began = performance.now();
          input.value = words.slice(0, length);
          input.dispatchEvent(new Event("input"));
          took.push((await shown) - began);
        }
        return took;
      }, text)),
    );
  }
  moved.times = times.length;
  check(times.length > 100, "keys were measured");
  noted(`from a key to what was found, ${TYPING_MS} ms of it the wait for more keys`, times, KEY_BAR_MS, moved);
}

// From a click to the last of a view, and, where `first` is given, to that.
async function view(browser, what, hashes, there, first) {
  const opened = await watched(browser);
  const { page } = opened;
  await go(page, "#/nothing");
  const moved = await counting(opened);
  const [begun, whole] = [[], []];
  for (let time = 0; time < VIEWS_TIMES; time += 1) {
    const hash = hashes[time % hashes.length];
    const took = await page.evaluate(
      async ({ hash, there, first }) => {
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
        const until = async (isSo) => {
          while (!isSo()) await frame();
          await frame();
          return performance.now() - began;
        };
        const began = performance.now();
        location.hash = hash;
        const begun = first ? await until(() => document.querySelector(first)) : 0;
        const isWhole = () => document.querySelector(there) && !document.querySelector(".waiting, [aria-busy]");
        const whole = await until(isWhole);
        location.hash = "#/nothing";
        await until(() => !document.querySelector(there));
        return { begun, whole };
      },
      { hash, there, first },
    );
    begun.push(took.begun);
    whole.push(took.whole);
  }
  moved.times = VIEWS_TIMES;
  if (first) noted(`${what}: its beginning`, begun, VIEW_BAR_MS);
  noted(what, whole, VIEW_BAR_MS, moved);
  await opened.context.close();
}

// All files are asked for each time. The first time is not counted: a browser takes longer to begin its own processes.
async function loading(browser) {
  const [painted, whole] = [[], []];
  const opened = await watched(browser);
  const { page } = opened;
  await go(page, "#/");
  const moved = await counting(opened);
  moved.times = LOADS_TIMES;
  for (let time = 0; time < LOADS_TIMES; time += 1) {
    await page.goto("about:blank");
    await page.goto(`${url}/console`);
    await page.locator(".strip").waitFor();
    await settled(page);
    const entries = await page.evaluate(() => ({
      painted: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
      whole: Math.max(...performance.getEntriesByType("resource").map((one) => one.responseEnd)),
    }));
    painted.push(entries.painted);
    whole.push(entries.whole);
  }
  noted("the page, loaded anew: first paint", painted, VIEW_BAR_MS);
  noted("the page, loaded anew: all that it asks for", whole, 2 * VIEW_BAR_MS, moved);
  await opened.context.close();
}

// Items that a search finds, by their addresses.
async function found(browser, query) {
  const { page, context } = await watched(browser);
  await go(page, `#/search?q=${encodeURIComponent(query)}`);
  await page.locator(".result").first().waitFor();
  const links = await page.locator(".result h2 a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  await context.close();
  return links;
}

export async function measure(browser, ids) {
  const before = await resident();
  await loading(browser);
  const opened = await watched(browser);
  await keys(opened);
  await opened.context.close();
  const plain = await found(browser, TYPED[0]);
  await view(browser, "the start", ["#/"], ".cards .card");
  await view(browser, "an item", plain, ".prose", ".prose");
  await view(browser, "an item with chain and graph", [`#/item/${ids.item}`], "svg.graph", ".prose");
  await view(browser, "documents", ["#/documents"], ".row");
  await view(browser, "a document", [`#/document/${ids.document}`], ".lines li");
  await view(browser, "tasks", ["#/tasks"], ".row");
  await view(browser, "follow-ups", ["#/followups"], ".row");
  await view(browser, "the brief", ["#/brief"], ".card");
  await view(browser, "the ledger", ["#/ledger"], "tbody tr");
  await view(browser, "figures", ["#/figures"], ".bars li");
  tell([
    ["before", before],
    ["after", await resident()],
  ]);
}
