// An item is corrected, or forgotten once somebody saw what would go. Each is the call that a client makes, in a session of
// administration.
import { change } from "/console/ask.js";
import { dialogue, unlocked } from "/console/acts.js";
import {
  address,
  card,
  choice,
  counted,
  empty,
  field,
  hint,
  link,
  make,
  number,
  of,
  problem,
  put,
  say,
  told,
} from "/console/show.js";

const REASON_CHARS_MAX = 500;
const TEXT_CHARS_MAX = 32_768;
const TITLE_CHARS_MAX = 300;
// So much of an id's end is typed before an item is erased.
const TYPED_CHARS = 6;
const MODES = [
  ["tombstone", "Hide it from everybody"],
  ["erase", "Erase it from every file"],
];
const MEANS = {
  tombstone: "Nobody finds it any more. Its bytes stay in the files of the store until they are erased.",
  erase: "Its bytes go from every file of the store, and from backups. Nobody can bring it back.",
};

// The card of an item's page. `gone` is told what became of an item that went.
export function changes(item, cut, gone) {
  const correct = make("button", { type: "button", on: { click: () => corrected(item) } }, "Correct");
  const forget = make(
    "button",
    { type: "button", className: "danger", on: { click: () => forgotten(item, gone) } },
    "Forget",
  );
  // What the service keeps by itself has tools of its own; of what was cut the rest would be lost.
  const mayCorrect = item.status === "current" && item.id.startsWith("itm_") && item.text && !cut;
  return card("Change it", make("div", { className: "actions" }, mayCorrect && correct, forget));
}

const reasonField = (id) => {
  const reason = make("input", { required: true, maxLength: REASON_CHARS_MAX, autocomplete: "off" });
  return [reason, field("Why", reason, { id, help: "It is kept with the change." })];
};

const leave = (close) => make("button", { type: "button", on: { click: () => close() } }, "Leave it");

// Does the work of a form, which waits and cannot be left meanwhile; what was wrong stands in `said`.
async function tried(button, said, work) {
  const { form } = button;
  form.inert = true;
  form.parentElement.closedBy = "none";
  said.replaceChildren();
  try {
    await work();
  } catch (error) {
    said.replaceChildren(problem(error));
  } finally {
    form.inert = false;
    form.parentElement.closedBy = "closerequest";
    button.focus();
  }
}

// ---- Correcting -------------------------------------------------------------------------------------

async function corrected(item) {
  if (!(await unlocked())) return;
  const answer = await dialogue("Correct it", (close, form) => {
    const title = make("input", {
      value: item.title ?? "",
      maxLength: TITLE_CHARS_MAX,
      // Without one the old one stays, which nobody would expect who has emptied it.
      required: Boolean(item.title),
      autocomplete: "off",
      dir: "auto",
    });
    const text = make("textarea", {
      value: item.text,
      rows: 10,
      required: true,
      maxLength: TEXT_CHARS_MAX,
      dir: "auto",
    });
    const [reason, why] = reasonField("correct-reason");
    const said = make("div");
    const go = make("button", { type: "submit", className: "main" }, "Put it in its place");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      // A title that is the first line of the text goes with it, unless somebody wrote another.
      const name = title.value.trim();
      const given = {
        item_id: item.id,
        text: text.value,
        reason: reason.value.trim(),
        title: name === item.title ? "" : name,
      };
      tried(go, said, async () => close(await change("supersede_item_tool", given)));
    });
    return [
      hint("A new version takes its place. The old one stays in the chain, with why."),
      field("Title", title, { id: "correct-title" }),
      field("Text", text, { id: "correct-text" }),
      why,
      said,
      make("div", { className: "actions" }, leave(close), go),
    ];
  });
  if (!answer) return;
  say(`It was corrected: entry ${number(answer.receipt.seq)} of the ledger.`);
  location.hash = of(answer.item.id);
}

// ---- Forgetting -------------------------------------------------------------------------------------

async function forgotten(item, gone, mode = "tombstone") {
  if (!(await unlocked())) return;
  const wanted = await dialogue("Forget it", (close, form) => {
    const how = choice(MODES, mode);
    const means = hint(MEANS[mode]);
    how.addEventListener("change", () => {
      means.textContent = MEANS[how.value];
    });
    const [reason, why] = reasonField("forget-reason");
    const said = make("div");
    const go = make("button", { type: "submit", className: "main" }, "See what goes");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = { item_id: item.id, reason: reason.value.trim(), mode: how.value };
      tried(go, said, async () => close({ given, going: await change("forget_item_tool", given, { dryRun: true }) }));
    });
    return [
      field("How", how, { id: "forget-how" }),
      means,
      why,
      said,
      make("div", { className: "actions" }, leave(close), go),
    ];
  });
  const done = wanted && (await agreed(item, wanted));
  if (done) gone(outcome(item, done, gone));
}

// What would go, and the word that it may.
function agreed(item, { given, going }) {
  const isErasure = given.mode === "erase";
  const count = going.forgotten === 1 ? "one item" : `${number(going.forgotten)} items`;
  return dialogue(isErasure ? `Erase ${count} for good?` : `Hide ${count}?`, (close, form) => {
    const typed = item.id.slice(-TYPED_CHARS);
    const again = make("input", { required: true, autocomplete: "off", spellcheck: false, pattern: typed });
    const said = make("div");
    const go = make("button", { type: "submit", className: "danger" }, isErasure ? "Erase for good" : "Hide");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      tried(go, said, async () => close(await change("forget_item_tool", given)));
    });
    const rows = going.items.map(({ id, kind, title }) =>
      make("li", {}, told(title || id), make("span", { className: "beside" }, told(kind))),
    );
    const more = going.forgotten - going.items.length;
    return [
      hint(MEANS[given.mode]),
      make("ul", { className: "plain going", tabIndex: 0, "aria-label": "What goes" }, rows),
      more > 0 && hint(`and ${number(more)} more`),
      leavesVersions(item) && hint("Other versions in its chain stay."),
      isErasure && going.backups > 0 && hint(`It goes from ${counted(going.backups, "backup")} of this machine as well.`),
      isErasure && field(`Type ${typed}, the end of its id, to go on`, again, { id: "erase-again" }),
      said,
      make("div", { className: "actions" }, leave(close), go),
    ];
  });
}

// A record goes with its versions, anything else alone.
const leavesVersions = (item) => (item.superseded_by || item.supersedes?.length) && !/^(tsk|fup|art)_/.test(item.id);

const BECAME = {
  tombstoned: "It is hidden from everybody",
  erased: "No file of the store holds it any more",
  erasing: "It is hidden, and is being erased, which goes on by itself",
};

// What stands on the page of an item that went.
function outcome(item, done, gone) {
  say(BECAME[done.status]);
  const others = done.forgotten > 1 ? `${number(done.forgotten)} items went.` : "";
  const waiting = done.backups_waiting ? `It is still to go from ${counted(done.backups_waiting, "backup")}.` : "";
  const erase = make(
    "button",
    { type: "button", on: { click: () => forgotten(item, gone, "erase") } },
    "Erase it as well",
  );
  const part = empty(
    BECAME[done.status],
    ...[item.title, others, waiting, `Entry ${number(done.receipt.seq)} of the ledger.`].filter(Boolean),
  );
  return put(
    part,
    make("div", { className: "actions" }, link(address(""), "To the search"), done.status === "tombstoned" && erase),
  );
}
