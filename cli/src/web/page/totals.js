// Sums over all ports, and their history.

import { Chart } from "./chart.js";
import { element, find, setAttribute, setText } from "./dom.js";
import { highest, mean } from "./history.js";
import { count, percent, scaled } from "./units.js";

const TILES = ["Received", "Sent", "Dropped", "Ports connected", "Workers busy", "Addresses"];
const UNITS = { packets: "pps", bits: "bit/s" };

export class Totals {
  #tiles = new Map();
  #charts;

  constructor() {
    for (const title of TILES) find("totals").append(this.#tile(title));
    const lines = [{ title: "received", kind: "rx" }, { title: "sent", kind: "tx" }];
    this.#charts = {
      packets: this.#chart("Packets per second", [...lines, { title: "dropped", kind: "drops" }]),
      bits: this.#chart("Bits per second", lines),
    };
    find("unit").addEventListener("change", () => this.#choose());
    this.#choose();
  }

  #tile(title) {
    const [value, more] = [element("dd"), element("dd", { class: "muted" })];
    this.#tiles.set(title, { value, more, tile: element("div", {}, element("dt", {}, title), value, more) });
    return this.#tiles.get(title).tile;
  }

  #chart(label, lines) {
    const box = element("div");
    find("history").append(box);
    return { box, chart: new Chart(box, label, lines) };
  }

  #choose() {
    const chosen = find("unit").querySelector("input:checked").value;
    for (const [unit, { box }] of Object.entries(this.#charts)) box.hidden = unit !== chosen;
  }

  #show(title, value, more, level = null) {
    const tile = this.#tiles.get(title);
    setText(tile.value, value);
    setText(tile.more, more);
    setAttribute(tile.tile, "data-level", level);
  }

  update({ rates, status }) {
    const { now, totals, ports, workers } = rates;
    this.#show("Received", scaled(now.rxPackets, "pps"), scaled(now.rxBits, "bit/s"));
    this.#show("Sent", scaled(now.txPackets, "pps"), scaled(now.txBits, "bit/s"));
    const share = now.drops / Math.max(1, now.rxPackets);
    const level = now.drops > 0 ? "warn" : null;
    this.#show("Dropped", scaled(now.drops, "pps"), `${percent(share)} of received`, level);
    const connected = [...ports.values()].filter((port) => port.state === "connected").length;
    this.#show("Ports connected", count(connected), `of ${count(ports.size)}`);
    const busy = [...workers.values()].map((worker) => worker.busy);
    const load = `of ${count(workers.size)}, highest ${percent(highest(busy))}`;
    this.#show("Workers busy", percent(mean(busy)), load);
    const addresses = status.bridges.reduce((sum, bridge) => sum + bridge.addresses, 0);
    const table = status.bridges.reduce((sum, bridge) => sum + bridge.table, 0);
    this.#show("Addresses", count(addresses), `of ${count(table)}`);
    const { rxPackets, txPackets, drops, rxBits, txBits } = totals.series;
    this.#charts.packets.chart.update([rxPackets, txPackets, drops], UNITS.packets);
    this.#charts.bits.chart.update([rxBits, txBits], UNITS.bits);
  }
}
