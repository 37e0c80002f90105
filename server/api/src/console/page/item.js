// One item: what it says, where it is from, what policy says of it, what it replaced and what replaced it, what it is
// linked with, and what happened to it.
import { call } from "/console/ask.js";
import {
  badge,
  card,
  copier,
  empty,
  exactly,
  facts,
  find,
  hint,
  link,
  make,
  number,
  of,
  one,
  paged,
  problem,
  prose,
  put,
  raw,
  short,
  source,
  state,
  told,
  when,
} from "/console/show.js";
import { changes } from "/console/change.js";
import { graph } from "/console/graph.js";

// Versions of a chain that are read whole, and how much of each is shown.
const VERSIONS_READ_MAX = 8;
const SAYS_CHARS = 260;

const nameOf = (item) => item.title || short(item.text, 90) || item.id;

export async function itemView({ place, id, signal, ready, title }) {
  const { item, truncated, receipt } = await call("get_item_tool", { item_id: id }, signal);
  ready();
  const name = nameOf(item);
  title(name);
  const isCode = item.modality === "code";
  put(
    place,
    make(
      "div",
      { className: "of" },
      badge(item.kind),
      state(item.status),
      item.policy?.sensitivity && badge(item.policy.sensitivity, item.policy.sensitivity === "internal" ? "" : "warn"),
      item.policy?.gates?.map((gate) => badge(gate, "warn")),
    ),
    make("h1", {}, told(name)),
    item.status !== "current" &&
      item.superseded_by &&
      make(
        "p",
        { className: "notice quiet" },
        "Something newer stands in its place: ",
        link(of(item.superseded_by), told(item.superseded_by)),
      ),
  );
  const text = item.text
    ? prose(item.text, { className: isCode ? "prose code" : "prose" })
    : empty("It has no text of its own");
  const cut = truncated && hint("The service gave a part of it: it is longer than an answer may be.");
  const names = new Map([[item.id, name]]);
  const read = chainOf(item, names, signal);
  const linked = call("brain_institutional_graph_tool", { item_id: item.id, depth: 2 }, signal);
  const chain = later("Its chain", signal, () => read);
  const drawn = later("Its neighbours", signal, () =>
    linked.then((found) => neighbours(item.id, found, names, signal)),
  );
  const happened = later("What happened", signal, async () => {
    await Promise.allSettled([read, linked]);
    return timeline(item.id, names, signal);
  });
  const policy = later("Policy", signal, () => policyOf(item.id, signal));
  put(
    place,
    make(
      "div",
      { className: "two" },
      make(
        "div",
        {},
        make("section", { className: "card text" }, make("h2", { className: "unseen" }, "Text"), text, cut),
        chain,
        drawn,
        happened,
      ),
      make(
        "aside",
        { "aria-label": "About it" },
        about(item),
        policy,
        changes(item, truncated, (outcome) => {
          place.replaceChildren(outcome);
          find("#main").focus({ preventScroll: true });
        }),
        make("p", { className: "quiet-line" }, `Entry ${number(receipt.seq)} of the ledger`),
        raw(item),
      ),
    ),
  );
}

// A card that fills itself: one that fails leaves the others alone.
function later(title, signal, fill) {
  const body = make("div", {}, make("p", { className: "waiting" }, "Loading"));
  const shown = card(title, body);
  const run = () =>
    fill()
      .then((content) => body.replaceChildren(...[content].flat()))
      .catch((error) => {
        if (!signal.aborted) body.replaceChildren(problem(error, run));
      });
  run();
  return shown;
}

function about(item) {
  const { provenance = {}, validity = {}, source: from } = item;
  const span = provenance.span && `${provenance.span.line_start} to ${provenance.span.line_end}`;
  const attributes = item.attributes ?? {};
  return card(
    "About it",
    facts([
      [
        "Document",
        attributes.document &&
          link(one("document", attributes.document, { line: provenance.span?.line_start }), "read around it"),
      ],
      ["Recorded", provenance.recorded_at && when(provenance.recorded_at)],
      ["By", provenance.by],
      ["Via", provenance.via],
      ["From", from?.uri && source(from.uri)],
      ["Lines", span],
      ["Holds from", validity.from && exactly(validity.from)],
      ["Holds until", validity.to && exactly(validity.to)],
      [
        "Tags",
        item.tags?.length
          ? make(
              "span",
              { className: "tags" },
              item.tags.map((tag) => badge(tag)),
            )
          : "",
      ],
      ["Ref", item.ref],
      ["Links", item.edges && `${number(item.edges.count)}${item.edges.more ? " and more" : ""}`],
      ...Object.entries(attributes)
        .filter(([name]) => name !== "document")
        .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]),
      ["Id", make("code", { textContent: item.id })],
      [
        "SHA-256",
        make("code", { textContent: `${item.content_sha256.slice(0, 16)}\u2026`, title: item.content_sha256 }),
      ],
    ]),
    copier(item.id, "Copy id"),
  );
}

