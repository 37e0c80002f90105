// The drawing of a graph: the item in the middle, what is linked with it around it, by a small layout of our own.
// The same nodes give the same drawing.
import { counted, draw, make, number, of } from "/console/show.js";

const WIDTH = 760;
const HEIGHT = 460;
const NODES_MAX = 48;
const LABEL_CHARS = 22;
const ROUNDS = 160;
// Where nodes would like to be of one another.
const EDGE_LENGTH = 150;
const APART = 26_000;
// Room for labels at the sides of the drawing.
const MARGIN = { left: 185, right: 185, top: 30, bottom: 38 };

// The nearest nodes and what links them, drawn.
export function graph(nodes, edges, middle) {
  const shown = nodes.slice(0, NODES_MAX);
  const at = new Map(shown.map((node, index) => [node.id, index]));
  const links = edges.filter((edge) => at.has(edge.from_id) && at.has(edge.to_id));
  const places = layout(
    shown,
    links.map((edge) => [at.get(edge.from_id), at.get(edge.to_id)]),
    at.get(middle) ?? 0,
  );
  const crowded = shown.length > 24;
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "group",
    "aria-label": `${counted(shown.length, "item")} and ${counted(links.length, "link")}`,
    class: "graph",
  });
  const lines = draw("g", { class: "edges", "aria-hidden": "true" });
  for (const edge of links) {
    const isAtMiddle = edge.from_id === middle || edge.to_id === middle;
    lines.append(
      ...edgeOf(edge, places[at.get(edge.from_id)], places[at.get(edge.to_id)], {
        named: isAtMiddle && links.length < 24,
        isFromMiddle: edge.from_id === middle,
      }),
    );
  }
  svg.append(arrow(), lines, ...shown.map((node, index) => nodeOf(node, places[index], node.id === middle, crowded)));
  const left = nodes.length - shown.length;
  const figure = make("figure", { className: "drawing" }, svg);
  // Where there is no room for all of it, its middle is what one sees first.
  requestAnimationFrame(() => {
    figure.scrollLeft = (places[at.get(middle) ?? 0].x / WIDTH) * figure.scrollWidth - figure.clientWidth / 2;
  });
  if (left > 0) figure.append(make("figcaption", { className: "hint" }, `${number(left)} more have no room here.`));
  return figure;
}

function arrow() {
  const marker = draw(
    "marker",
    {
      id: "arrow",
      viewBox: "0 0 8 8",
      refX: "7",
      refY: "4",
      markerWidth: "7",
      markerHeight: "7",
      orient: "auto-start-reverse",
    },
    draw("path", { d: "M0 0.5 L7 4 L0 7.5 Z" }),
  );
  return draw("defs", {}, marker);
}

function edgeOf(edge, from, to, { named, isFromMiddle }) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const long = Math.hypot(dx, dy) || 1;
  const gap = 11;
  const line = draw("line", {
    x1: from.x + (dx / long) * gap,
    y1: from.y + (dy / long) * gap,
    x2: to.x - (dx / long) * gap,
    y2: to.y - (dy / long) * gap,
    "marker-end": "url(#arrow)",
    "stroke-width": (0.8 + 1.4 * (edge.weight ?? 0.5)).toFixed(2),
  });
  if (!named || long < 70) return [line];
  // Nearer to the other end than to the middle, beneath which its own label stands.
  const along = isFromMiddle ? 0.68 : 0.32;
  const label = draw("text", {
    x: from.x + dx * along,
    y: from.y + dy * along - 4,
    "text-anchor": "middle",
    class: "relation",
  });
  label.textContent = short(edge.relation, 18);
  return [line, label];
}

function nodeOf(node, { x, y }, isMiddle, crowded) {
  const title =
    String(node.title ?? "")
      .split(" > ")
      .at(-1)
      .trim() || node.kind;
  const circle = draw("circle", {
    cx: x,
    cy: y,
    r: isMiddle ? 10 : node.distance > 1 ? 5.5 : 7.5,
    class: kindOf(node.kind),
  });
  // Away from the middle, where the links are.
  const onLeft = x < WIDTH / 2;
  const label = isMiddle
    ? draw("text", { x, y: y + 26, "text-anchor": "middle" })
    : draw("text", { x: onLeft ? x - 13 : x + 13, y: y + 4, "text-anchor": onLeft ? "end" : "start" });
  label.textContent = crowded && node.distance > 1 ? "" : short(title, LABEL_CHARS);
  const about = draw("title");
  about.textContent = `${title} (${node.kind}, ${node.status})`;
  const anchor = draw("a", {
    href: of(node.id),
    class: `node ${isMiddle ? "is-middle" : ""} ${node.status === "current" ? "" : "is-past"}`,
  });
  // What is heard begins with what is seen.
  const name = !label.textContent || label.textContent === title ? title : `${label.textContent} ${title}`;
  anchor.setAttribute("aria-label", `${name}, ${node.kind}, ${node.status}${isMiddle ? ", this one" : ""}`);
  anchor.append(about, draw("circle", { cx: x, cy: y, r: 14, class: "touch" }), circle, label);
  return anchor;
}

