// The start, and search as one types: what was found with its reasons, what contradicts what, how it was answered.
import { call } from "/console/ask.js";
import {
  address,
  badge,
  card,
  counted,
  empty,
  hint,
  link,
  make,
  marked,
  millis,
  noun,
  number,
  of,
  problem,
  put,
  say,
  short,
  source,
  state,
  told,
  when,
} from "/console/show.js";
import { flag } from "/console/whose.js";

// Of keys that come faster only the last one asks.
const TYPING_MS = 120;
const SNIPPET_CHARS = 420;
const QUERY_CHARS_MAX = 4096;
// Rows of a card of the start.
const ROWS_SHOWN = 6;

export async function searchView({ place, asked, signal, ready, title }) {
  const query = asked.q ?? "";
  const input = make("input", {
    id: "query",
    type: "search",
    value: query,
    maxLength: QUERY_CHARS_MAX,
    autocomplete: "off",
    spellcheck: false,
    placeholder: "Ask in plain words",
    enterKeyHint: "search",
  });
  input.setAttribute("aria-describedby", "outcome");
  const outcome = make("p", { id: "outcome", className: "outcome", role: "status" });
  const found = make("div", { className: "found" });
  put(
    place,
    make("h1", { className: "unseen", textContent: "Search" }),
    make(
      "div",
      { className: "ask", role: "search" },
      make("label", { htmlFor: "query", className: "unseen" }, "Ask what is on record"),
      input,
      make("kbd", { "aria-hidden": "true" }, "/"),
    ),
    outcome,
    found,
  );
  ready();
  const search = new Search({ found, outcome, signal, title });
  input.addEventListener("input", () => search.typed(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search.now(input.value);
  });
  // On a phone the keyboard would cover what is shown.
  if (matchMedia("(pointer: fine)").matches) input.focus({ preventScroll: true });
  await search.now(query);
}

class Search {
  constructor(parts) {
    Object.assign(this, parts);
    this.asked = undefined;
    this.stopper = new AbortController();
    this.signal.addEventListener("abort", () => {
      clearTimeout(this.timer);
      this.stopper.abort();
    });
  }

  typed(text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(text), TYPING_MS);
  }

  async now(text) {
    clearTimeout(this.timer);
    const query = text.trim();
    if (query === this.asked) return;
    this.asked = query;
    this.stopper.abort();
    const stopper = new AbortController();
    this.stopper = stopper;
    // The address follows what is typed; the back button leaves the search and not its last letter.
    history.replaceState(null, "", query ? address("search", { q: query }) : address(""));
    this.title(query ? `${query.slice(0, 60)} - Search` : "Search");
    this.found.setAttribute("aria-busy", "true");
    try {
      if (query) await this.show(query, stopper.signal);
      else await this.start(stopper.signal);
    } catch (error) {
      if (stopper.signal.aborted) return;
      this.outcome.textContent = "";
      this.found.replaceChildren(
        problem(error, () => {
          this.asked = undefined;
          this.now(text);
        }),
      );
    } finally {
      if (this.stopper === stopper) this.found.removeAttribute("aria-busy");
    }
  }

  async show(query, signal) {
    const began = performance.now();
    const answer = await call("retrieval_arbitrate_tool", { query, compact: true }, signal);
    signal.throwIfAborted();
    const took = performance.now() - began;
    const { items, conflicts, routing } = answer;
    const count = counted(items.length, "item");
    this.outcome.textContent = routing.abstained
      ? "Nothing on record answers this"
      : `${count} in ${millis(routing.took_ms)}`;
    const parts = [];
    if (routing.abstained) parts.push(abstained(routing, items.length > 0));
    if (conflicts.length) parts.push(disagreements(conflicts, items));
    if (items.length) {
      const best = Math.max(...items.map((item) => item.score), Number.MIN_VALUE);
      parts.push(
        make(
          "ol",
          { className: "rows results", "aria-label": "Found" },
          items.map((item) => result(item, items, best)),
        ),
      );
    }
    parts.push(how(routing, answer.receipt, took));
    this.found.replaceChildren(...parts);
    say(this.outcome.textContent);
  }

  // What to begin with, before anything is asked.
  async start(signal) {
    this.outcome.textContent = "";
    const [context, stats] = await Promise.all([
      call("brain_startup_context_tool", { max_bytes: 16384 }, signal),
      call("recall_stats", {}, signal),
    ]);
    signal.throwIfAborted();
    if (!stats.memory_items) {
      this.found.replaceChildren(
        empty(
          "Nothing is remembered yet",
          `Read a folder into memory: recalld ingest FOLDER${flag()}`,
          "Or connect a client, which will remember as it works: recalld connect --help",
        ),
      );
      return;
    }
    this.found.replaceChildren(strip(stats), make("div", { className: "cards" }, context.sections.map(section)));
  }
}

