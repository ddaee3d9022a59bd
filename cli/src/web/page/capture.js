// Captures packets of a port into a file, if the configuration of the switch permits it to the page.

import { SignedOut, download, get } from "./connection.js";
import { element, setText } from "./dom.js";
import { bytes } from "./units.js";

/** Packets and milliseconds after which a capture ends. */
const LIMIT = { packets: 1000, time: 5000 };

export class Capture {
  #button = element("button", { type: "button", id: "capture" }, `Capture ${LIMIT.packets} packets or 5 s`);
  #note = element("p", { class: "muted", id: "capture-note", role: "status" });
  #name = null;

  constructor(parent) {
    this.#button.hidden = true;
    this.#button.addEventListener("click", () => this.#run());
    parent.append(element("p", {}, this.#button), this.#note);
  }

  /** The port that is captured. */
  async open(name) {
    if (this.#name === name) return;
    this.#name = name;
    setText(this.#note, "");
    try {
      this.#button.hidden = !(await get("/session")).may_capture;
    } catch {
      // Polling reports a lost connection.
      this.#button.hidden = true;
    }
  }

  async #run() {
    const name = this.#name;
    this.#button.disabled = true;
    setText(this.#note, "Capturing");
    try {
      const path = `/v1/capture?ports=${encodeURIComponent(name)}&limit=${LIMIT.packets}`;
      const file = await download(path, LIMIT.time);
      save(file, `${name}.pcapng`);
      setText(this.#note, `Saved ${bytes(file.size)} as ${name}.pcapng.`);
    } catch (error) {
      setText(this.#note, error instanceof SignedOut ? "Signed out" : `Not captured: ${error.message}`);
    }
    this.#button.disabled = false;
  }
}

/** Saves a file as the browser saves downloads. */
function save(file, name) {
  const address = URL.createObjectURL(file);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
