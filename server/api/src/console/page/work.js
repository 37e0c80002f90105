// What is being done and what is due: tasks, follow-ups, and the brief of a day.
import { call } from "/console/ask.js";
import {
  address,
  badge,
  card,
  choice,
  counted,
  empty,
  exactly,
  facts,
  field,
  find,
  heading,
  hint,
  link,
  make,
  number,
  of,
  one,
  paged,
  prose,
  put,
  raw,
  state,
  told,
  when,
} from "/console/show.js";
import { Filters } from "/console/filters.js";

const TASK_STATES = ["planned", "running", "blocked", "succeeded", "failed", "abandoned"];
const DAY_MS = 86_400_000;
// Rows of a section of the brief, before somebody asks for the others.
const ROWS_SHOWN = 12;

// ---- Tasks ------------------------------------------------------------------------------------------

export async function tasksView({ place, asked, signal, ready }) {
  const words = make("input", {
    type: "search",
    value: asked.task ?? "",
    maxLength: 200,
    placeholder: "move the queue",
  });
  const status = choice([["", "All"], ...TASK_STATES.map((word) => [word, word])], asked.status ?? "");
  const filters = new Filters({
    view: "tasks",
    fields: [
      { name: "task", label: "Words of the task", input: words },
      { name: "status", label: "State", input: status },
    ],
    signal,
    fill: tasks,
  });
  put(place, heading("Tasks"), filters.element, filters.body);
  ready();
  await filters.run();
}

async function tasks(part, { task, status }, signal) {
  const list = make("ul", { className: "rows", "aria-label": "Tasks" });
  put(part, list);
  await paged(
    list,
    async (cursor) => {
      const page = await call("list_task_attempts_tool", { task, status, cursor }, signal);
      return { rows: page.attempts, next: page.next_cursor };
    },
    attempt,
  );
  if (list.children.length) return;
  part.replaceChildren(
    task || status
      ? empty("No task is like that")
      : empty(
          "No task was tried yet",
          "Clients note what they try with record_task_attempt_tool, and what came of it.",
        ),
  );
}

function attempt(task) {
  return make(
    "li",
    { className: "row", "data-row": "" },
    make(
      "div",
      { className: "row-head" },
      make("h2", {}, link(one("task", task.attempt_id), told(task.task))),
      state(task.status),
    ),
    task.approach && make("p", { className: "snippet", dir: "auto" }, task.approach.slice(0, 300)),
    make(
      "p",
      { className: "meta" },
      when(task.updated_at),
      task.by && make("span", {}, "by ", told(task.by)),
      task.tags?.map((tag) => badge(tag)),
    ),
  );
}

export async function taskView({ place, id, signal, ready, title }) {
  const answer = await call("get_task_attempt_tool", { attempt_id: id }, signal);
  ready();
  const { attempt: task, history, truncated } = answer;
  title(task.task);
  const moves = history.map((move) =>
    make(
      "li",
      { className: move.item_id === task.item_id ? "is-here" : "" },
      make(
        "p",
        { className: "line" },
        state(move.status),
        when(move.at),
        move.by && make("span", {}, "by ", told(move.by)),
      ),
      move.note && make("p", { dir: "auto" }, told(move.note)),
      move.evidence?.length ? make("p", { className: "hint" }, "Evidence: ", told(move.evidence.join(", "))) : null,
    ),
  );
  put(
    place,
    make("div", { className: "of" }, badge("task"), state(task.status)),
    make("h1", {}, told(task.task)),
    make(
      "div",
      { className: "two" },
      make(
        "div",
        {},
        task.approach && card("How", prose(task.approach)),
        card(
          "How it came to this",
          make("ol", { className: "timeline" }, moves),
          truncated && hint("Older moves are left out."),
        ),
      ),
      make(
        "aside",
        { "aria-label": "About it" },
        card(
          "About it",
          facts([
            ["Moved", when(task.updated_at)],
            ["By", task.by],
            ["Part of", task.parent_id && link(one("task", task.parent_id), told(task.parent_id))],
            ["Evidence", task.evidence?.join(", ")],
            ["Tags", task.tags?.join(", ")],
            ["As an item", link(one("item", task.item_id), "policy, chain, neighbours")],
            ["Id", make("code", { textContent: task.attempt_id })],
          ]),
        ),
        raw(task),
      ),
    ),
  );
}

// ---- Follow-ups -------------------------------------------------------------------------------------

