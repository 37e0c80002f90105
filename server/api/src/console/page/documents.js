// Documents: the list of what was ingested; of one its outline, its lines as they were read, and its versions.
import { call } from "/console/ask.js";
import {
  badge,
  bytes,
  card,
  choice,
  copier,
  counted,
  empty,
  facts,
  find,
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
import { Filters } from "/console/filters.js";
import { later } from "/console/item.js";
import { flag } from "/console/whose.js";

const LINES_TOGETHER = 200;

export async function documentsView({ place, asked, signal, ready }) {
  const prefix = make("input", {
    type: "search",
    value: asked.prefix ?? "",
    placeholder: "/home/me/notes",
    maxLength: 4096,
    spellcheck: false,
  });
  const status = choice(
    [
      ["active", "Current"],
      ["tombstoned", "Taken away"],
      ["all", "All versions"],
    ],
    asked.status ?? "active",
  );
  const filters = new Filters({
    view: "documents",
    fields: [
      { name: "prefix", label: "Path begins with", input: prefix },
      { name: "status", label: "Which", input: status, usual: "active" },
    ],
    signal,
    fill: listed,
  });
  put(place, heading("Documents"), filters.element, filters.body);
  ready();
  await filters.run();
}

async function listed(part, { prefix, status }, signal) {
  const list = make("ul", { className: "rows", "aria-label": "Documents" });
  put(part, list);
  await paged(
    list,
    async (cursor) => {
      const page = await call("docstore_manifest_tool", { path_prefix: prefix, status, cursor }, signal);
      return { rows: page.documents, next: page.next_cursor };
    },
    row,
  );
  if (list.children.length) return;
  part.replaceChildren(
    prefix || status
      ? empty("No document is like that", "Another beginning of the path, or all versions?")
      : empty("No document was ingested yet", `Read a folder into memory: recalld ingest FOLDER${flag()}`),
  );
}

function row(document) {
  return make(
    "li",
    { className: "row", "data-row": "" },
    make(
      "div",
      { className: "row-head" },
      make("h2", {}, link(one("document", document.document_id), told(document.title || document.path))),
      document.status !== "current" && state(document.status),
    ),
    make(
      "p",
      { className: "meta" },
      told(document.path, "uri"),
      badge(document.format ?? document.modality),
      document.bytes !== undefined && make("span", {}, bytes(document.bytes)),
      document.chunks !== undefined && make("span", {}, counted(document.chunks, "piece")),
      document.version > 1 && make("span", {}, `version ${number(document.version)}`),
      when(document.ingested_at),
    ),
  );
}

export async function documentView({ place, id, asked, signal, ready, title }) {
  const document = await call("docstore_get_document_tool", { document_id: id, offset: 0 }, signal);
  ready();
  title(document.title || document.path);
  put(
    place,
    make(
      "div",
      { className: "of" },
      badge("document"),
      state(document.status),
      badge(document.format ?? document.modality),
    ),
    make("h1", {}, told(document.title || document.path)),
    make("p", { className: "meta" }, told(document.path, "uri")),
  );
  const lines = new Lines(document, signal);
  const outline = later("Outline", signal, () => outlineOf(document, signal));
  const versions = later("Versions", signal, () => history(document, signal));
  const about = card(
    "About it",
    facts([
      ["Read", when(document.ingested_at)],
      ["Size", document.bytes !== undefined ? bytes(document.bytes) : ""],
      ["Pieces", document.chunks !== undefined ? number(document.chunks) : ""],
      ["Version", document.version],
      ["As an item", link(one("item", document.document_id), "policy, chain, neighbours")],
      ["Id", make("code", { textContent: document.document_id })],
      [
        "SHA-256",
        document.content_sha256 &&
          make("code", {
            textContent: `${document.content_sha256.slice(0, 16)}\u2026`,
            title: document.content_sha256,
          }),
      ],
    ]),
    copier(document.path, "Copy path"),
  );
  put(
    place,
    make(
      "div",
      { className: "two" },
      make("div", {}, lines.card),
      make("aside", { "aria-label": "About it" }, about, outline, versions),
    ),
  );
  await lines.go(Number(asked.line) || 1);
}

async function outlineOf(document, signal) {
  const {
    headings,
    made_from: from,
    truncated,
  } = await call("docstore_get_outline_tool", { document_id: document.document_id }, signal);
  if (!headings.length) return hint("It has no headings.");
  const tree = (nodes) =>
    make(
      "ul",
      { className: "outline" },
      nodes.map((node) =>
        make(
          "li",
          {},
          link(
            one("document", document.document_id, { line: node.line_start }),
            told(node.title || `line ${node.line_start}`),
          ),
          node.children?.length ? tree(node.children) : null,
        ),
      ),
    );
  return [
    tree(headings),
    from === "chunks" && hint("Made of its pieces: its headings were not kept."),
    truncated && hint("The rest has no room."),
  ].filter(Boolean);
}

async function history(document, signal) {
  const list = make("ol", { className: "timeline small" });
  const holder = make("div", {}, list);
  await paged(
    list,
    async (cursor) => {
      const page = await call("docstore_get_history_tool", { path: document.path, cursor }, signal);
      return { rows: page.versions, next: page.next_cursor };
    },
    (version) =>
      make(
        "li",
        { className: version.document_id === document.document_id ? "is-here" : "" },
        make(
          "p",
          { className: "line" },
          state(version.status),
          when(version.ingested_at),
          version.bytes !== undefined && bytes(version.bytes),
        ),
        make(
          "p",
          {},
          version.document_id === document.document_id
            ? make("strong", {}, `version ${version.version}, this one`)
            : link(one("document", version.document_id), `version ${version.version}`),
        ),
      ),
  );
  return holder;
}

// Lines of a version, some at a time, going on above and below.
class Lines {
  constructor(document, signal) {
    this.document = document;
    this.signal = signal;
    this.list = make("ol", { className: "lines" });
    this.above = make(
      "button",
      { type: "button", className: "more", hidden: true, on: { click: () => this.more(this.above, () => this.before()) } },
      "Lines above",
    );
    this.below = make(
      "button",
      { type: "button", className: "more", hidden: true, on: { click: () => this.more(this.below, () => this.after()) } },
      "More lines",
    );
    this.said = make("p", { className: "hint" });
    this.card = card("Lines", this.said, this.above, this.list, this.below);
  }

  async fetch(from, to) {
    const { path, content_sha256: version } = this.document;
    return call("docstore_get_lines_tool", { path, line_start: from, line_end: to, version }, this.signal);
  }

  async go(line) {
    try {
      const from = Math.max(1, line - 20);
      const page = await this.fetch(from, from + LINES_TOGETHER - 1);
      this.of = page.of_lines;
      this.first = page.line_start;
      this.last = page.line_end;
      this.list.replaceChildren(...this.rows(page, line));
      const said =
        page.lines_of === "text"
          ? "Lines of the text that was drawn out of the file"
          : "Lines of the file as it was read";
      this.said.textContent = `${said}: ${number(this.of)} in all.`;
      this.buttons();
      const there = find(".is-asked", this.list);
      if (there) {
        window.scrollBy(0, there.getBoundingClientRect().top - innerHeight / 3);
        say(`Line ${line}`);
      }
    } catch (error) {
      if (!this.signal.aborted) this.list.replaceChildren(make("li", { className: "bare" }, problem(error)));
    }
  }

  rows(page, asked) {
    return page.lines.map((text, at) => {
      const line = page.line_start + at;
      return make(
        "li",
        { value: line, className: asked > 1 && line === asked ? "is-asked" : "" },
        make("span", { dir: "auto", textContent: text || " " }),
      );
    });
  }

  buttons() {
    this.above.hidden = this.first <= 1;
    this.below.hidden = this.last >= this.of;
  }

  // Once at a time: a second click would show the same lines twice.
  async more(button, fetch) {
    button.disabled = true;
    try {
      await fetch();
    } catch (error) {
      if (!this.signal.aborted) say(error.message);
    }
    button.disabled = false;
  }

  async before() {
    const to = this.first - 1;
    const page = await this.fetch(Math.max(1, to - LINES_TOGETHER + 1), to);
    this.first = page.line_start;
    this.list.prepend(...this.rows(page));
    this.buttons();
  }

  async after() {
    const page = await this.fetch(this.last + 1, this.last + LINES_TOGETHER);
    this.last = Math.max(page.line_end, this.last + 1);
    this.list.append(...this.rows(page));
    this.buttons();
  }
}
