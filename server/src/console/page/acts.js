// What acts of administration have in common: that somebody is signed in, forms that do one, and a word before some.
import { admin, isSignedIn, signIn } from "/console/ask.js";
import { field, find, heading, make, problem, put, say } from "/console/show.js";

// Shows the form that signs in where nobody is, and then what was asked for.
export async function signedIn({ place, signal, ready }) {
  if (await isSignedIn(signal)) return true;
  ready();
  const bearer = make("input", {
    type: "password",
    autocomplete: "off",
    spellcheck: false,
    required: true,
    maxLength: 8192,
  });
  const send = make("button", { type: "submit", className: "main" }, "Sign in");
  const said = make("div", {});
  const form = make(
    "form",
    { className: "card sign-in" },
    make("h2", {}, "Sign in to administer"),
    make(
      "p",
      {},
      "Reading asks for nothing on this machine. Tenants and keys ask for the operator's bearer, once for this browser.",
    ),
    field("The operator's bearer", bearer, { id: "bearer", help: "recalld credentials show prints it." }),
    said,
    send,
  );
  put(place, heading("Tenants"), form);
  bearer.focus({ preventScroll: true });
  await new Promise((resolve) => {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      send.disabled = true;
      try {
        await signIn(bearer.value.trim());
        place.replaceChildren();
        say("Signed in");
        resolve();
      } catch (error) {
        said.replaceChildren(problem(error));
        bearer.setAttribute("aria-invalid", "true");
        bearer.select();
      } finally {
        send.disabled = false;
      }
    });
  });
  return !signal.aborted;
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
  const close = make("button", { type: "button" }, "Leave it");
  const go = make("button", { type: "submit", className: "danger" }, verb);
  const again =
    typed &&
    make("input", {
      required: true,
      autocomplete: "off",
      spellcheck: false,
      pattern: typed.replace(/[^a-z0-9-]/g, "\\$&"),
    });
  const form = make(
    "form",
    {},
    make("h2", { id: "confirm-title" }, title),
    make("p", {}, text),
    again && field(`Type ${typed} to go on`, again, { id: "again" }),
    make("div", { className: "actions" }, close, go),
  );
  const dialog = make("dialog", { "aria-labelledby": "confirm-title" }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = false;
    close.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = true;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    dialog.showModal();
  });
}
