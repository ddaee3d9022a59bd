// Samples of the last minutes, which the page keeps itself: the switch has counters only.

/** Number of samples that are kept, one for each second. */
export const LENGTH = 300;

/** Numbers in a ring, oldest first. */
export class Ring {
  #values = new Float32Array(LENGTH);
  #count = 0;

  push(value) {
    this.#values[this.#count % LENGTH] = value;
    this.#count += 1;
  }

  get length() {
    return Math.min(this.#count, LENGTH);
  }

  /** The last `most` values, oldest first. */
  last(most = LENGTH) {
    const length = Math.min(most, this.length);
    return Array.from({ length }, (_, at) => this.#values[(this.#count - length + at) % LENGTH]);
  }
}

/** Rings by the names of series. */
export class History {
  constructor(...names) {
    this.series = Object.fromEntries(names.map((name) => [name, new Ring()]));
  }

  /** Adds the values of the last interval, once for each second: after a pause of the page, it is longer. */
  push(values, seconds) {
    const times = Math.min(LENGTH, Math.max(1, Math.round(seconds)));
    for (const [name, ring] of Object.entries(this.series)) {
      for (let n = 0; n < times; n += 1) ring.push(values[name]);
    }
  }
}

export function mean(values) {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function highest(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}
