// The last events of the switch: what its log has, with the newest first.

import { get } from "./connection.js";
import { arrange, element, find, keyed, setText } from "./dom.js";

/** Events that are shown. */
const MOST = 50;
/** Fields with a place of their own. */
const OWN = ["number", "timestamp", "level", "subject", "message"];

function text(event) {
  const subject = event.subject ? `${event.subject}: ` : "";
  const fields = Object.entries(event).filter(([name, value]) => {
    return !OWN.includes(name) && event.subject !== `${name} ${value}`;
  });
  return [`${subject}${event.message}`, ...fields.map(([name, value]) => `${name}=${value}`)].join(" ");
}

export class Events {
  #last = 0;
  #start = null;
  #events = [];
  #list = find("event-list");
  #lines = keyed((event) => {
    const time = element("time", { datetime: event.timestamp }, event.timestamp.replace("T", " ").slice(0, 19));
    const level = element("span", { class: event.level === "INFO" ? "muted" : "bad" }, event.level);
    return element("li", {}, time, " ", level, " ", text(event));
  });

  /** Reads the events since the last call. */
  async poll() {
    const since = this.#start === null ? "" : `&start=${this.#start}`;
    const { start, last, lost, events } = await get(`/v1/events?after=${this.#last}${since}&limit=${MOST}`);
    // The numbers of a switch that was started again begin at 1.
    const kept = start === this.#start ? this.#events : [];
    this.#last = last;
    this.#start = start;
    if (events.length === 0 && kept === this.#events) return;
    this.#events = [...kept, ...events].slice(-MOST);
    const gap = kept.length > 0 && lost > 0;
    setText(find("events-note"), gap ? `${lost} events were not read in time.` : "");
    arrange(this.#list, this.#lines(this.#events, ({ number, timestamp }) => `${number} ${timestamp}`).reverse());
  }
}
