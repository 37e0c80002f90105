// What acts of administration have in common: that somebody is signed in, forms that do one, and a word before some.
import { admin, isSignedIn, signIn } from "/console/ask.js";
import { field, find, heading, make, problem, put, say } from "/console/show.js";

const WHY =
  "Reading asks for nothing on this machine. Tenants, their workspaces and changes ask for the operator's bearer, once for this browser.";

// The fields that sign in, and what they do with their form; `done` is called once somebody is.
function signingIn(form, done) {
  const bearer = make("input", {
    type: "password",
    autocomplete: "off",
    spellcheck: false,
    required: true,
    maxLength: 8192,
  });
  const send = make("button", { type: "submit", className: "main" }, "Sign in");
  const said = make("div", {});
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      await signIn(bearer.value.trim());
      say("Signed in");
      done();
    } catch (error) {
      said.replaceChildren(problem(error));
      bearer.setAttribute("aria-invalid", "true");
      bearer.select();
    } finally {
      send.disabled = false;
    }
  });
  const shown = field("The operator's bearer", bearer, { id: "bearer", help: "recalld credentials show prints it." });
  return { bearer, send, parts: [make("p", {}, WHY), shown, said] };
}

// Shows the form that signs in where nobody is, and then what was asked for.
export async function signedIn({ place, signal, ready }, title = "Tenants") {
  if (await isSignedIn(signal)) return true;
  ready();
  const form = make("form", { className: "card sign-in" }, make("h2", {}, "Sign in to administer"));
  put(place, heading(title), form);
  await new Promise((resolve) => {
    const { bearer, send, parts } = signingIn(form, resolve);
    put(form, parts, send);
    bearer.focus({ preventScroll: true });
  });
  place.replaceChildren();
  return !signal.aborted;
}

// The same above a page that stays as it is. Whether somebody is signed in now.
export async function unlocked() {
  if (await isSignedIn().catch(() => false)) return true;
  return dialogue("Sign in to change it", (close, form) => {
    const { send, parts } = signingIn(form, () => close(true));
    const leave = make("button", { type: "button", on: { click: () => close() } }, "Leave it");
    return [parts, make("div", { className: "actions" }, leave, send)];
  });
}

// A dialog around a form; `fill(close, form)` gives what is in it. Its answer is what `close` was given, and nothing where it
// was left.
export function dialogue(title, fill) {
  const form = make("form", {}, make("h2", { id: "dialogue-title" }, title));
  const dialog = make("dialog", { "aria-labelledby": "dialogue-title" }, form);
  const left = () => dialog.close();
  return new Promise((resolve) => {
    let answer;
    const close = (given) => {
      answer = given;
      dialog.close();
    };
    put(form, fill(close, form).flat());
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      removeEventListener("hashchange", left);
      dialog.remove();
      resolve(answer);
    });
    // What is under way comes to its end first: its outcome would be told to nobody.
    dialog.addEventListener("cancel", (event) => {
      if (form.inert) event.preventDefault();
    });
    // It belongs to the view beneath it.
    addEventListener("hashchange", left);
    dialog.showModal();
  });
}

// A form whose button does one act; what was wrong stands beneath it.
export function acting(form, act, done) {
  const said = make("div", {});
  form.append(said);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = find("button[type=submit]", form);
    button.disabled = true;
    said.replaceChildren();
    try {
      done(await admin(act()));
    } catch (error) {
      said.replaceChildren(problem(error));
    } finally {
      button.disabled = false;
    }
  });
  return form;
}

// Asks once more before something is done that cannot be taken back; the name is typed again where `typed` says so.
export function confirmed(title, text, verb, typed) {
  return dialogue(title, (close, form) => {
    const again = typed && make("input", { required: true, autocomplete: "off", spellcheck: false, pattern: typed });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      close(true);
    });
    return [
      make("p", {}, text),
      again && field(`Type ${typed} to go on`, again, { id: "again" }),
      make(
        "div",
        { className: "actions" },
        make("button", { type: "button", on: { click: () => close() } }, "Leave it"),
        make("button", { type: "submit", className: "danger" }, verb),
      ),
    ];
  });
}
