// The table of the addresses that bridges have learned. It is read only while it is on the screen, because reading a
// large one takes the switch time.

import { get } from "./connection.js";
import { find } from "./dom.js";
import { Table } from "./table.js";
import { count, duration } from "./units.js";

/** Addresses that are read at most. */
const MOST = 1000;

export class Addresses {
  #table;
  #visible = false;

  constructor() {
    const text = (title, value) => ({ title, value, text: (entry) => String(value(entry)) });
    const columns = [
      { title: "Address", value: ({ mac }) => parseInt(mac.replaceAll(":", ""), 16), text: ({ mac }) => mac },
      { title: "VLAN", numeric: true, value: (entry) => entry.vlan, text: ({ vlan }) => (vlan ? String(vlan) : "–") },
      text("Port", (entry) => entry.port),
      text("Bridge", (entry) => entry.bridge),
      text("Origin", (entry) => entry.origin),
      {
        title: "Unused for",
        numeric: true,
        value: (entry) => entry.age ?? -1,
        text: (entry) => (entry.age === null ? "–" : duration(entry.age)),
      },
    ];
    const caption = "Addresses of the bridges";
    const key = ({ bridge, vlan, mac }) => `${bridge} ${vlan} ${mac}`;
    const box = find("address-table");
    this.#table = new Table(box, { caption, columns, key, empty: "No address was learned." });
    find("address-filter").addEventListener("input", (event) => this.#table.filter(event.target.value));
    this.title = find("addresses-title");
    new IntersectionObserver(([entry]) => (this.#visible = entry.isIntersecting)).observe(find("addresses"));
  }

  /** Reads the table if it is visible. */
  async poll() {
    if (!this.#visible) return;
    const { total, entries } = await get(`/v1/fdb?limit=${MOST}`);
    const part = total > entries.length ? `, the first ${count(entries.length)} shown` : "";
    this.title.textContent = `Addresses (${count(total)}${part})`;
    this.#table.update(entries);
  }
}
