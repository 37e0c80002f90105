// The ledger: its newest entries, as far as filters let them through, and whether it is whole.
import { call, metrics } from "/console/ask.js";
import {
  address,
  badge,
  choice,
  clock,
  counted,
  empty,
  field,
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

// The count of entries is asked for so often; that reads no entry, and so makes none.
const COUNT_EVERY_MS = 3_000;
const TYPING_MS = 500;

export async function ledgerView({ place, asked, signal, ready }) {
  const filters = {
    tool: make("input", {
      value: asked.tool ?? "",
      maxLength: 64,
      placeholder: "retrieval_arbitrate_tool",
      spellcheck: false,
    }),
    principal: make("input", {
      value: asked.principal ?? "",
      maxLength: 160,
      placeholder: "operator",
      spellcheck: false,
    }),
    decision: choice(
      [
        ["", "All"],
        ["allow", "allow"],
        ["redact", "redact"],
        ["deny", "deny"],
      ],
      asked.decision ?? "",
    ),
    from: make("input", { type: "datetime-local", value: asked.from ?? "" }),
    to: make("input", { type: "datetime-local", value: asked.to ?? "" }),
  };
  const names = { tool: "Tool", principal: "Who", decision: "Decision", from: "From", to: "Before" };
  const news = make("p", { className: "news", hidden: true });
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
        ["Entry", "When", "Tool", "Decision", "Who", "Items"].map((name) => make("th", { scope: "col" }, name)),
      ),
    ),
    list,
  );
  const body = make("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Entries" }, table);
  const scan = make("button", { type: "button" }, "Check the whole ledger");
  const checked = make("p", { className: "hint", role: "status" });
  scan.addEventListener("click", () => check(scan, checked, signal));
  put(
    place,
    heading("Ledger", scan),
    checked,
    make(
      "div",
      { className: "filters" },
      Object.entries(filters).map(([name, input]) => field(names[name], input, { id: `filter-${name}` })),
    ),
    news,
    body,
  );
  ready();
  const again = () => {
    const given = Object.fromEntries(Object.entries(filters).map(([name, input]) => [name, input.value.trim()]));
    const next = address("ledger", given);
    if (next !== location.hash) location.replace(next);
  };
  let timer;
  for (const input of Object.values(filters)) {
    input.addEventListener("change", again);
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(again, TYPING_MS * 2);
    });
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  let newest = 0;
  await paged(
    list,
    async (cursor) => {
      const given = {
        tool: asked.tool,
        principal: asked.principal,
        decision: asked.decision,
        from: moment(asked.from),
        to: moment(asked.to),
        cursor,
      };
      const page = await call("audit_trail_tool", given, signal);
      newest = Math.max(newest, page.receipt.seq);
      return { rows: page.entries, next: page.next_cursor };
    },
    entry,
    body,
  );
  if (!list.children.length)
    body.replaceChildren(
      empty("No entry is like that", "Each governed call leaves one; filters may leave out all of them."),
    );
  follow(newest, news, signal);
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
async function follow(newest, news, signal) {
  const look = async () => {
    if (document.hidden) return;
    const samples = await metrics(signal).catch(() => []);
    const entries = samples.find((sample) => sample.name === "recalld_ledger_entries")?.value ?? 0;
    const more = entries - newest;
    if (signal.aborted || more <= 0) return;
    const text = `${counted(more, "entry")} came since`;
    if (!news.hidden) find("span", news).textContent = text;
    else
      news.replaceChildren(
        make("span", {}, text),
        make(
          "button",
          { type: "button", on: { click: () => dispatchEvent(new HashChangeEvent("hashchange")) } },
          "Show them",
        ),
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
