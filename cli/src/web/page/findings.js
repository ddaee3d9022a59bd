// Conditions that need attention, as a short list. Screen readers are told of each once, when it begins.

import { arrange, element, find, keyed, setAttribute, setText } from "./dom.js";
import { mean } from "./history.js";
import { percent, plural, scaled } from "./units.js";

/** Samples over which drops and load are considered. */
const RECENT = 10;
/** Share of the time of a worker from which it is overloaded soon. */
const BUSY = 0.9;
/** Drops per second from which a port needs attention: single ones are ordinary, such as those of unknown groups. */
const DROPS = 1;
/** Findings of one kind that are listed; the rest is a number. */
const MOST = 5;

const bad = (key, place, text, port) => ({ key, level: "bad", place, text, port });
const warn = (key, place, text, port) => ({ key, level: "warn", place, text, port });

/** The first of many findings, and the number of the others. */
function shortened(findings, noun) {
  if (findings.length <= MOST + 1) return findings;
  const [{ level }, rest] = [findings[0], findings.length - MOST];
  const text = `${plural(rest, noun)} more; sort or filter the table of ports`;
  return [...findings.slice(0, MOST), { key: `more ${noun}`, level, place: "", text }];
}

function faulted({ rates }) {
  const ports = [...rates.ports.values()].filter((port) => port.state === "faulted");
  const finding = ({ name, reason }) => bad(`faulted ${name}`, `port ${name}`, `faulted: ${reason ?? ""}`, name);
  return shortened(ports.map(finding), "faulted port");
}

function dropping({ rates }) {
  const recent = (port) => mean(port.history.series.drops.last(RECENT));
  const ports = [...rates.ports.values()].map((port) => ({ port, drops: recent(port) }));
  const found = ports.filter(({ drops }) => drops >= DROPS).sort((a, b) => b.drops - a.drops);
  const finding = ({ port, drops }) => {
    const reason = port.reasons.find(({ harmless }) => !harmless)?.reason ?? "";
    const text = `drops ${scaled(drops, "pps")}, most by ${reason}`;
    return warn(`drops ${port.name}`, `port ${port.name}`, text, port.name);
  };
  return shortened(found.map(finding), "port with drops");
}

function workers({ rates, health }) {
  const hung = health.hung_workers.map(({ worker, seconds, step }) =>
    bad(`hung ${worker}`, `worker ${worker}`,
      `hangs: it has neither polled nor slept for ${seconds} s${step ? `; ${step}` : ""}`));
  const load = (worker) => mean(worker.history.series.busy.last(RECENT));
  const busy = [...rates.workers.values()].filter((worker) => load(worker) > BUSY);
  return [...hung, ...busy.map((worker) =>
    warn(`busy ${worker.index}`, `worker ${worker.index}`, `is busy for ${percent(load(worker))} of its time`))];
}

function bonds({ bonds: all }) {
  return all.filter(({ live }) => live).flatMap(({ settings, live }) => {
    const place = `bond ${settings.name}`;
    if (!live.members.some((member) => member.enabled)) {
      return [bad(`bond ${settings.name}`, place, "no member can be used")];
    }
    const down = live.members.filter((member) => !member.enabled);
    return down.map(({ port }) => warn(`member ${port}`, place, `member ${port} is not used`, port));
  });
}

function bridges({ bridges: all }) {
  return all.flatMap(({ name, openflow, refused_moves: moves }) => {
    const away = (openflow?.controllers ?? []).filter(({ state }) => state === "connecting" || state === "waiting");
    const controllers = away.map(({ target, last_error: error }) =>
      warn(`controller ${name} ${target}`, `bridge ${name}`,
        `controller ${target} is not connected${error ? `: ${error}` : ""}`));
    const recent = moves.filter(({ age }) => age < 60).map(({ mac, old_port: from, new_port: to }) =>
      warn(`move ${name} ${mac} ${to}`, `bridge ${name}`,
        `${mac} is in use at ${from}, and its move to ${to} was refused`, to));
    return [...controllers, ...recent.slice(-MOST)];
  });
}

/** All findings, the worst first. */
function all(model) {
  const found = [faulted, workers, bonds, dropping, bridges].flatMap((kind) => kind(model));
  return [...found.filter(({ level }) => level === "bad"), ...found.filter(({ level }) => level !== "bad")];
}

export class Findings {
  #known = new Set();
  #entries;

  constructor(open) {
    this.#entries = keyed(({ key, port }) => {
      const [level, place, text] = [element("span", { class: "level" }), element("strong"), element("span")];
      if (port !== undefined) {
        place.replaceChildren(element("button", { type: "button", class: "link" }));
        place.firstChild.addEventListener("click", () => open(port));
      }
      const line = element("li", { "data-key": key }, level, place, text);
      line.parts = { level, place: place.firstChild ?? place, text };
      return line;
    });
  }

  /** Shows what a model needs attention for. Returns the number of findings. */
  update(model) {
    const found = all(model);
    const lines = this.#entries(found, ({ key }) => key);
    lines.forEach((line, at) => {
      const { level, place, text } = found[at];
      setAttribute(line, "data-level", level);
      setText(line.parts.level, level === "bad" ? "Fault" : "Warning");
      setText(line.parts.place, place);
      setText(line.parts.text, text);
    });
    arrange(find("findings"), lines.length > 0 ? lines : [this.#nothing]);
    this.#announce(found);
    return found.length;
  }

  #nothing = element("li", { "data-level": "good" },
    "Nothing: no port is faulted or drops packets continually, and all workers run.");

  #announce(found) {
    const fresh = found.filter(({ key }) => !this.#known.has(key));
    this.#known = new Set(found.map(({ key }) => key));
    if (fresh.length > 0) announce(fresh.map(({ place, text }) => `${place} ${text}`).join(". "));
  }
}

/** Has screen readers read a text when they are idle. */
export function announce(text) {
  find("announcements").textContent = text;
}
