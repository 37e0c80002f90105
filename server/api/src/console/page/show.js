// Elements, and how values are written. What comes out of memory becomes text here, and never markup.
import { workspace } from "/console/whose.js";

const SVG = "http://www.w3.org/2000/svg";
const MINUTE = 60_000;
const UNITS = [
  ["year", 365.25 * 1440],
  ["month", 30.44 * 1440],
  ["week", 7 * 1440],
  ["day", 1440],
  ["hour", 60],
  ["minute", 1],
];
// More of one text is shown when somebody asks for it.
const TEXT_CHARS_FIRST = 6_000;
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const second = new Intl.DateTimeFormat("en-GB", { dateStyle: "short", timeStyle: "medium" });
const numbers = new Intl.NumberFormat("en");

// An element with properties, or attributes where there is no such property, and children that are elements or texts.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  return put(element, ...children);
}

// Puts children into an element, but for those that are nothing.
export function put(element, ...children) {
  element.append(
    ...children.flat().filter((child) => child !== undefined && child !== null && child !== false && child !== ""),
  );
  return element;
}

export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// A text that somebody wrote into memory: it keeps its direction to itself.
export const told = (text, className) => make("bdi", { className, textContent: String(text ?? "") });

export const find = (selector, inside = document) => inside.querySelector(selector);

// Tells those who listen and do not look.
export function say(text) {
  find("#said").textContent = text;
}

// ---- Values -----------------------------------------------------------------------------------------

export const number = (value) => numbers.format(value);

// The word for so many: `item`, `items`, `entries`.
export const noun = (count, one) => (count === 1 ? one : one.replace(/(?<![aeou])y$/, "ie") + "s");

// A number and what is counted.
export const counted = (count, one) => `${number(count)} ${noun(count, one)}`;

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), units.length - 1) : 0;
  const scaled = value / 1024 ** at;
  return `${scaled >= 100 || at === 0 ? Math.round(scaled) : scaled.toFixed(1)} ${units[at]}`;
}