const AHEAD = [
  ["0", "Due now"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["365", "A year"],
];
const DAYS_AHEAD = "30";

export async function followupsView({ place, asked, signal, ready }) {
  const days = AHEAD.some(([value]) => value === asked.days) ? asked.days : DAYS_AHEAD;
  const filters = new Filters({
    view: "followups",
    fields: [{ name: "days", label: "How far ahead", input: choice(AHEAD, days), usual: DAYS_AHEAD }],
    signal,
    fill: followups,
  });
  put(place, heading("Follow-ups"), filters.element, filters.body);
  ready();
  await filters.run();
}

async function followups(part, { days = DAYS_AHEAD }, signal) {
  const lists = {
    overdue: make("ul", { className: "rows", "aria-label": "Overdue" }),
    ahead: make("ul", { className: "rows", "aria-label": "Ahead" }),
  };
  const overdue = make("section", { hidden: true }, make("h2", { className: "group bad" }, "Overdue"), lists.overdue);
  const coming = make("section", { hidden: true }, make("h2", { className: "group" }, "Ahead"), lists.ahead);
  const all = make("div", {});
  put(part, overdue, coming, all);
  const before = new Date(Date.now() + Number(days) * DAY_MS).toISOString();
  let count = 0;
  await paged(
    all,
    async (cursor) => {
      const page = await call("due_followups_tool", { before, cursor }, signal);
      return { rows: page.followups, next: page.next_cursor };
    },
    (followup) => {
      const isOver = followup.overdue_by !== undefined;
      count += 1;
      (isOver ? overdue : coming).hidden = false;
      (isOver ? lists.overdue : lists.ahead).append(due(followup, isOver));
      return document.createDocumentFragment();
    },
  );
  if (!count)
    part.replaceChildren(empty("Nothing is due", "Clients note what to come back to with schedule_followup_tool."));
}

function due(followup, isOver) {
  return make(
    "li",
    { className: "row", "data-row": "" },
    make(
      "div",
      { className: "row-head" },
      make("h2", {}, link(one("item", followup.item_id), told(followup.text ?? followup.followup_id))),
      make("span", { className: isOver ? "due bad" : "due" }, when(followup.due_at)),
    ),
    make(
      "p",
      { className: "meta" },
      make("span", {}, exactly(followup.due_at)),
      followup.repeat && followup.repeat !== "none" && badge(followup.repeat),
      followup.timezone && told(followup.timezone),
      followup.about && make("span", {}, "about ", link(of(followup.about), told(followup.about))),
      followup.by && make("span", {}, "by ", told(followup.by)),
    ),
  );
}

// ---- The brief --------------------------------------------------------------------------------------

export async function briefView({ place, asked, signal, ready, title }) {
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const brief = await call("generate_daily_brain_brief_tool", { date: asked.date, timezone, format: "json" }, signal);
  ready();
  const { day, sections = [] } = brief;
  const noon = new Date(`${day.date}T12:00:00Z`);
  const moved = (by) => new Date(noon.getTime() + by * DAY_MS).toISOString().slice(0, 10);
  const name = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeZone: "UTC" }).format(noon);
  title(name);
  const picker = make("input", { type: "date", value: day.date });
  picker.addEventListener("change", () => picker.value && location.assign(address("brief", { date: picker.value })));
  put(
    place,
    heading(
      asked.date ? name : "Today",
      make("p", { className: "sub" }, asked.date ? day.timezone : `${name}, ${day.timezone}`),
    ),
    make(
      "div",
      { className: "filters" },
      field("Day", picker, { id: "day" }),
      make(
        "div",
        { className: "pair" },
        make("a", { className: "button", href: address("brief", { date: moved(-1) }) }, "Day before"),
        make("a", { className: "button", href: address("brief", { date: moved(1) }) }, "Day after"),
      ),
    ),
  );
  const filled = sections.filter((section) => section.count > 0 || section.rows?.length);
  if (!filled.length) {
    put(place, empty("Nothing was recorded on this day"));
    return;
  }
  put(
    place,
    make("div", { className: "cards" }, filled.map(section)),
    brief.withheld ? hint(`${counted(brief.withheld, "item")} kept back by policy.`) : "",
  );
}

const words = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

function section({ name, count, rows }) {
  const list = make("ul", { className: "plain lined" }, rows.slice(0, ROWS_SHOWN).map(line));
  const more = count - rows.length;
  const rest = rows.slice(ROWS_SHOWN);
  const all =
    rest.length > 0 && make("button", { type: "button", className: "more" }, `Show all ${number(rows.length)}`);
  if (all)
    all.addEventListener("click", () => {
      const first = list.children.length;
      put(list, rest.map(line));
      all.remove();
      find("a", list.children[first]).focus();
    });
  return make(
    "section",
    { className: "card" },
    make("h2", {}, words(name), " ", make("span", { className: "count" }, number(count))),
    list,
    all,
    more > 0 && hint(`and ${number(more)} more`),
  );
}

const line = (row) =>
  make(
    "li",
    { "data-row": "" },
    link(of(row.id), told(row.title || row.id)),
    make(
      "span",
      { className: "beside" },
      row.status && state(row.status),
      valence(row.valence),
      when(row.due_at ?? row.at),
    ),
    row.wrong && make("p", { className: "hint" }, "Not: ", told(row.wrong)),
  );

function valence(value) {
  if (value === undefined || value === null) return null;
  return badge(value > 0 ? `+${value}` : String(value), value > 0 ? "state good" : value < 0 ? "state bad" : "");
}