// ---- The start --------------------------------------------------------------------------------------

const SECTIONS = {
  preferences: "Preferences",
  intents: "Intents",
  decisions: "Decisions that stand",
  corrections: "Corrections",
  tasks: "Open tasks",
  followups: "Due",
};

function strip(stats) {
  const shown = [
    [stats.memory_items, "item"],
    [stats.by_kind?.document ?? 0, "document"],
    [stats.edges, "link"],
  ].map(([count, one]) => [count, noun(count, one)]);
  shown.push([stats.superseded, "superseded"]);
  return make(
    "p",
    { className: "strip" },
    shown.map(([count, name]) => make("span", {}, make("strong", { textContent: number(count) }), ` ${name}`)),
    link(address("figures"), "All figures"),
  );
}

function section({ name, rows, left_out: more }) {
  const list = make(
    "ul",
    { className: "plain lined" },
    rows
      .slice(0, ROWS_SHOWN)
      .map((row) =>
        make(
          "li",
          { "data-row": "" },
          link(of(row.id), told(short(row.title || row.text || row.snippet, 140))),
          make(
            "span",
            { className: "beside" },
            row.status && row.status !== "current" && state(row.status),
            when(row.due_at ?? row.at),
          ),
        ),
      ),
  );
  const left = more + Math.max(0, rows.length - ROWS_SHOWN);
  const rest = left > 0 && hint(`and ${number(left)} more`);
  return card(SECTIONS[name] ?? name, rows.length ? list : hint("None."), rest);
}

// ---- What was found ---------------------------------------------------------------------------------

function abstained(routing, hasNearest) {
  return make(
    "div",
    { className: "notice quiet" },
    make("p", {}, make("strong", {}, "Nothing on record answers this. ")),
    hint(told(routing.abstained_why), "."),
    hasNearest && make("p", {}, "What is nearest follows, and is no answer."),
  );
}

function disagreements(conflicts, items) {
  return make(
    "section",
    { className: "notice warn" },
    make("h2", {}, conflicts.length === 1 ? "Two of these disagree" : "Some of these disagree"),
    make(
      "ul",
      { className: "plain" },
      conflicts.map(({ items: pair, why }) =>
        make(
          "li",
          {},
          named(pair[0], items),
          " and ",
          named(pair[1], items),
          make("p", { className: "hint" }, told(why)),
        ),
      ),
    ),
  );
}

// A link to an item that may be among those that were found, and has its title then.
function named(id, all) {
  const item = all.find((one) => one.id === id);
  return link(of(id), told(short(item?.title || item?.text || item?.snippet || id, 90)));
}

function result(item, all, best) {
  const words = item.why?.words ?? [];
  const text = item.text ?? item.snippet ?? "";
  const line = item.provenance?.span?.line_start;
  const title = short(item.title, 200) || short(text, 90) || item.id;
  const isPast = item.status !== "current";
  const share = Math.max(0.02, Math.min(1, item.score / best));
  const bar = make("span", { className: "bar", "aria-hidden": "true" }, make("span"));
  bar.firstChild.style.inlineSize = `${(share * 100).toFixed(0)}%`;
  return make(
    "li",
    { className: `row result ${isPast ? "is-past" : ""}`, "data-row": "" },
    make(
      "div",
      { className: "row-head" },
      make("h2", {}, link(of(item.id), told(title))),
      make(
        "span",
        { className: "score", title: "Score" },
        bar,
        make("span", { className: "unseen" }, "Score "),
        item.score.toFixed(3),
      ),
    ),
    make(
      "p",
      { className: "meta" },
      badge(item.kind),
      isPast && state(item.status),
      item.sensitivity && item.sensitivity !== "internal" && badge(item.sensitivity, "warn"),
      when(item.provenance?.recorded_at),
      item.source?.uri && source(line ? `${item.source.uri}:${line}` : item.source.uri),
    ),
    make("p", { className: "snippet", dir: "auto" }, ...marked(around(text, words), words)),
    isPast &&
      item.superseded_by &&
      make("p", { className: "stands" }, "What stands now: ", named(item.superseded_by, all)),
    reasons(item, all),
  );
}

