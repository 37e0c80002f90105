// Keys of a tenant, and what programs have because somebody signed in.
import { admin } from "/console/ask.js";
import {
  badge,
  card,
  choice,
  copier,
  field,
  find,
  hint,
  make,
  paged,
  problem,
  say,
  state,
  told,
  when,
} from "/console/show.js";
import { acting, confirmed } from "/console/acts.js";

const KEY_KINDS = [
  ["bearer", "bearer: a person's or a program's"],
  ["user", "user: signs in any number of times"],
  ["once", "once: signs in once"],
];

export async function keysOf(slug, plan, secret, signal) {
  const list = make("ul", { className: "rows", "aria-label": "Keys" });
  const holder = make("div", {}, list);
  const shown = async () => {
    list.replaceChildren();
    holder.replaceChildren(list);
    const fetch = async (after) => {
      const page = await admin({ act: "key list", slug, after }, signal);
      return { rows: page.keys, next: page.next };
    };
    await paged(list, fetch, (key) => keyRow(slug, key, shown));
    if (!list.children.length) holder.append(hint("It has none yet."));
  };
  await shown();
  const issued = (key) => {
    secret.replaceChildren(secretOf(key));
    secret.scrollIntoView({ block: "nearest" });
    say("A key was issued. It is shown once.");
    shown();
  };
  const rotate = make("button", { type: "button" }, "New workspace key");
  const said = make("div", {});
  rotate.addEventListener("click", async () => {
    const text = "Programs that have the workspace key before it have to be given the new one.";
    if (await confirmed("Rotate the workspace key?", text, "Rotate")) {
      admin({ act: "key rotate", slug })
        .then(issued)
        .catch((error) => said.replaceChildren(problem(error)));
    }
  });
  return card("Keys", holder, issue(slug, plan, issued), make("div", { className: "actions" }, rotate), said);
}

function keyRow(slug, key, again) {
  const said = make("div", {});
  const revoke = key.state === "active" && make("button", { type: "button", className: "danger" }, "Revoke");
  if (revoke) {
    revoke.setAttribute("aria-label", `Revoke ${key.name || key.id}`);
    revoke.addEventListener("click", async () => {
      const text = "Whoever has it is refused from now on, and what hangs on it ends.";
      if (await confirmed(`Revoke ${key.name || key.id}?`, text, "Revoke")) {
        admin({ act: "key revoke", slug, id: key.id })
          .then(again)
          .catch((error) => said.replaceChildren(problem(error)));
      }
    });
  }
  return make(
    "li",
    { className: "row", "data-row": "" },
    make("div", { className: "row-head" }, make("h3", {}, told(key.name || key.id)), state(key.state), revoke),
    make(
      "p",
      { className: "meta" },
      badge(key.kind),
      make("code", {}, key.id),
      make("span", {}, "made ", when(key.made_at)),
      key.expires_at && make("span", {}, "ends ", when(key.expires_at)),
    ),
    make(
      "p",
      { className: "meta" },
      key.scopes.map((scope) => make("code", { className: "rule" }, scope)),
    ),
    said,
  );
}

function issue(slug, plan, issued) {
  const kind = choice(KEY_KINDS, "bearer");
  const name = make("input", { maxLength: 100, autocomplete: "off", placeholder: "ada" });
  const expires = make("input", { type: "date" });
  const scopes = (plan?.scopes ?? []).map((scope) =>
    make("label", { className: "tick" }, make("input", { type: "checkbox", value: scope }), make("code", {}, scope)),
  );
  const form = make(
    "form",
    { className: "fields" },
    field("Kind", kind, { id: "kind" }),
    field("Name", name, { id: "name" }),
    field("Ends on", expires, { id: "expires", help: "Empty: not by itself." }),
    make("fieldset", { className: "wide" }, make("legend", {}, "Scopes; none ticked: those of everyday work"), scopes),
    make("div", { className: "actions" }, make("button", { type: "submit", className: "main" }, "Issue")),
  );
  const act = () => {
    const ticked = scopes
      .map((label) => find("input", label))
      .filter((box) => box.checked)
      .map((box) => box.value);
    return {
      act: "key issue",
      slug,
      kind: kind.value,
      name: name.value.trim() || null,
      scopes: ticked.length ? ticked : null,
      expires: expires.value ? `${expires.value}T00:00:00Z` : null,
    };
  };
  return make("details", { className: "create" }, make("summary", {}, "Issue a key"), acting(form, act, issued));
}

function secretOf(key) {
  const box = make(
    "section",
    { className: "notice good secret" },
    make("h2", {}, "The new key"),
    make("p", {}, "It is shown this once, and is stored nowhere. Put it where it is needed now."),
    make("code", { className: "key", tabIndex: 0 }, key.secret),
  );
  const away = make("button", { type: "button", on: { click: () => box.remove() } }, "I have it");
  box.append(make("div", { className: "actions" }, copier(key.secret, "Copy key"), away));
  return box;
}

export async function grantsOf(slug, signal) {
  const list = make("ul", { className: "rows", "aria-label": "Grants" });
  const holder = make("div", {}, list);
  await paged(
    list,
    async (after) => {
      const page = await admin({ act: "grant list", slug, after }, signal);
      return { rows: page.grants, next: page.next };
    },
    (grant) => {
      const said = make("div", {});
      const revoke = !grant.revoked_at && make("button", { type: "button", className: "danger" }, "Revoke");
      if (revoke) {
        revoke.setAttribute("aria-label", `Revoke ${grant.id}`);
        revoke.addEventListener("click", async () => {
          if (await confirmed("Revoke this grant?", "The program has to ask somebody to sign in again.", "Revoke")) {
            admin({ act: "grant revoke", slug, id: grant.id })
              .then(() => revoke.replaceWith(state("revoked")))
              .catch((error) => said.replaceChildren(problem(error)));
          }
        });
      }
      return make(
        "li",
        { className: "row", "data-row": "" },
        make(
          "div",
          { className: "row-head" },
          make("h3", {}, told(grant.client)),
          grant.revoked_at ? state("revoked") : revoke,
        ),
        make("p", { className: "meta" }, told(grant.principal), make("span", {}, "since ", when(grant.made_at))),
        said,
      );
    },
  );
  return card("Signed in", list.children.length ? holder : hint("No program has anything because somebody signed in."));
}
