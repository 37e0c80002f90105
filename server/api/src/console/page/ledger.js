// The ledger: its newest entries, as far as filters let them through, and whether it is whole.
import { call, metrics } from "/console/ask.js";
import {
  badge,
  choice,
  clock,
  counted,
  empty,
  find,
  heading,
  hint,
  link,
  make,
  number,
  of,
  paged,
  problem,
  put,
  state,
  told,
} from "/console/show.js";
import { Filters } from "/console/filters.js";
import { workspace } from "/console/whose.js";

// The count of entries is asked for so often; that reads no entry, and so makes none.
const COUNT_EVERY_MS = 3_000;

const DECISIONS = [["", "All"], ...["allow", "redact", "deny"].map((word) => [word, word])];
const COLUMNS = ["Entry", "When", "Tool", "Decision", "Who", "Items"];

export async function ledgerView({ place, asked, signal, ready }) {
  const text = (name, more) => make("input", { value: asked[name] ?? "", spellcheck: false, ...more });
  const time = (name) => make("input", { type: "datetime-local", value: asked[name] ?? "" });
  const news = make("p", { className: "news", hidden: true });
  const seen = { newest: 0 };
  const filters = new Filters({
    view: "ledger",
    fields: [
      { name: "tool", label: "Tool", input: text("tool", { maxLength: 64, placeholder: "retrieval_arbitrate_tool" }) },
      { name: "principal", label: "Who", input: text("principal", { maxLength: 160, placeholder: "operator" }) },
      { name: "decision", label: "Decision", input: choice(DECISIONS, asked.decision ?? "") },
      { name: "from", label: "From", input: time("from") },
      { name: "to", label: "Before", input: time("to") },
    ],
    signal,
    fill: async (part, given, stopped) => {
      const newest = await entries(part, given, stopped);
      seen.newest = Math.max(seen.newest, newest);
      news.hidden = true;
    },
  });
  const scan = make("button", { type: "button" }, "Check the whole ledger");
  const checked = make("p", { className: "hint", role: "status" });
  scan.addEventListener("click", () => check(scan, checked, signal));
  put(place, heading("Ledger", scan), checked, filters.element, news, filters.body);
  ready();
  await filters.run();
  // What is counted is the entries of the operator's own.
  if (!workspace()) follow(seen, news, filters, signal);
}

// Puts a table of entries into the part, and gives the number of the newest one that there was.
async function entries(part, given, signal) {
  const list = make("tbody");
  const table = make(
    "table",
    { className: "entries" },
    make("caption", { className: "unseen" }, "Entries, newest first"),
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        COLUMNS.map((name) => make("th", { scope: "col" }, name)),
      ),
    ),
    list,
  );
  const body = make("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Entries" }, table);
  put(part, body);
  let newest = 0;
  await paged(
    list,
    async (cursor) => {
      const wanted = { ...given, from: moment(given.from), to: moment(given.to), cursor };
      const page = await call("audit_trail_tool", wanted, signal);
      newest = Math.max(newest, page.receipt.seq);
      return { rows: page.entries, next: page.next_cursor };
    },
    entry,
    body,
  );
  if (!list.children.length)
    part.replaceChildren(
      empty("No entry is like that", "Each governed call leaves one; filters may leave out all of them."),
    );
  return newest;
}

const moment = (local) => {
  const date = new Date(local ?? "");
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
};

function entry(row) {
  const touched = row.touched ?? [];
  const items = touched.map(({ effect, item_id: id }) => make("li", {}, link(of(id), told(id)), " ", badge(effect)));
  const more = (row.touched_total ?? touched.length) - touched.length;
  return make(
    "tr",
    { "data-row": "" },
    make("th", { scope: "row" }, number(row.seq)),
    make("td", {}, clock(row.at)),
    make("td", {}, make("code", {}, told(row.tool)), row.outcome !== "done" && state(row.outcome)),
    make("td", {}, state(row.decision), make("code", { className: "rule" }, told(row.rule))),
    make("td", {}, told(row.principal)),
    make(
      "td",
      {},
      touched.length
        ? make(
            "details",
            {},
            make("summary", {}, number(row.touched_total ?? touched.length)),
            make("ul", { className: "plain" }, items),
            more > 0 && hint(`and ${number(more)} more`),
          )
        : make("span", { className: "nothing" }, "none"),
    ),
  );
}

// Says how many entries came since; the page itself changes when somebody wants it.
function follow(seen, news, filters, signal) {
  const look = async () => {
    if (document.hidden) return;
    const samples = await metrics(signal).catch(() => []);
    const entries = samples.find((sample) => sample.name === "recalld_ledger_entries")?.value ?? 0;
    const more = entries - seen.newest;
    if (signal.aborted || more <= 0) return;
    const text = `${counted(more, "entry")} came since`;
    if (!news.hidden) find("span", news).textContent = text;
    else
      news.replaceChildren(
        make("span", {}, text),
        make("button", { type: "button", on: { click: () => filters.run() } }, "Show them"),
      );
    news.hidden = false;
  };
  const timer = setInterval(look, COUNT_EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

async function check(button, said, signal) {
  button.disabled = true;
  said.textContent = "Checking each entry and each signature";
  try {
    const found = await call("ledger_integrity_scan_tool", {}, signal);
    said.className = found.ok ? "hint good" : "hint bad";
    said.textContent = found.ok
      ? `Whole: ${counted(found.entries, "entry")} as written, ${counted(found.checkpoints.count, "signature")} good.`
      : `Broken at entry ${number(found.first_bad_seq)}: ${found.fault}`;
  } catch (error) {
    said.replaceChildren(problem(error));
  } finally {
    button.disabled = false;
  }
}
