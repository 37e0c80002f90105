// The drawing of a plot: lines over time, with a scale that fits them.
import { ago, draw, make } from "/console/show.js";

const WIDTH = 420;
const HEIGHT = 150;
// At first the plot is as wide as this.
const SPAN_MS_MIN = 60_000;
const EDGE = { left: 58, right: 10, top: 10, bottom: 20 };

// A plot that is drawn anew with each `show(series)`: each series {name, points: [{at, value}]}.
export class Plot {
  constructor({ title, write, span, about, base = 10 }) {
    Object.assign(this, { title, write, span, base });
    this.svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img" });
    this.now = make("p", { className: "now" });
    this.element = make(
      "section",
      { className: "card" },
      make("h2", {}, title),
      this.now,
      this.svg,
      make("p", { className: "hint" }, about),
    );
  }

  show(series, now) {
    const values = series.flatMap((one) => one.points.map((point) => point.value)).filter(Number.isFinite);
    const since = Math.min(...series.flatMap((one) => one.points.map((point) => point.at)), now);
    const span = Math.min(Math.max(now - since, SPAN_MS_MIN), this.span);
    const top = ceiling(Math.max(...values, 0), this.base);
    const x = (at) => EDGE.left + (1 - (now - at) / span) * (WIDTH - EDGE.left - EDGE.right);
    const y = (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const line = draw("line", {
        x1: EDGE.left,
        x2: WIDTH - EDGE.right,
        y1: y(top * share),
        y2: y(top * share),
        class: "grid",
      });
      const label = draw("text", { x: EDGE.left - 6, y: y(top * share) + 3.5, "text-anchor": "end" });
      label.textContent = this.write(top * share);
      parts.push(line, label);
    }
    for (const [at, anchor, text] of [
      [now - span, "start", ago(now - span, now)],
      [now, "end", "now"],
    ]) {
      const label = draw("text", { x: x(at), y: HEIGHT - 5, "text-anchor": anchor });
      label.textContent = text;
      parts.push(label);
    }
    series.forEach((one, index) => parts.push(...lines(one, index, x, y)));
    this.svg.replaceChildren(...parts);
    const latest = series.map((one) => [one.name, one.points.findLast((point) => Number.isFinite(point.value))]);
    this.now.replaceChildren(
      ...latest.map(([name, point], index) =>
        make(
          "span",
          { className: `key of-${index}` },
          name && `${name} `,
          make("strong", {}, point ? this.write(point.value) : "none yet"),
        ),
      ),
    );
    this.svg.setAttribute(
      "aria-label",
      `${this.title}: ${latest.map(([name, point]) => `${name} ${point ? this.write(point.value) : "none yet"}`).join(", ")}`,
    );
  }
}

// A gap where nothing was measured.
function lines({ points }, index, x, y) {
  const parts = [];
  let run = [];
  const end = () => {
    if (run.length > 1)
      parts.push(
        draw("polyline", {
          points: run.map(([at, value]) => `${at.toFixed(1)},${value.toFixed(1)}`).join(" "),
          class: `line of-${index}`,
        }),
      );
    else if (run.length === 1)
      parts.push(draw("circle", { cx: run[0][0], cy: run[0][1], r: 1.8, class: `dot of-${index}` }));
    run = [];
  };
  for (const { at, value } of points) {
    if (Number.isFinite(value)) run.push([x(at), y(value)]);
    else end();
  }
  end();
  return parts;
}

// The next number above that is easy to halve; bytes are counted in powers of two.
function ceiling(value, base) {
  if (!(value > 0)) return 1;
  const power = base ** Math.floor(Math.log(value) / Math.log(base));
  const steps = base === 2 ? [1, 1.5, 2, 3] : [1, 2, 4, 6, 8, 10, 12];
  return steps.map((step) => step * power).find((step) => step >= value * 1.04) ?? value * 1.1;
}
