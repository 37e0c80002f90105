// Filters above a list: fields whose values stand in the address, and what they leave of the list. It is filled anew as they
// change, in its place, so that the field in which somebody types keeps the focus.
import { address, field, make, problem, say, waiting } from "/console/show.js";

// Of keys that come faster only the last one asks.
const TYPING_MS = 400;

export class Filters {
  // `fields` are {name, label, input, usual}: what is usual is left out of the address. `fill(part, given, signal)` puts into
  // an element what the values leave.
  constructor({ view, fields, signal, fill }) {
    Object.assign(this, { view, fields, signal, fill });
    this.stopper = new AbortController();
    this.body = make("div", {}, waiting());
    this.element = make(
      "div",
      { className: "filters" },
      fields.map(({ name, label, input }) => field(label, input, { id: `filter-${name}` })),
    );
    for (const { input } of fields) {
      input.addEventListener("change", () => this.changed());
      if (input.matches("input")) input.addEventListener("input", () => this.typed());
    }
    signal.addEventListener("abort", () => {
      clearTimeout(this.timer);
      this.stopper.abort();
    });
  }

  // What is asked for: of each field its value, where it is not the usual one.
  given() {
    const values = this.fields.map(({ name, input, usual = "" }) => {
      const value = input.value.trim();
      return [name, value === usual ? "" : value];
    });
    return Object.fromEntries(values.filter(([, value]) => value));
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.changed(), TYPING_MS);
  }

  changed() {
    clearTimeout(this.timer);
    const next = address(this.view, this.given());
    if (next === location.hash) return;
    history.replaceState(null, "", next);
    this.run();
  }

  async run() {
    this.stopper.abort();
    const stopper = new AbortController();
    this.stopper = stopper;
    this.body.setAttribute("aria-busy", "true");
    const part = make("div");
    try {
      await this.fill(part, this.given(), stopper.signal);
      stopper.signal.throwIfAborted();
      this.body.replaceChildren(part);
    } catch (error) {
      if (stopper.signal.aborted) return;
      this.body.replaceChildren(problem(error, () => this.run()));
      say(error.message);
    } finally {
      if (this.stopper === stopper) this.body.removeAttribute("aria-busy");
    }
  }
}
