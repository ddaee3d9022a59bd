// The table of ports.

import { element, find, setAttribute, setText } from "./dom.js";
import { Table } from "./table.js";
import { count, rate } from "./units.js";

/** A button with the name, which opens the details. */
function nameCell(open) {
  return (cell) => {
    const button = element("button", { type: "button", class: "link" });
    let name = "";
    button.addEventListener("click", () => open(name));
    cell.append(button);
    return (port) => {
      name = port.name;
      setText(button, name);
    };
  };
}

/** The state with a sign and its reason as a hint. */
function stateCell(cell) {
  const state = element("span");
  cell.append(state);
  return (port) => {
    setAttribute(state, "data-state", port.state);
    setAttribute(state, "title", port.reason);
    setText(state, port.state);
  };
}

function number(title, value, text = rate) {
  return { title, numeric: true, value, text: (port) => text(value(port)) };
}

/** The reason of most drops of the last second, or of all time. */
function mainReason(port) {
  return port.reasons.find(({ harmless }) => !harmless)?.reason ?? "";
}

function columns(open) {
  const text = (title, value, more = {}) => ({ title, value, text: value, ...more });
  return [
    text("Port", (port) => port.name, { cell: nameCell(open) }),
    text("Bridge", (port) => port.bridge),
    text("Kind", (port) => port.kind),
    text("State", (port) => port.state, { cell: stateCell }),
    number("In pps", (port) => port.rxPackets),
    number("In bit/s", (port) => port.rxBits),
    number("Out pps", (port) => port.txPackets),
    number("Out bit/s", (port) => port.txBits),
    number("Drops/s", (port) => port.drops),
    number("Drops", (port) => port.lost, count),
    text("Main reason", mainReason, { kind: "reason" }),
  ];
}

export class Ports {
  #table;

  constructor(open) {
    const caption = "Ports with state, rates and drops";
    const empty = "The switch has no ports.";
    const key = (port) => port.name;
    this.#table = new Table(find("port-table"), { caption, columns: columns(open), key, empty });
    find("port-filter").addEventListener("input", (event) => this.#table.filter(event.target.value));
  }

  select(name) {
    this.#table.select(name);
  }

  update({ rates, status }) {
    const bridges = new Map(status.bridges.flatMap(({ name, ports }) => ports.map((port) => [port, name])));
    const row = (port) => ({ ...port, bridge: bridges.get(port.name) ?? "" });
    this.#table.update([...rates.ports.values()].map(row));
  }
}