const KINDS = {
  document: "of-document",
  chunk: "of-chunk",
  decision: "of-decision",
  correction: "of-decision",
  task_attempt: "of-task",
};
const kindOf = (kind) => KINDS[kind] ?? "of-other";
const short = (text, chars) =>
  [...String(text)].length > chars ? `${[...String(text)].slice(0, chars - 1).join("")}\u2026` : String(text);

// Rings by distance to begin with, then springs along links and a push between all pairs, cooling down.
function layout(nodes, pairs, middle) {
  const rings = new Map();
  for (const node of nodes) rings.set(node.distance ?? 1, (rings.get(node.distance ?? 1) ?? 0) + 1);
  const seen = new Map();
  const places = nodes.map((node, index) => {
    if (index === middle) return { x: WIDTH / 2, y: HEIGHT / 2 };
    const ring = node.distance ?? 1;
    const turn = seen.get(ring) ?? 0;
    seen.set(ring, turn + 1);
    const angle = (2 * Math.PI * turn) / rings.get(ring) + ring * 0.7;
    return { x: WIDTH / 2 + Math.cos(angle) * ring * 150, y: HEIGHT / 2 + Math.sin(angle) * ring * 95 };
  });
  for (let round = 0; round < ROUNDS; round += 1) {
    const moves = forces(places, pairs);
    const most = 14 * (1 - round / ROUNDS) + 0.5;
    places.forEach((place, index) => {
      if (index === middle) return;
      const { x, y } = moves[index];
      const long = Math.hypot(x, y) || 1;
      const by = Math.min(long, most) / long;
      place.x += x * by;
      place.y += y * by;
    });
  }
  return fitted(places);
}

// Fills the drawing, whatever the forces agreed on.
function fitted(places) {
  const span = (axis) => {
    const all = places.map((place) => place[axis]);
    return [Math.min(...all), Math.max(...all)];
  };
  const [[left, right], [top, bottom]] = [span("x"), span("y")];
  const across = (WIDTH - MARGIN.left - MARGIN.right) / Math.max(right - left, 1);
  const down = (HEIGHT - MARGIN.top - MARGIN.bottom) / Math.max(bottom - top, 1);
  return places.map(({ x, y }) =>
    places.length === 1
      ? { x: WIDTH / 2, y: HEIGHT / 2 }
      : {
          x: MARGIN.left + (x - left) * across,
          y: bottom - top < 1 ? HEIGHT / 2 : MARGIN.top + (y - top) * down,
        },
  );
}

function forces(places, pairs) {
  const moves = places.map((place) => ({ x: (WIDTH / 2 - place.x) * 0.012, y: (HEIGHT / 2 - place.y) * 0.03 }));
  for (let one = 0; one < places.length; one += 1) {
    for (let other = one + 1; other < places.length; other += 1) {
      // A row of labels needs more room across than down.
      const [dx, dy] = [(places[one].x - places[other].x) * 0.7, (places[one].y - places[other].y) * 1.25];
      const square = Math.max(dx * dx + dy * dy, 60);
      const push = APART / square;
      const long = Math.sqrt(square);
      moves[one].x += (dx / long) * push;
      moves[one].y += (dy / long) * push;
      moves[other].x -= (dx / long) * push;
      moves[other].y -= (dy / long) * push;
    }
  }
  for (const [one, other] of pairs) {
    const [dx, dy] = [places[other].x - places[one].x, places[other].y - places[one].y];
    const long = Math.hypot(dx, dy) || 1;
    const pull = (long - EDGE_LENGTH) * 0.05;
    moves[one].x += (dx / long) * pull;
    moves[one].y += (dy / long) * pull;
    moves[other].x -= (dx / long) * pull;
    moves[other].y -= (dy / long) * pull;
  }
  return moves;
}