// The newest versions with what they say; of older ones their place in the chain.
async function chainOf(item, names, signal) {
  const { id } = item;
  const { chain, truncated } = await call("supersession_chain_tool", { item_id: id }, signal);
  if (chain.length < 2) return hint("It replaced nothing, and nothing replaced it.");
  const read = new Map([[id, item]]);
  await Promise.all(
    chain
      .slice(-VERSIONS_READ_MAX)
      .filter((version) => version.id !== id)
      .map(async (version) => {
        const found = await call("get_item_tool", { item_id: version.id }, signal).catch(() => undefined);
        if (found) read.set(version.id, found.item);
      }),
  );
  for (const [of, version] of read) names.set(of, nameOf(version));
  const versions = chain.map((version) =>
    make(
      "li",
      { className: version.id === id ? "is-here" : "" },
      make(
        "p",
        { className: "line" },
        version.status && state(version.status),
        version.at && when(version.at),
        version.by && make("span", {}, "by ", told(version.by)),
      ),
      make(
        "p",
        { className: "version" },
        version.id === id
          ? make("strong", {}, "This one")
          : link(of(version.id), told(names.get(version.id) ?? version.id)),
      ),
      version.id !== id &&
        read.has(version.id) &&
        make("p", { className: "says" }, told(short(read.get(version.id).text, SAYS_CHARS))),
      version.reason && make("p", { className: "hint" }, told(version.reason)),
    ),
  );
  return [make("ol", { className: "timeline" }, versions), truncated && hint("Older versions are left out.")].filter(
    Boolean,
  );
}

function neighbours(id, { nodes, edges, truncated }, names, signal) {
  for (const node of nodes) if (!names.has(node.id)) names.set(node.id, node.title || node.id);
  if (edges.length === 0) return hint("Nothing is linked with it.");
  const list = make("ul", { className: "plain neighbours" });
  const details = make("details", {}, make("summary", {}, "As a list"), list);
  let filled = false;
  details.addEventListener("toggle", () => {
    if (filled || !details.open) return;
    filled = true;
    const fetch = async (cursor) => {
      const page = await call("graph_neighbors_tool", { item_id: id, cursor }, signal);
      return { rows: page.neighbors, next: page.next_cursor };
    };
    paged(list, fetch, neighbour).catch((error) => list.append(make("li", {}, problem(error))));
  });
  return [graph(nodes, edges, id), truncated && hint("The drawing has the nearest ones."), details].filter(Boolean);
}

function neighbour({ relation, direction, weight, note, item }) {
  return make(
    "li",
    { "data-row": "" },
    make("span", { className: "relation" }, direction === "in" ? "\u2190 " : "\u2192 ", told(relation)),
    link(of(item.id), told(item.title || item.id)),
    make("span", { className: "beside" }, badge(item.kind), state(item.status), weight.toFixed(2)),
    note && make("p", { className: "hint" }, told(note)),
  );
}

async function timeline(id, names, signal) {
  const named = (other) =>
    other === id ? make("span", {}, "this one") : link(of(other), told(names.get(other) ?? other));
  const list = make("ol", { className: "timeline small" });
  const holder = make("div", {}, list);
  await paged(
    list,
    async (cursor) => {
      const page = await call("item_timeline_tool", { item_id: id, cursor }, signal);
      return { rows: page.events, next: page.next_cursor };
    },
    (event) =>
      make(
        "li",
        {},
        make(
          "p",
          { className: "line" },
          badge(event.what),
          when(event.at),
          event.by && make("span", {}, "by ", told(event.by)),
        ),
        event.relation && make("p", {}, told(event.relation), " ", event.with && named(event.with)),
        !event.relation && event.with && make("p", {}, "by ", named(event.with)),
        !event.with && event.item && event.item.id !== id && make("p", {}, named(event.item.id)),
      ),
  );
  return list.children.length ? holder : hint("Nothing but that it was recorded.");
}

async function policyOf(id, signal) {
  const rows = await Promise.all(
    ["read", "export", "write"].map(async (action) => {
      const said = await call("policy_explain_tool", { item_id: id, action }, signal);
      return [
        action,
        make("span", {}, state(said.decision), " ", make("code", { className: "rule", textContent: said.rule })),
      ];
    }),
  );
  return facts(rows);
}

export { later };
