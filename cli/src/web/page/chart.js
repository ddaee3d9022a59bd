// Lines of rates over time, as SVG. Each line has a pattern of its own beside its colour, and its value as text.

import { element, setAttribute, setText, shape } from "./dom.js";
import { LENGTH, highest } from "./history.js";
import { scaled } from "./units.js";

const SIZE = { width: 600, height: 100 };
/** Samples of the time axis, and their time at one sample a second. */
const WINDOWS = [[60, "1 min"], [120, "2 min"], [LENGTH, "5 min"]];

/** The smallest of 1, 2 and 5 times a power of ten that is not below `value`. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((limit) => limit >= value);
}

/** The shortest window that has room for the samples. */
function windowOf(samples) {
  return WINDOWS.find(([length]) => length >= samples) ?? WINDOWS.at(-1);
}

function path(values, limit, length) {
  const step = SIZE.width / (length - 1);
  const point = (value, at) => {
    const x = SIZE.width - (values.length - 1 - at) * step;
    const y = SIZE.height - (value / limit) * (SIZE.height - 2) - 1;
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  };
  return values.length < 2 ? "" : `M${values.map(point).join("L")}`;
}

/** Draws `lines` of the form `{ title, kind }`, whose kind names colour and pattern in the style sheet. */
export class Chart {
  #lines;
  #paths;
  #values;
  #limit = element("span", { class: "limit" });
  #start = element("span");
  #picture;
  #label;

  constructor(parent, label, lines) {
    [this.#lines, this.#label] = [lines, label];
    this.#paths = lines.map(({ kind }) => shape("path", { class: `line ${kind}` }));
    this.#values = lines.map(() => element("span", { class: "value" }));
    const grid = [0.25, 0.5, 0.75].map((share) => {
      const y = SIZE.height * share;
      return shape("line", { class: "grid", x1: 0, x2: SIZE.width, y1: y, y2: y });
    });
    const viewBox = `0 0 ${SIZE.width} ${SIZE.height}`;
    const frame = { viewBox, preserveAspectRatio: "none", role: "img" };
    this.#picture = shape("svg", frame, ...grid, ...this.#paths);
    const times = element("p", { class: "times muted", "aria-hidden": "true" });
    times.append(this.#start, element("span", {}, "now"));
    const plot = element("div", { class: "plot" }, this.#picture, this.#limit);
    parent.append(element("figure", { class: "chart" }, this.#legend(), plot, times));
  }

  #legend() {
    const entry = ({ title, kind }, at) => {
      const sample = shape("svg", { viewBox: "0 0 24 4", class: "sample", "aria-hidden": "true" });
      sample.append(shape("path", { class: `line ${kind}`, d: "M0 2L24 2" }));
      return element("span", {}, sample, `${title} `, this.#values[at]);
    };
    return element("figcaption", {}, ...this.#lines.map(entry));
  }

  /** Shows the rings of the lines, in `unit`. */
  update(rings, unit) {
    const series = rings.map((ring) => ring.last());
    const limit = ceiling(Math.max(...series.map(highest)));
    const [length, time] = windowOf(series[0].length);
    series.forEach((values, at) => setAttribute(this.#paths[at], "d", path(values, limit, length)));
    setText(this.#start, `${time} ago`);
    const texts = series.map((values) => scaled(values.at(-1) ?? 0, unit));
    texts.forEach((text, at) => setText(this.#values[at], text));
    setText(this.#limit, scaled(limit, unit, 0));
    const said = this.#lines.map(({ title }, at) => `${title} ${texts[at]}`).join(", ");
    setAttribute(this.#picture, "aria-label", `${this.#label} of the last ${time}; now ${said}`);
  }
}
