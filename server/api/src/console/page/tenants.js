// Tenants: all of them, and one with its plan, its calls and its keys. Each act is one of those of the command line.
import { admin } from "/console/ask.js";
import {
  badge,
  card,
  choice,
  empty,
  exactly,
  facts,
  field,
  heading,
  hint,
  link,
  make,
  number,
  one,
  paged,
  problem,
  put,
  say,
  state,
  told,
  when,
} from "/console/show.js";
import { acting, confirmed, signedIn } from "/console/acts.js";
import { grantsOf, keysOf } from "/console/keys.js";

// ---- All of them ------------------------------------------------------------------------------------

export async function tenantsView(view) {
  if (!(await signedIn(view))) return;
  const { place, signal, ready } = view;
  const [{ plans }, list, body] = [
    await admin({ act: "plan list" }, signal),
    make("ul", { className: "rows", "aria-label": "Tenants" }),
    make("div", {}),
  ];
  ready();
  body.append(list);
  put(place, heading("Tenants"), creation(plans), body);
  const fetch = async (after) => {
    const page = await admin({ act: "tenant list", after }, signal);
    return { rows: page.tenants, next: page.next };
  };
  await paged(list, fetch, (tenant) =>
    make(
      "li",
      { className: "row", "data-row": "" },
      make(
        "div",
        { className: "row-head" },
        make(
          "h2",
          {},
          tenant.state === "deleted"
            ? told(tenant.title)
            : link(one("tenant", tenant.slug), told(tenant.title || tenant.slug)),
        ),
        state(tenant.state),
      ),
      make(
        "p",
        { className: "meta" },
        make("code", {}, tenant.slug),
        badge(tenant.plan),
        tenant.email && told(tenant.email),
        when(tenant.made_at),
      ),
    ),
  );
  if (!list.children.length)
    body.append(
      empty(
        "There are no tenants",
        "A tenant has a workspace of its own, with keys that open it on the hosted listener.",
      ),
    );
}

function creation(plans) {
  const slug = make("input", {
    required: true,
    maxLength: 40,
    spellcheck: false,
    autocomplete: "off",
    placeholder: "acme",
  });
  const title = make("input", { maxLength: 200, autocomplete: "off", placeholder: "Acme Ltd" });
  const plan = choice(
    plans.map(({ name }) => [name, name]),
    plans.some(({ name }) => name === "free") ? "free" : plans[0]?.name,
  );
  const email = make("input", { type: "email", maxLength: 254, autocomplete: "off" });
  const form = make(
    "form",
    { className: "fields" },
    field("Slug", slug, { id: "slug", help: "Lower case letters, digits and -." }),
    field("Title", title, { id: "title" }),
    field("Plan", plan, { id: "plan" }),
    field("E-mail", email, { id: "email", help: "May be left out." }),
    make("div", { className: "actions" }, make("button", { type: "submit", className: "main" }, "Create")),
  );
  const act = () => ({
    act: "tenant create",
    slug: slug.value.trim(),
    title: title.value.trim() || null,
    plan: plan.value,
    email: email.value.trim() || null,
  });
  return make(
    "details",
    { className: "card create" },
    make("summary", {}, "New tenant"),
    acting(form, act, (tenant) => {
      say(`${tenant.slug} was created`);
      location.hash = one("tenant", tenant.slug);
    }),
  );
}

// ---- One of them ------------------------------------------------------------------------------------

export async function tenantView(view) {
  if (!(await signedIn(view))) return;
  const { place, id: slug, signal, ready, title } = view;
  const [tenant, { plans }, quota] = await Promise.all([
    admin({ act: "tenant show", slug }, signal),
    admin({ act: "plan list" }, signal),
    admin({ act: "quota show", slug }, signal),
  ]);
  const plan = plans.find(({ name }) => name === tenant.plan);
  const secret = make("div", {});
  const [keys, grants] = await Promise.all([keysOf(slug, plan, secret, signal), grantsOf(slug, signal)]);
  ready();
  title(tenant.title || slug);
  const again = () => dispatchEvent(new HashChangeEvent("hashchange"));
  put(
    place,
    make("div", { className: "of" }, badge("tenant"), state(tenant.state), badge(tenant.plan)),
    heading(
      told(tenant.title || slug),
      make("a", { className: "button", href: `#/@${slug}/` }, "Look at its workspace"),
    ),
    secret,
    make(
      "div",
      { className: "two" },
      make("div", {}, keys, grants),
      make(
        "aside",
        { "aria-label": "About it" },
        aboutTenant(tenant),
        quotaOf(slug, quota, again),
        planOf(tenant, plans, again),
        dangerOf(tenant, again),
      ),
    ),
  );
}

