// The picture of the switch: bridges, with the ports and bonds that hang on them. Arrow keys move between the ports of
// a bridge, of which one is in the order of the Tab key.

import { arrange, element, find, keyed, setAttribute, setText } from "./dom.js";
import { count, plural, rate, scaled } from "./units.js";

/** Ports of a bridge from which each is a square without its name. */
const MANY = 64;
const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** 0 without packets, then one more for each factor of 100 of the rate, up to 4. */
function strength(packets) {
  return packets > 0 ? Math.min(4, 1 + Math.floor(Math.log10(Math.max(1, packets)) / 2)) : 0;
}

function peer(port, neighbors) {
  const found = neighbors.neighbors.find((neighbor) => neighbor.port === port.name);
  if (found) return `${found.system_name ?? found.chassis} ${found.port_id}`;
  return port.kind === "patch" ? `to ${port.place}` : port.kind;
}

export class Bridges {
  #open;
  #entries;
  #selected = null;

  constructor(open) {
    this.#open = open;
    this.#entries = keyed(({ name }) => this.#make(name));
  }

  select(name) {
    this.#selected = name;
  }

  #make(name) {
    const [title, about, list] = [element("h3"), element("p", { class: "muted" }), element("ul", { class: "cells" })];
    setText(title, name);
    const box = element("section", { class: "bridge" }, element("div", { class: "backplane" }, title, about), list);
    const cells = keyed((port) => this.#cell(port));
    const groups = keyed((bond) => this.#group(bond));
    list.addEventListener("keydown", (event) => this.#move(event, list));
    box.update = (bridge, model) => this.#bridge({ box, title, about, list, cells, groups }, bridge, model);
    return box;
  }

  #cell({ name }) {
    const [label, rates, more] = ["name", "rates", "peer"].map((kind) => element("span", { class: kind }));
    const button = element("button", { type: "button", tabindex: "-1" }, label, rates, more);
    button.addEventListener("click", () => this.#open(name));
    const cell = element("li", { class: "cell" }, button);
    cell.parts = { button, label, rates, more };
    return cell;
  }

  #group({ settings }) {
    const [title, list] = [element("p", { class: "bond-title" }), element("ul", { class: "cells" })];
    const group = element("li", { class: "bond" }, title, list);
    setAttribute(list, "aria-label", `bond ${settings.name}`);
    group.parts = { title, list };
    return group;
  }

  #bridge({ box, about, list, cells, groups }, bridge, model) {
    const ports = bridge.ports.map((name) => model.rates.ports.get(name)).filter(Boolean);
    const elements = cells(ports, ({ name }) => name);
    elements.forEach((cell, at) => this.#show(cell, ports[at], model.neighbors));
    const byName = new Map(ports.map((port, at) => [port.name, elements[at]]));
    const bonds = model.bonds.filter(({ settings }) => settings.bridge === bridge.name);
    const boxes = groups(bonds, ({ settings }) => settings.name);
    boxes.forEach((group, at) => this.#showBond(group, bonds[at], byName));
    arrange(list, [...boxes, ...byName.values()]);
    box.classList.toggle("many", ports.length > MANY);
    const kind = bridge.flows ? "OpenFlow" : "learning";
    const packets = ports.reduce((sum, port) => sum + port.rxPackets, 0);
    const parts = [kind, plural(ports.length, "port"), plural(bridge.addresses, "address", "addresses")];
    setText(about, [...parts, scaled(packets, "pps")].join(" · "));
    const buttons = [...list.querySelectorAll("button")];
    if (!buttons.some((button) => button.tabIndex === 0) && buttons.length > 0) buttons[0].tabIndex = 0;
  }

  #showBond({ parts }, { settings, live }, byName) {
    const active = live?.active ? `, active ${live.active}` : "";
    const used = live ? live.members.filter((member) => member.enabled).length : 0;
    const title = `bond ${settings.name} · ${settings.mode}${active}`;
    setText(parts.title, `${title} · ${used} of ${count(settings.ports.length)} used`);
    arrange(parts.list, settings.ports.map((name) => byName.get(name)).filter(Boolean));
    settings.ports.forEach((name) => byName.delete(name));
  }

  #show({ parts: { button, label, rates, more } }, port, neighbors) {
    setAttribute(button, "data-state", port.state);
    setAttribute(button, "data-rate", strength(port.rxPackets + port.txPackets));
    setAttribute(button, "data-drops", port.drops > 0 ? "yes" : null);
    setAttribute(button, "aria-pressed", port.name === this.#selected ? "true" : "false");
    setText(label, port.name);
    setText(rates, `↓ ${rate(port.rxPackets)}  ↑ ${rate(port.txPackets)}`);
    setText(more, peer(port, neighbors));
    const drops = port.drops > 0 ? `, drops ${scaled(port.drops)}` : "";
    const said = `received ${scaled(port.rxPackets)}, sent ${scaled(port.txPackets)}${drops} packets per second`;
    setAttribute(button, "aria-label", `${port.name}, ${port.state}, ${said}, ${peer(port, neighbors)}`);
    setAttribute(button, "title", `${port.name}: ${port.state}, ${said}`);
  }

  #move(event, list) {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const ends = { Home: 0, End: buttons.length - 1 };
    const next = ends[event.key] ?? (event.key in KEYS ? at + KEYS[event.key] : -1);
    if (at < 0 || next < 0 || next >= buttons.length) return;
    event.preventDefault();
    [buttons[at].tabIndex, buttons[next].tabIndex] = [-1, 0];
    buttons[next].focus();
  }

  update(model) {
    const { bridges } = model.status;
    const boxes = this.#entries(bridges, ({ name }) => name);
    boxes.forEach((box, at) => box.update(bridges[at], model));
    arrange(find("topology"), boxes);
  }
}
