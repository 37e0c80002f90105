// Which view is shown: the part of the address behind #. Owns the keyboard, the theme, and what a view is given; each
// view is a module of its own, which is given an element to fill, what is asked of it, and a signal that it was left.
import { address, find, heading, link, make, problem, put, say, waiting } from "/console/show.js";
import { isSignedIn, onSession, signOut } from "/console/ask.js";
import { signedIn } from "/console/acts.js";
import { within, workspace } from "/console/whose.js";
import { searchView } from "/console/search.js";
import { itemView } from "/console/item.js";
import { documentView, documentsView } from "/console/documents.js";
import { briefView, followupsView, taskView, tasksView } from "/console/work.js";
import { ledgerView } from "/console/ledger.js";
import { figuresView } from "/console/figures.js";
import { tenantsView, tenantView } from "/console/tenants.js";

// Path, view, the entry of the menu that it belongs to, title; whether it is of one thing, and of no workspace.
const VIEWS = {
  "": { show: searchView, menu: "search", title: "Search" },
  search: { show: searchView, menu: "search", title: "Search" },
  item: { show: itemView, menu: "search", title: "Item", of: true },
  documents: { show: documentsView, menu: "documents", title: "Documents" },
  document: { show: documentView, menu: "documents", title: "Document", of: true },
  tasks: { show: tasksView, menu: "tasks", title: "Tasks" },
  task: { show: taskView, menu: "tasks", title: "Task", of: true },
  followups: { show: followupsView, menu: "followups", title: "Follow-ups" },
  brief: { show: briefView, menu: "brief", title: "Today" },
  ledger: { show: ledgerView, menu: "ledger", title: "Ledger" },
  figures: { show: figuresView, menu: "figures", title: "Figures" },
  tenants: { show: tenantsView, menu: "tenants", title: "Tenants", isOfAll: true },
  tenant: { show: tenantView, menu: "tenants", title: "Tenant", of: true, isOfAll: true },
};
const THEMES = ["auto", "light", "dark"];
// After g, the letter of a view is waited for so long.
const CHORD_MS = 1500;
const main = find("#main");
let leave = new AbortController();

// ---- Views ------------------------------------------------------------------------------------------

// A tenant's workspace stands before the view, as @SLUG.
function asked() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [, slug = "", rest] = /^(?:@([a-z0-9-]{1,40})(?:\/|$))?(.*)$/s.exec(path);
  const [name, id] = rest.split("/", 2);
  return { slug, name, id: id && decoded(id), asked: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function title(text) {
  document.title = `${text} - ${workspace() ? `${workspace()} - ` : ""}recalld`;
}

async function show({ keepsFocus = false } = {}) {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const route = asked();
  const known = Object.hasOwn(VIEWS, route.name) ? VIEWS[route.name] : undefined;
  const view = known?.isOfAll && route.slug ? undefined : known;
  within(route.slug);
  showMenu(view);
  const place = make("div", { className: "view" });
  if (!view || (view.of && !route.id)) {
    place.append(heading("There is no such view"), make("p", {}, link(address(""), "To the search")));
    main.replaceChildren(place);
    return;
  }
  title(view.title);
  main.replaceChildren(put(make("div"), route.slug && whose(route.slug), place));
  window.scrollTo(0, 0);
  if (!keepsFocus) main.focus({ preventScroll: true });
  const wait = waiting();
  place.append(wait);
  const shown = { place, id: route.id, asked: route.asked, signal, ready: () => wait.remove(), title };
  try {
    if (route.slug && !(await signedIn(shown, view.title))) return;
    await view.show(shown);
  } catch (error) {
    if (signal.aborted) return;
    if (!find("h1", place)) place.prepend(heading(view.title));
    place.append(problem(error, () => show()));
    say(error.message);
  } finally {
    wait.remove();
  }
}

// Entries lead to views of the workspace that is shown, and say which one that is.
function showMenu(view) {
  find(".brand").href = address("");
  for (const entry of document.querySelectorAll("nav a")) {
    entry.dataset.path ??= entry.getAttribute("href").slice("#/".length);
    const { isOfAll } = VIEWS[entry.dataset.path];
    entry.href = isOfAll ? `#/${entry.dataset.path}` : address(entry.dataset.path);
    if (entry.dataset.view === view?.menu) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
  // On a phone the menu is a line that is longer than the window.
  const [menu, current] = [find("nav"), find("nav a[aria-current]")];
  if (current) menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
}

// Says whose workspace is shown, where it is not the operator's own.
const whose = (slug) =>
  make(
    "p",
    { className: "whose" },
    make("span", {}, "Workspace ", make("strong", {}, slug), ". Its ledger notes what you look at."),
    link(`#/tenant/${slug}`, "Plan and keys"),
    link("#/", "Back to your own"),
  );

// ---- Theme, session ---------------------------------------------------------------------------------

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function showTheme() {
  find("#theme").textContent = `Theme: ${theme()}`;
}

find("#theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("recalld-console-theme", next);
  } catch {
    // Then it holds until the page is left.
  }
  showTheme();
});

async function showSession() {
  const isIn = await isSignedIn().catch(() => false);
  find("#sign-out").hidden = !isIn;
}

find("#sign-out").addEventListener("click", async () => {
  try {
    await signOut();
    say("Signed out");
    if (workspace() || asked().name.startsWith("tenant")) show();
  } catch (error) {
    say(error.message);
  }
});
onSession(showSession);

// ---- Keyboard ---------------------------------------------------------------------------------------

const isField = (element) => element?.matches?.("input, textarea, select, [contenteditable]") ?? false;
let chordAt = -Infinity;

// The next or the previous row of the view gets the focus.
function step(by) {
  const rows = [...main.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1);
  const target = rows[next].matches("a, button") ? rows[next] : find("a, button", rows[next]);
  target?.focus();
  target?.scrollIntoView({ block: "nearest" });
}

function escape(event) {
  const active = document.activeElement;
  if (isField(active)) {
    // A field for searches would be emptied by it.
    event.preventDefault();
    active.blur();
    main.focus({ preventScroll: true });
  } else if (VIEWS[asked().name]?.of) {
    history.back();
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return;
  if (event.key === "Escape") return escape(event);
  if (event.key === "ArrowDown" && document.activeElement?.id === "query") {
    event.preventDefault();
    return step(1);
  }
  if (isField(document.activeElement)) return;
  if (performance.now() - chordAt < CHORD_MS) {
    chordAt = -Infinity;
    const entry = find(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (entry) {
      event.preventDefault();
      location.hash = entry.getAttribute("href");
    }
    return;
  }
  const acts = {
    "/": () => (find("#query") ? find("#query").focus() : (location.hash = address(""))),
    j: () => step(1),
    k: () => step(-1),
    g: () => {
      chordAt = performance.now();
    },
    "?": () => find("#help").showModal(),
  };
  if (Object.hasOwn(acts, event.key)) {
    event.preventDefault();
    acts[event.key]();
  }
}

// ---- The start --------------------------------------------------------------------------------------

find("#show-help").addEventListener("click", () => find("#help").showModal());
find(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", onKey);
addEventListener("hashchange", () => show());
showTheme();
showSession();
show({ keepsFocus: true });