const aboutTenant = (tenant) =>
  card(
    "About it",
    facts([
      ["Slug", make("code", {}, tenant.slug)],
      ["Made", when(tenant.made_at)],
      ["E-mail", tenant.email],
      ["Verified", tenant.email && (tenant.email_verified_at ? exactly(tenant.email_verified_at) : "not yet")],
    ]),
  );

function quotaOf(slug, quota, again) {
  const calls = make("input", {
    type: "number",
    min: 0,
    step: 1,
    value: quota.is_own ? quota.quota : "",
    placeholder: "as the plan has it",
  });
  const used = quota.quota ? Math.min(1, quota.used / quota.quota) : 0;
  const bar = make("span", { className: "bar", "aria-hidden": "true" }, make("span"));
  bar.firstChild.style.inlineSize = `${(used * 100).toFixed(1)}%`;
  const act = () => ({ act: "quota set", slug, calls: calls.value === "" ? null : Number(calls.value) });
  return card(
    "Calls of the month",
    quota.quota === null ? hint("As many as it likes.") : bar,
    facts([
      ["Used", number(quota.used)],
      ["Of", quota.quota === null ? "" : number(quota.quota)],
      ["Begins anew", quota.quota === null ? "" : exactly(quota.resets_at)],
    ]),
    acting(
      make(
        "form",
        {},
        field("Calls a month", calls, { id: "calls", help: "Empty: what the plan says." }),
        make("button", { type: "submit" }, "Set"),
      ),
      act,
      again,
    ),
  );
}

function planOf(tenant, plans, again) {
  const plan = choice(
    plans.map(({ name }) => [name, name]),
    tenant.plan,
  );
  const form = make("form", {}, field("Plan", plan, { id: "new-plan" }), make("button", { type: "submit" }, "Change"));
  return card(
    "Plan",
    acting(form, () => ({ act: "plan set", slug: tenant.slug, name: plan.value }), again),
  );
}

function dangerOf(tenant, again) {
  const { slug } = tenant;
  const isOff = tenant.state === "suspended";
  const said = make("div", {});
  const run = async (act, after) => {
    said.replaceChildren();
    await admin(act)
      .then(after)
      .catch((error) => said.replaceChildren(problem(error)));
  };
  const pause = make("button", { type: "button" }, isOff ? "Resume" : "Suspend");
  pause.addEventListener("click", async () => {
    const text = "None of its keys and tokens is taken from then on, until it is resumed. Nothing is removed.";
    if (isOff || (await confirmed(`Suspend ${slug}?`, text, "Suspend")))
      run({ act: isOff ? "tenant resume" : "tenant suspend", slug }, again);
  });
  const end = make("button", { type: "button" }, "End all tokens");
  end.addEventListener("click", async () => {
    const text = "Everybody who signed in has to do so again. Keys stay good.";
    if (await confirmed(`End all tokens of ${slug}?`, text, "End them"))
      run({ act: "tenant end-tokens", slug }, () => say("Its tokens ended"));
  });
  const remove = make("button", { type: "button", className: "danger" }, "Delete");
  remove.addEventListener("click", async () => {
    const text = "Its keys end and its store is removed. What is deleted cannot be brought back; its ledger stays.";
    if (await confirmed(`Delete ${slug}?`, text, "Delete for good", slug)) {
      run({ act: "tenant delete", slug, confirm: slug }, () => {
        location.hash = "#/tenants";
      });
    }
  });
  return card("Take away", make("div", { className: "actions" }, pause, end, remove), said);
}
