// A table that can be sorted and filtered by keyboard, for thousands of rows: a part is shown, the rest on request.

import { arrange, element, keyed, setAttribute, setText } from "./dom.js";
import { count } from "./units.js";

const STEP = 100;
const ORDER = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : ORDER.compare(String(a ?? ""), String(b ?? ""));
}

/**
 * `columns` have `title`, `value` (for the order), `text`, and optionally `numeric` and `cell`, which makes the content
 * of a cell and returns a function that updates it. `key` identifies a row.
 */
export class Table {
  #columns;
  #key;
  #rows = [];
  #sorted = { column: 0, descending: false };
  #words = [];
  #most = STEP;
  #selected = null;
  #body = element("tbody");
  #note = element("p", { class: "muted note" });
  #more = element("button", { type: "button", hidden: "" }, "Show more");
  #heads;
  #entries;

  constructor(parent, { caption, columns, key, empty = "None." }) {
    [this.#columns, this.#key, this.empty] = [columns, key, empty];
    this.#heads = columns.map((column, at) => this.#head(column, at));
    this.#entries = keyed((row) => this.#make(row));
    const head = element("thead", {}, element("tr", {}, ...this.#heads));
    const table = element("table", {}, element("caption", { class: "unseen" }, caption), head, this.#body);
    this.#more.addEventListener("click", () => this.#showMore());
    const scroll = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, table);
    parent.append(scroll, element("div", { class: "foot" }, this.#note, this.#more));
  }

  /** Replaces the rows. */
  update(rows) {
    this.#rows = rows;
    this.#draw();
  }

  /** Shows the rows in which each word of `text` occurs. */
  filter(text) {
    this.#words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
    this.#most = STEP;
    this.#draw();
  }

  /** Marks a row. */
  select(key) {
    this.#selected = key;
    this.#draw();
  }

  #showMore() {
    this.#most += STEP;
    this.#draw();
    if (this.#more.hidden) this.#body.parentElement.parentElement.focus();
  }

  #head(column, at) {
    const button = element("button", { type: "button" }, column.title, element("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => this.#sort(at));
    if (!column.value) {
      return element("th", { scope: "col", class: column.kind }, column.title);
    }
    return element("th", { scope: "col", class: column.numeric ? "number" : null }, button);
  }

  #sort(at) {
    const same = this.#sorted.column === at;
    // Numbers are most useful from the highest.
    const descending = same ? !this.#sorted.descending : Boolean(this.#columns[at].numeric);
    this.#sorted = { column: at, descending };
    this.#draw();
  }

  #make(row) {
    const cells = this.#columns.map((column, at) => {
      const cell = element(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null });
      if (column.numeric) cell.classList.add("number");
      if (column.kind) cell.classList.add(column.kind);
      return { cell, update: column.cell?.(cell, row) ?? ((now) => setText(cell, column.text(now))) };
    });
    const line = element("tr", {}, ...cells.map(({ cell }) => cell));
    line.update = (now) => cells.forEach(({ update }) => update(now));
    return line;
  }

  #matches(row) {
    if (this.#words.length === 0) return true;
    const text = this.#columns.map((column) => (column.text ? column.text(row) : "")).join(" ").toLowerCase();
    return this.#words.every((word) => text.includes(word));
  }

  #draw() {
    const { column, descending } = this.#sorted;
    const { value } = this.#columns[column];
    const found = this.#rows.filter((row) => this.#matches(row));
    found.sort((a, b) => (descending ? compare(value(b), value(a)) : compare(value(a), value(b))));
    const shown = found.slice(0, this.#most);
    const lines = this.#entries(shown, this.#key);
    lines.forEach((line, at) => {
      line.update(shown[at]);
      setAttribute(line, "aria-current", this.#selected === this.#key(shown[at]) ? "true" : null);
    });
    arrange(this.#body, lines);
    this.#describe(found.length, shown.length);
  }

  #describe(found, shown) {
    const { column, descending } = this.#sorted;
    this.#heads.forEach((head, at) => {
      setAttribute(head, "aria-sort", at === column ? (descending ? "descending" : "ascending") : null);
    });
    const all = this.#rows.length;
    const part = shown < found ? `${count(shown)} of ${count(found)} shown` : "";
    const filtered = this.#words.length > 0 ? `${count(found)} of ${count(all)} match` : "";
    setText(this.#note, all === 0 ? this.empty : [filtered, part].filter(Boolean).join("; "));
    this.#more.hidden = shown >= found;
  }
}
