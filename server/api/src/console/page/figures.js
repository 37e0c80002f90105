// Figures of the service: counts of the store, and plots that go on while somebody looks.
import { call, metrics } from "/console/ask.js";
import {
  badge,
  bytes,
  card,
  facts,
  heading,
  hint,
  make,
  millis,
  noun,
  number,
  problem,
  put,
  state,
  told,
} from "/console/show.js";
import { Plot } from "/console/plot.js";
import { workspace } from "/console/whose.js";

const EVERY_MS = 2_000;
const SPAN_MS = 5 * 60_000;
const POINTS_MAX = SPAN_MS / EVERY_MS + 1;
const KINDS_SHOWN = 8;
const HTTP = "recalld_http_request_duration_seconds";
const STAGE = "recalld_stage_duration_seconds";
// Questions come by these routes.
const ASKED = new Set(["/mcp", "/console/call", "/recall", "/semantic-recall", "/operator/recall", "/operator/call"]);

export async function figuresView({ place, signal, ready }) {
  const [stats, checks] = await Promise.all([
    call("recall_stats", {}, signal),
    call("brain_runtime_check", {}, signal),
  ]);
  ready();
  const tiles = make("div", { className: "tiles" });
  // What is counted as it happens is of the machine, and not of one tenant.
  const live = !workspace() && new Live(tiles);
  if (!live) tiles.replaceChildren(...counts(stats));
  put(
    place,
    heading("Figures"),
    tiles,
    live && live.plotted,
    make(
      "div",
      { className: "cards" },
      live && live.staged,
      card(
        "Recall",
        latency(stats),
        facts([
          ["Search", stats.search?.mode],
          ["Embeddings", number(stats.embedding_rows)],
          ["Segments", number(stats.segments)],
          ["Takes writes", stats.store?.takes_writes === false ? told(stats.store.why ?? "no") : "yes"],
        ]),
      ),
      card("Kinds", bars(stats.by_kind)),
      card("Modalities", bars(stats.by_modality)),
      card("Checks", checked(checks)),
    ),
  );
  if (!live) return;
  await live.look(signal);
  const gone = make("div", {});
  place.prepend(gone);
  const again = async () => {
    if (document.hidden) return;
    try {
      await live.look(signal);
      gone.replaceChildren();
    } catch (error) {
      // It is told once, and taken back by the next look that finds somebody.
      if (!signal.aborted && !gone.hasChildNodes()) gone.replaceChildren(problem(error));
    }
  };
  const timer = setInterval(again, EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

const tile = (name, value) => make("div", { className: "tile" }, make("strong", {}, value), make("span", {}, name));

const count = (value, one) => tile(noun(value, one), number(value));

const counts = (stats) => [
  count(stats.memory_items, "item"),
  count(stats.edges, "link"),
  count(stats.sources, "source"),
  tile("superseded", number(stats.superseded)),
  tile("on disk", bytes(stats.bytes_on_disk)),
];

function plotsOf() {
  const minutes = { span: SPAN_MS };
  return {
    latency: new Plot({
      ...minutes,
      title: "How long calls take",
      write: millis,
      about: "Governed calls, from the last byte of the request to the answer.",
    }),
    calls: new Plot({
      ...minutes,
      title: "Calls a second",
      write: (value) => value.toFixed(value < 10 ? 1 : 0),
      about: "All routes; this page's own look every two seconds is one of them.",
    }),
    memory: new Plot({
      ...minutes,
      title: "Memory",
      write: bytes,
      base: 2,
      about: "Resident, with the pages of the store that were touched.",
    }),
    processor: new Plot({
      ...minutes,
      title: "Processor",
      write: (value) => `${value.toFixed(value < 10 ? 1 : 0)} %`,
      about: "Of one core.",
    }),
    disk: new Plot({
      ...minutes,
      title: "Store on disk",
      write: bytes,
      base: 2,
      about: "All files of the store of this workspace.",
    }),
    entries: new Plot({
      ...minutes,
      title: "Ledger entries a minute",
      write: (value) => (value < 10 ? value.toFixed(1) : number(Math.round(value))),
      about: "Each governed call leaves one.",
    }),
  };
}

function latency(stats) {
  const { p50, p95, p99 } = stats.recall_latency_ms ?? {};
  const shown = [
    ["50 % within", p50],
    ["95 % within", p95],
    ["99 % within", p99],
  ].filter(([, value]) => value !== null && value !== undefined);
  return shown.length
    ? facts(shown.map(([name, value]) => [name, millis(value)]))
    : hint("Nothing was asked since the service began.");
}

function bars(counts) {
  const rows = Object.entries(counts ?? {}).sort(([, a], [, b]) => b - a);
  if (!rows.length) return hint("None.");
  const most = rows[0][1];
  const rest = rows.slice(KINDS_SHOWN).reduce((sum, [, count]) => sum + count, 0);
  const shown = rest ? [...rows.slice(0, KINDS_SHOWN), ["others", rest]] : rows;
  return make(
    "ul",
    { className: "bars" },
    shown.map(([name, count]) => barOf(name, count / most, number(count))),
  );
}

function barOf(name, share, value) {
  const bar = make("span", { className: "bar", "aria-hidden": "true" }, make("span"));
  bar.firstChild.style.inlineSize = `${Math.max(1, Math.min(100, share * 100)).toFixed(1)}%`;
  return make(
    "li",
    {},
    make("span", { className: "name" }, told(name)),
    bar,
    make("span", { className: "value" }, value),
  );
}

function checked({ ok, checks }) {
  return [
    badge(ok ? "all is well" : "something is wrong", `state ${ok ? "good" : "bad"}`),
    make(
      "ul",
      { className: "plain checks" },
      checks.map((one) =>
        make(
          "li",
          {},
          make("span", {}, told(one.name)),
          state(one.ok ? "ok" : "failed"),
          make("p", { className: "hint" }, told(one.detail)),
        ),
      ),
    ),
  ];
}

// What was counted at the last looks, and what that makes of plots.
class Live {
  constructor(tiles) {
    this.tiles = tiles;
    this.plots = plotsOf();
    this.plotted = make(
      "div",
      { className: "plots" },
      Object.values(this.plots).map((plot) => plot.element),
    );
    this.stages = make("div", {});
    this.staged = card(
      "Where the time goes",
      this.stages,
      hint("The mean of each step of answering, since the service began."),
    );
    this.series = {};
    this.before = undefined;
  }

  async look(signal) {
    const samples = await metrics(signal);
    const now = Date.now();
    const seen = { at: now, samples, one: (name) => samples.find((sample) => sample.name === name)?.value ?? NaN };
    if (this.before) this.compare(this.before, seen);
    this.point("resident", now, seen.one("process_resident_memory_bytes"));
    this.point("disk", now, seen.one("recalld_store_disk_bytes"));
    this.before = seen;
    this.draw(seen);
  }

  point(name, at, value) {
    const points = (this.series[name] ??= []);
    points.push({ at, value });
    if (points.length > POINTS_MAX) points.shift();
  }

  compare(before, seen) {
    const seconds = (seen.at - before.at) / 1000;
    const more = (name) => (seen.one(name) - before.one(name)) / seconds;
    const asked = (sample) => ASKED.has(sample.labels.route);
    const calls = buckets(seen.samples, HTTP, asked);
    const earlier = buckets(before.samples, HTTP, asked);
    this.point("p50", seen.at, quantile(calls, earlier, 0.5) * 1000);
    this.point("p95", seen.at, quantile(calls, earlier, 0.95) * 1000);
    const all = (samples) => sum(samples, "recalld_http_requests_total");
    this.point("calls", seen.at, (all(seen.samples) - all(before.samples)) / seconds);
    this.point("processor", seen.at, more("process_cpu_seconds_total") * 100);
    this.point("entries", seen.at, more("recalld_ledger_entries") * 60);
  }

  draw(seen) {
    const of = (name, label = "") => ({ name: label, points: this.series[name] ?? [] });
    this.plots.latency.show([of("p50", "50 % within"), of("p95", "95 % within")], seen.at);
    this.plots.calls.show([of("calls")], seen.at);
    this.plots.memory.show([of("resident")], seen.at);
    this.plots.processor.show([of("processor")], seen.at);
    this.plots.disk.show([of("disk")], seen.at);
    this.plots.entries.show([of("entries")], seen.at);
    const record = (name) =>
      seen.samples.find((sample) => sample.name === "recalld_store_records" && sample.labels.record === name)?.value;
    this.tiles.replaceChildren(
      count(record("items") ?? 0, "item"),
      count(record("edges") ?? 0, "link"),
      count(record("sources") ?? 0, "source"),
      tile("superseded", number(record("superseded") ?? 0)),
      tile("on disk", bytes(seen.one("recalld_store_disk_bytes"))),
      count(seen.one("recalld_ledger_entries"), "ledger entry"),
      tile("up", lasting(seen.one("recalld_uptime_seconds"))),
    );
    this.stages.replaceChildren(stageBars(seen.samples));
  }
}

function lasting(seconds) {
  const [days, hours, minutes] = [seconds / 86_400, (seconds % 86_400) / 3600, (seconds % 3600) / 60].map(Math.floor);
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

function stageBars(samples) {
  const names = [
    ...new Set(samples.filter((sample) => sample.name === `${STAGE}_count`).map((sample) => sample.labels.stage)),
  ];
  const value = (name, part) =>
    samples.find((sample) => sample.name === `${STAGE}_${part}` && sample.labels.stage === name)?.value ?? 0;
  const means = names
    .map((name) => [name, value(name, "sum") / value(name, "count"), value(name, "count")])
    .filter(([, , count]) => count > 0)
    .sort(([, a], [, b]) => b - a);
  if (!means.length) return hint("Nothing was asked yet.");
  return make(
    "ul",
    { className: "bars" },
    means.map(([name, mean]) => barOf(name.replaceAll("_", " "), mean / means[0][1], millis(mean * 1000))),
  );
}

const sum = (samples, name) =>
  samples.filter((sample) => sample.name === name).reduce((total, sample) => total + sample.value, 0);

// Counts up to each bound, of all samples that are wanted.
function buckets(samples, name, wanted) {
  const counts = new Map();
  for (const sample of samples) {
    if (sample.name !== `${name}_bucket` || !wanted(sample)) continue;
    const bound = Number(sample.labels.le.replace("+Inf", "Infinity"));
    counts.set(bound, (counts.get(bound) ?? 0) + sample.value);
  }
  return [...counts].sort(([a], [b]) => a - b);
}

// The time within which that share of the calls since was answered; none where there were none.
function quantile(now, before, share) {
  const earlier = new Map(before);
  const counts = now.map(([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)]);
  const total = counts.at(-1)?.[1] ?? 0;
  if (total <= 0) return NaN;
  let [lower, below] = [0, 0];
  for (const [bound, count] of counts) {
    if (count >= total * share) {
      if (!Number.isFinite(bound)) return lower;
      return lower + (bound - lower) * ((total * share - below) / (count - below || 1));
    }
    [lower, below] = [bound, count];
  }
  return lower;
}