export function millis(value) {
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value >= 100 ? Math.round(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ms`;
}

export function ago(at, now = Date.now()) {
  const minutes = (new Date(at).getTime() - now) / MINUTE;
  if (Number.isNaN(minutes)) return String(at);
  const unit = UNITS.find(([, size]) => Math.abs(minutes) >= size);
  return unit ? relative.format(Math.trunc(minutes / unit[1]), unit[0]) : "just now";
}

// When something was, as one says it; exactly beneath the pointer.
export function when(at) {
  const date = new Date(at);
  if (!at || Number.isNaN(date.getTime())) return told(at ?? "");
  return make("time", { dateTime: at, title: moment.format(date), textContent: ago(at) });
}

// To the second, for what is read line by line.
export function clock(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime())
    ? told(at)
    : make("time", { dateTime: at, title: ago(at), textContent: second.format(date) });
}

export function exactly(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : moment.format(date);
}

// A text as one line, cut where it is long.
export function short(text, chars) {
  const line = String(text ?? "")
    .replace(/\s+/g, " ")
    .trim();
  return line.length > chars ? `${line.slice(0, chars).trimEnd()}\u2026` : line;
}

// ---- Links ------------------------------------------------------------------------------------------

// The address of a view of the workspace that is shown: its path, and what it is asked for.
export function address(path, asked = {}) {
  const entries = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(entries).toString();
  return `#/${workspace() ? `@${workspace()}/` : ""}${path}${query ? `?${query}` : ""}`;
}

export const one = (kind, id, asked) => address(`${kind}/${encodeURIComponent(id)}`, asked);

// The view of an id by its prefix.
export function of(id, asked) {
  if (id.startsWith("doc_")) return one("document", id, asked);
  if (id.startsWith("tsk_")) return one("task", id, asked);
  return one("item", id, asked);
}

export const link = (href, ...children) => make("a", { href }, ...children);

// Where something is from. Only addresses of the web are links.
export function source(uri) {
  const text = String(uri ?? "");
  if (/^https?:\/\//i.test(text)) {
    return make("a", { href: text, rel: "noopener noreferrer", target: "_blank", className: "uri" }, told(text));
  }
  return told(text.replace(/^file:\/\//, ""), "uri");
}

// ---- Parts of pages ---------------------------------------------------------------------------------

export const badge = (text, kind = "") => make("span", { className: `badge ${kind}` }, told(text));

const STATES = {
  current: "good",
  superseded: "past",
  tombstoned: "bad",
  erased: "bad",
  active: "good",
  suspended: "warn",
  revoked: "past",
  ok: "good",
  running: "live",
  planned: "",
  blocked: "warn",
  succeeded: "good",
  failed: "bad",
  abandoned: "past",
  open: "",
  done: "good",
  allow: "good",
  redact: "warn",
  deny: "bad",
  refused: "warn",
  cancelled: "warn",
  deleted: "bad",
  rotated: "past",
  expired: "past",
};

export const state = (word) => badge(word, `state ${STATES[word] ?? ""}`);

export const heading = (text, ...beside) => make("div", { className: "heading" }, make("h1", {}, text), ...beside);

export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return make(
    "dl",
    { className: "facts" },
    shown.map(([name, value]) =>
      make("div", {}, make("dt", { textContent: name }), make("dd", {}, value instanceof Node ? value : told(value))),
    ),
  );
}

export const card = (title, ...content) => make("section", { className: "card" }, make("h2", {}, title), ...content);

export const hint = (...content) => make("p", { className: "hint" }, ...content);

// Nothing is there, and why that may be.
export const empty = (title, ...why) =>
  make(
    "div",
    { className: "empty" },
    make("p", { className: "empty-title", textContent: title }),
    ...why.map((text) => make("p", {}, text)),
  );

// Shown by its style once it took a moment.
export const waiting = (text = "Loading") => make("p", { className: "waiting", role: "status" }, text);

export function problem(error, again) {
  const title = error.status === 404 ? "That is not there" : error.status === 0 ? "No answer" : "That did not work";
  const retry = again && make("button", { type: "button", on: { click: again } }, "Try again");
  const wait = error.waits ? ` There may be another try in ${error.waits} s.` : "";
  return make(
    "div",
    { className: "problem", role: "alert" },
    make("p", { className: "empty-title", textContent: title }),
    make("p", {}, told(error.message), wait),
    retry,
  );
}

export function copier(text, label = "Copy") {
  const button = make("button", { type: "button", className: "quiet" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    say(button.textContent);
    setTimeout(() => {
      button.textContent = label;
    }, 1500);
  });
  return button;
}

// A long text: its beginning, and the rest when somebody wants it. Words are marked where they stand.
export function prose(text, { className = "prose", words = [] } = {}) {
  const whole = String(text ?? "");
  const body = make("div", { className, dir: "auto" });
  body.append(...marked(whole.slice(0, TEXT_CHARS_FIRST), words));
  if (whole.length <= TEXT_CHARS_FIRST) return body;
  const more = make("button", { type: "button" }, `Show all ${number(whole.length)} characters`);
  more.addEventListener("click", () => {
    body.replaceChildren(whole);
    more.remove();
  });
  return make("div", {}, body, more);
}

// The text in pieces, words in <mark>.
export function marked(text, words) {
  const wanted = words.filter((word) => word.length > 1).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!wanted.length) return [text];
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${wanted.join("|")})`, "giu");
  return text.split(pattern).map((part, at) => (at % 2 ? make("mark", { textContent: part }) : part));
}

export function raw(value) {
  const text = JSON.stringify(value, null, 2);
  const details = make("details", { className: "raw" }, make("summary", {}, "As the service gave it"));
  details.addEventListener(
    "toggle",
    () => {
      if (details.open && details.children.length === 1) {
        const shown = make("pre", { tabIndex: 0, textContent: text.slice(0, 20 * TEXT_CHARS_FIRST) });
        details.append(copier(text), shown);
      }
    },
    { once: true },
  );
  return details;
}

// A field with its label.
export function field(label, input, { id, help } = {}) {
  input.id = id;
  const about = help && make("p", { className: "hint", id: `${id}-help` }, help);
  if (about) input.setAttribute("aria-describedby", about.id);
  return make("div", { className: "field" }, make("label", { htmlFor: id }, label), input, about);
}

export function choice(options, chosen) {
  const select = make("select");
  for (const [value, text] of options)
    select.append(make("option", { value, textContent: text, selected: value === chosen }));
  return select;
}

// A list that comes in pages: `fetch(cursor)` gives {rows, next}, `row` an element for each. What asks for the next one
// stands behind the list, or behind what it is in.
export async function paged(list, fetch, row, within = list) {
  const more = make("button", { type: "button", className: "more" }, "Show more");
  async function page(cursor) {
    const { rows, next } = await fetch(cursor);
    list.append(...rows.map(row));
    more.remove();
    if (!next) return;
    more.disabled = false;
    more.textContent = "Show more";
    more.onclick = () => {
      more.disabled = true;
      more.textContent = "Loading";
      const shown = list.children.length;
      page(next)
        .then(() => {
          const row = list.children[shown];
          if (row) find("a", row)?.focus();
        })
        .catch((error) => {
          more.disabled = false;
          more.textContent = "Try again";
          if (error.name !== "AbortError") say(error.message);
        });
    };
    within.after(more);
  }
  await page(undefined);
}
