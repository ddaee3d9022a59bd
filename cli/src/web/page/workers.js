// The table of workers, with the load of the last two minutes of each as a strip of a heat map. The numbers beside it
// say the same.

import { element, find, setAttribute } from "./dom.js";
import { highest, mean } from "./history.js";
import { Table } from "./table.js";
import { count, percent, rate } from "./units.js";

/** Samples of the strip, and pixels of each. */
const SAMPLES = 120;
const PIXELS = { width: 3, height: 18 };

/** Colours of the theme: of no load, and of full load. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const probe = find("heat-probe") ?? document.body.appendChild(element("span", { id: "heat-probe", hidden: "" }));
  return ["--heat-0", "--heat-1", "--heat-2"].map((name) => {
    // A colour of two themes is resolved by a property that is one.
    probe.style.color = style.getPropertyValue(name);
    return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  });
}

function mix(share, [low, middle, high]) {
  const [from, to, part] = share < 0.5 ? [low, middle, 2 * share] : [middle, high, 2 * share - 1];
  return `rgb(${from.map((value, at) => Math.round(value + part * (to[at] - value))).join(" ")})`;
}

function draw(canvas, values, palette) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  values.forEach((share, at) => {
    context.fillStyle = mix(share, palette);
    const x = (SAMPLES - values.length + at) * PIXELS.width;
    context.fillRect(x, 0, PIXELS.width, PIXELS.height);
  });
}

const busyOf = (worker) => worker.history.series.busy.last(SAMPLES);

export class Workers {
  #table;
  #palette = null;

  constructor() {
    const number = (title, value, text) =>
      ({ title, numeric: true, value, text: (worker) => text(value(worker)) });
    const columns = [
      number("Worker", (worker) => worker.index, count),
      number("CPU", ({ cpu }) => cpu ?? -1, (cpu) => (cpu < 0 ? "any" : String(cpu))),
      { title: "Role", value: (worker) => worker.role, text: (worker) => worker.role },
      number("Queues", (worker) => worker.queues, count),
      number("Busy", (worker) => worker.busy, percent),
      number("Mean", (worker) => mean(busyOf(worker)), percent),
      number("Highest", (worker) => highest(busyOf(worker)), percent),
      number("pps", (worker) => worker.packets, rate),
      number("Cycles/packet", (worker) => worker.cycles ?? 0, rate),
      number("Receive", (worker) => worker.receive ?? 0, rate),
      number("Pipeline", (worker) => worker.pipeline ?? 0, rate),
      number("Transmit", (worker) => worker.transmit ?? 0, rate),
      number("Wakes/s", (worker) => worker.wakes, rate),
      { title: "Last 2 minutes", kind: "strip", cell: (cell) => this.#strip(cell) },
    ];
    const caption = "Workers with their load";
    this.#table = new Table(find("worker-table"), { caption, columns, key: (worker) => worker.index });
  }

  #strip(cell) {
    const size = { width: SAMPLES * PIXELS.width, height: PIXELS.height, role: "img" };
    const canvas = element("canvas", size);
    cell.append(canvas);
    return (worker) => {
      const values = busyOf(worker);
      draw(canvas, values, this.#palette);
      const said = `mean ${percent(mean(values))}, highest ${percent(highest(values))}`;
      setAttribute(canvas, "aria-label", `Load of worker ${worker.index} in the last 2 minutes: ${said}`);
    };
  }

  /** Reads the colours of the theme again. */
  repaint(model) {
    this.#palette = null;
    if (model.snapshot) this.update(model);
  }

  update({ rates }) {
    this.#palette ??= colours();
    this.#table.update([...rates.workers.values()]);
  }
}