// The part of a text where its first word stands.
function around(text, words) {
  const flat = text.replace(/\s+/g, " ").trim();
  if (flat.length <= SNIPPET_CHARS) return flat;
  const places = words.map((word) => flat.toLowerCase().indexOf(word.toLowerCase())).filter((at) => at >= 0);
  const from = Math.max(0, Math.min(...(places.length ? places : [0])) - 80);
  const start = from ? flat.indexOf(" ", from) + 1 : 0;
  return `${start ? "\u2026" : ""}${flat.slice(start, start + SNIPPET_CHARS).trimEnd()}${start + SNIPPET_CHARS < flat.length ? "\u2026" : ""}`;
}

function reasons(item, all) {
  const { why } = item;
  if (!why) return hint("Why it was found is not told of what policy keeps back.");
  const reason = (name, ...value) => make("li", {}, make("span", { className: "reason" }, name), ...value);
  const shown = [];
  if (why.words?.length) shown.push(reason("words", told(why.words.join(", "))));
  if (why.cosine !== undefined) shown.push(reason("meaning", why.cosine.toFixed(2)));
  if (why.time !== undefined) shown.push(reason("time", why.time.toFixed(2)));
  if (why.place !== undefined) shown.push(reason("place", why.place.toFixed(2)));
  for (const hop of why.path ?? []) {
    const from = all.find((one) => one.id === hop.from);
    const arrow = hop.direction === "in" ? "\u2190" : "\u2192";
    shown.push(
      reason("link", link(of(hop.from), told(short(from?.title || hop.from, 50))), ` ${arrow} `, told(hop.relation)),
    );
  }
  if (why.replaced) shown.push(reason("in place of", named(why.replaced, all)));
  if (item.duplicates?.length) {
    shown.push(
      reason(
        "says the same as",
        item.duplicates.flatMap((id, at) => [at ? ", " : "", named(id, all)]),
      ),
    );
  }
  return make("ul", { className: "reasons", "aria-label": "Why it was found" }, shown);
}

// Which lanes ran and why, within which bounds.
function how(routing, receipt, took) {
  const rows = [
    ...routing.lanes.map((lane) => [lane.lane, lane.why, number(lane.candidates), millis(lane.took_ms)]),
    ...(routing.skipped ?? []).map((lane) => [lane.lane, lane.why, "skipped", ""]),
  ];
  const cells = (row) => row.map((cell, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, told(cell)));
  const { bounds } = routing;
  const facts = [
    `At most ${counted(bounds.limit, "item")}, ${number(bounds.candidate_limit)} candidates, ${number(bounds.max_bytes)} bytes, ${number(bounds.deadline_ms)} ms.`,
    routing.withheld ? `${number(routing.withheld)} kept back by policy.` : "",
    routing.truncated ? "Texts were shortened, or some had no room." : "",
    routing.as_of ? `As of ${routing.as_of}.` : "",
    receipt ? `Entry ${number(receipt.seq)} of the ledger, ${receipt.decision}.` : "",
    `${millis(took)} with the way here.`,
  ];
  return make(
    "details",
    { className: "how" },
    make("summary", {}, "How it was answered"),
    make(
      "div",
      { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Lanes" },
      make(
        "table",
        {},
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ["Lane", "Why", "Candidates", "Took"].map((name) => make("th", { scope: "col" }, name)),
          ),
        ),
        make(
          "tbody",
          {},
          rows.map((row) => make("tr", {}, cells(row))),
        ),
      ),
    ),
    hint(facts.filter(Boolean).join(" ")),
  );
}
