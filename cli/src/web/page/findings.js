// Known causes of faults, as the switch finds them. Screen readers are told of each once, when it begins.

import { arrange, element, find, keyed, setAttribute, setText } from "./dom.js";
import { mean } from "./history.js";
import { plural } from "./units.js";

/** Samples over which drops are considered. */
const RECENT = 10;
/** Drops per second from which a port needs attention: single ones are ordinary, such as those of unknown groups. */
const DROPS = 1;
/** Findings of one check that are listed; the rest is a number. */
const MOST = 5;
const EFFECTS = { down: "Down", loss: "Loss", slow: "Slow" };
const PORT = "port ";
/** A port that is made before its guest is started waits, which needs no attention. */
const WAITS = "socket-no-peer";
const ACCESS = "socket-access";

function portOf({ subject }) {
  return subject.startsWith(PORT) ? subject.slice(PORT.length) : undefined;
}

/** Whether only single packets were dropped, and not because a guest may not send them. */
function isOrdinary(finding, { ports }) {
  const port = ports.get(portOf(finding));
  const isDrop = port?.reasons.some(({ reason }) => reason === finding.check);
  const isForbidden = finding.check.endsWith("-violation") || finding.check === "mac-move-refused";
  return isDrop && !isForbidden && mean(port.history.series.drops.last(RECENT)) < DROPS;
}

/** The first findings of a check, and the number of the others. */
function shortened(findings) {
  if (findings.length <= MOST + 1) return findings;
  const [{ check, effect }, rest] = [findings[0], findings.length - MOST];
  const cause = `${plural(rest, "finding")} more of this kind; see linerate doctor`;
  return [...findings.slice(0, MOST), { check, effect, subject: "", cause, evidence: [], remedy: "" }];
}

/** What is shown: the worst first, and ports that wait last. */
function all({ findings, rates }) {
  const waiting = new Set(findings.filter(waits).map(portOf));
  const checks = new Map();
  for (const finding of findings) {
    const isShown = !isOrdinary(finding, rates) && !(finding.check === ACCESS && waiting.has(portOf(finding)));
    if (isShown) checks.set(finding.check, [...(checks.get(finding.check) ?? []), finding]);
  }
  const shown = [...checks.values()].flatMap(shortened);
  return [...shown.filter((finding) => !waits(finding)), ...shown.filter(waits)];
}

const waits = ({ check }) => check === WAITS;
const levelOf = (finding) => (waits(finding) ? "none" : finding.effect === "down" ? "bad" : "warn");
const keyOf = ({ check, subject }) => `${check} ${subject}`;

export class Findings {
  #known = new Set();
  #entries;

  constructor(open) {
    this.#entries = keyed((finding) => {
      const parts = { level: element("span", { class: "level" }), place: element("strong") };
      for (const name of ["cause", "evidence", "remedy"]) parts[name] = element("div");
      setAttribute(parts.evidence, "class", "muted");
      const { level, place, cause, evidence, remedy } = parts;
      const line = element("li", { "data-key": keyOf(finding) }, level, place, element("div", {}, cause, evidence, remedy));
      const port = portOf(finding);
      if (port !== undefined) {
        parts.place = element("button", { type: "button", class: "link" });
        parts.place.addEventListener("click", () => open(port));
        place.append(parts.place);
      }
      line.parts = parts;
      return line;
    });
  }

  /** Shows what a model needs attention for. Returns the number of findings, without ports that wait. */
  update(model) {
    const found = all(model);
    const lines = this.#entries(found, keyOf);
    lines.forEach((line, at) => {
      const { effect, subject, cause, evidence, remedy } = found[at];
      setAttribute(line, "data-level", levelOf(found[at]));
      setText(line.parts.level, waits(found[at]) ? "Waits" : EFFECTS[effect]);
      setText(line.parts.place, subject);
      setText(line.parts.cause, cause);
      setText(line.parts.evidence, evidence.join("; "));
      setText(line.parts.remedy, remedy && `Remedy: ${remedy}`);
    });
    arrange(find("findings"), lines.length > 0 ? lines : [this.#nothing]);
    const urgent = found.filter((finding) => !waits(finding));
    this.#announce(urgent);
    return urgent.length;
  }

  #nothing = element("li", { "data-level": "good" },
    "Nothing: no known cause of a port that is down, of losses or of delays was found.");

  #announce(found) {
    const fresh = found.filter((finding) => !this.#known.has(keyOf(finding)));
    this.#known = new Set(found.map(keyOf));
    if (fresh.length > 0) announce(fresh.map(({ subject, cause }) => `${subject}: ${cause}`).join(". "));
  }
}

/** Has screen readers read a text when they are idle. */
export function announce(text) {
  find("announcements").textContent = text;
}
