// The details of one port: its history, drops by reason, state, neighbours and configuration.

import { Capture } from "./capture.js";
import { Chart } from "./chart.js";
import { SignedOut, get } from "./connection.js";
import { arrange, element, find, keyed, setText } from "./dom.js";
import { Latency } from "./latency.js";
import { bytes, count, plural, rate } from "./units.js";

/** Shows `items` as the children of a list, which stay if the list has them already. */
function show(list, items, children) {
  const text = JSON.stringify(items);
  if (list.shown === text) return;
  list.shown = text;
  list.replaceChildren(...items.flatMap(children));
}

/** Terms and values, of which empty ones are left out. */
function definitions(list, pairs) {
  const shown = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  show(list, shown, ([term, value]) => [element("dt", {}, term), element("dd", {}, String(value))]);
}

function value(setting) {
  return typeof setting === "object" ? JSON.stringify(setting) : String(setting);
}

function neighbors(port, { neighbors: all }) {
  const text = (neighbor) => `${neighbor.system_name ?? neighbor.chassis}, port ${neighbor.port_id}`;
  return all.filter((neighbor) => neighbor.port === port.name).map(text).join("; ");
}

function state(port, model) {
  const queues = port.queues.filter((queue) => queue.rx_running || queue.tx_running).length;
  return [
    ["State", port.state],
    ["Reason", port.reason],
    ["Kind", port.kind],
    ["Place", port.place],
    ["LLDP neighbours", neighbors(port, model.neighbors)],
    ["Connections so far", count(port.connects)],
    ["Queue pairs", `${count(port.queues.length)}, ${count(queues)} running`],
    ["Memory", port.memory_bytes > 0 ? bytes(port.memory_bytes) : ""],
    ["Features", port.features.join(", ")],
    ["Received", `${plural(port.rx_packets, "packet")}, ${bytes(port.rx_bytes)}`],
    ["Sent", `${plural(port.tx_packets, "packet")}, ${bytes(port.tx_bytes)}`],
    ["Copies and segments", port.replicated > 0 ? count(port.replicated) : ""],
    ["Completed in software", port.completed > 0 ? plural(port.completed, "packet") : ""],
    ["To the control plane", port.punted > 0 ? count(port.punted) : ""],
  ];
}

export class Detail {
  #name = null;
  #opener = null;
  #closed;
  #box = find("detail");
  #title = element("h2", { id: "detail-title", tabindex: "-1" });
  #note = element("p", { class: "muted" });
  #state = element("dl", { class: "pairs" });
  #settings = element("dl", { class: "pairs" });
  #events = element("ol", { class: "events" });
  #reasons = element("tbody");
  #none = element("p", { class: "muted" }, "No packet was dropped.");
  #table;
  #chart;
  #latency;
  #capture;
  #rows = keyed(({ reason }) => {
    const cells = [element("th", { scope: "row" }, reason), ...[0, 1].map(() => element("td", { class: "number" }))];
    return element("tr", {}, ...cells);
  });

  constructor(closed) {
    this.#closed = closed;
    const close = element("button", { type: "button" }, "Close");
    close.addEventListener("click", () => this.close());
    this.#box.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.#table = this.#dropTable();
    const history = element("div");
    this.#chart = new Chart(history, "Packets per second", [
      { title: "in", kind: "rx" }, { title: "out", kind: "tx" }, { title: "dropped", kind: "drops" },
    ]);
    const [latency, capture] = [element("div"), element("div")];
    [this.#latency, this.#capture] = [new Latency(latency), new Capture(capture)];
    const settings = element("details", {}, element("summary", {}, "Configuration"), this.#settings);
    const events = element("details", {}, element("summary", {}, "Latest changes of the state"), this.#events);
    const head = element("div", { class: "head" }, this.#title, close);
    const drops = [element("h3", {}, "Drops by reason"), this.#table, this.#none];
    this.#box.append(head, this.#note, history, latency, capture, ...drops, element("h3", {}, "State"), this.#state, events, settings);
  }

  #dropTable() {
    const head = (title, kind) => element("th", { scope: "col", class: kind }, title);
    const row = element("tr", {}, head("Reason"), head("Drops/s", "number"), head("Drops", "number"));
    const caption = element("caption", { class: "unseen" }, "Drops of the port by reason");
    return element("table", { id: "drops" }, caption, element("thead", {}, row), this.#reasons);
  }

  /** Opens the details of a port, and moves the focus there. */
  open(name, model) {
    if (this.#name !== name) definitions(this.#settings, []);
    // A port that was opened from the details of another one has the opener of that one.
    if (!this.#box.contains(document.activeElement)) this.#opener = document.activeElement;
    this.#name = name;
    this.#box.hidden = false;
    this.update(model);
    this.#title.focus();
    this.#load(name);
    this.#capture.open(name);
  }

  close() {
    this.#box.hidden = true;
    this.#name = null;
    this.#opener?.focus();
    this.#closed();
  }

  /** The configuration is read once, because it does not change. */
  async #load(name) {
    try {
      const { settings } = await get(`/v1/ports/${encodeURIComponent(name)}`);
      if (this.#name === name) definitions(this.#settings, Object.entries(settings).map(([k, v]) => [k, value(v)]));
    } catch (error) {
      // Polling reports a lost connection and an ended session; a port may have been removed.
      if (!(error instanceof SignedOut)) definitions(this.#settings, [["Configuration", "cannot be read"]]);
    }
  }

  update(model) {
    if (this.#name === null) return;
    setText(this.#title, `Port ${this.#name}`);
    const port = model.rates.ports.get(this.#name);
    setText(this.#note, port ? "" : "The port does not exist any more.");
    if (!port) return;
    const { rxPackets, txPackets, drops } = port.history.series;
    this.#chart.update([rxPackets, txPackets, drops], "");
    definitions(this.#state, [...state(port, model), ...Object.entries(port.details ?? {})]);
    this.#latency.update(port.latency);
    this.#showReasons(port.reasons);
    this.#showEvents(port.events);
  }

  #showReasons(reasons) {
    const rows = this.#rows(reasons, ({ reason }) => reason);
    rows.forEach((row, at) => {
      setText(row.children[1], rate(reasons[at].rate));
      setText(row.children[2], count(reasons[at].total));
    });
    arrange(this.#reasons, rows);
    this.#table.hidden = reasons.length === 0;
    this.#none.hidden = reasons.length > 0;
  }

  #showEvents(events) {
    const lines = events.map(({ time, state, reason }) => `${time} ${state}${reason ? `: ${reason}` : ""}`).reverse();
    show(this.#events, lines, (line) => element("li", {}, line));
  }
}
