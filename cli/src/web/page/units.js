// Numbers as text.

const PREFIXES = ["", "k", "M", "G", "T", "P"];
const INTEGER = new Intl.NumberFormat("en", { maximumFractionDigits: 0, useGrouping: true });

/** Three digits, or `fraction` of them after the point, and a decimal prefix: 1234567 is "1.23 M". */
export function scaled(value, unit = "", fraction = null) {
  let [number, prefix] = [value, 0];
  while (number >= 999.5 && prefix < PREFIXES.length - 1) [number, prefix] = [number / 1000, prefix + 1];
  const whole = prefix === 0 && (number === 0 || number >= 9.95);
  const digits = fraction ?? (whole || number >= 99.95 ? 0 : number >= 9.995 || prefix === 0 ? 1 : 2);
  const suffix = PREFIXES[prefix] + unit;
  return suffix ? `${number.toFixed(digits)} ${suffix}` : number.toFixed(digits);
}

export function count(value) {
  return INTEGER.format(value);
}

export function percent(share) {
  return `${(100 * share).toFixed(share < 0.0995 && share > 0 ? 1 : 0)} %`;
}

/** The two largest units of a duration in seconds. */
export function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const parts = [];
  let rest = Math.floor(seconds);
  for (const [size, name] of units) {
    if (rest >= size || (size === 1 && parts.length === 0)) parts.push(`${Math.floor(rest / size)} ${name}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ");
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [number, at] = [value, 0];
  while (number >= 1024 && at < units.length - 1) [number, at] = [number / 1024, at + 1];
  return `${number.toFixed(at === 0 || number >= 99.5 ? 0 : 1)} ${units[at]}`;
}

/** "1 port", "2 ports". */
export function plural(number, noun, nouns = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : nouns}`;
}

/** The rate of a line that is not scaled to nothing: zero is a dash. */
export function rate(value) {
  return value > 0 ? scaled(value) : "–";
}

/** A time in the largest unit of which there is at least one. */
export function nanoseconds(value) {
  const [unit, size] = [["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, size]) => value >= size) ?? ["ns", 1];
  return `${(value / size).toLocaleString("en", { maximumSignificantDigits: 3 })} ${unit}`;
}
