// The latency of sampled packets to a port, as a histogram.

import { element, setAttribute, setText, shape } from "./dom.js";
import { count, nanoseconds } from "./units.js";

const SIZE = { width: 600, height: 60 };
/** The end that is shown for the last bucket, which has none. */
const LAST = 2 ** 26;

const end = (bucket) => bucket.up_to_ns ?? LAST;

/** The end of the bucket with the packet at this share of all, as text. */
function quantile({ buckets }, share) {
  const all = buckets.reduce((sum, { packets }) => sum + packets, 0);
  let seen = 0;
  const bucket = buckets.find(({ packets }) => (seen += packets) >= all * share) ?? buckets.at(-1);
  return `${bucket.up_to_ns ? "" : "more than "}${nanoseconds(end(bucket))}`;
}

/** Position of a time on the axis, which is logarithmic from 64 ns to 67 ms. */
const place = (ns) => (Math.log2(ns / 64) / 20) * SIZE.width;

function bar(bucket, highest) {
  const [right, height] = [place(end(bucket)), (bucket.packets / highest) * SIZE.height];
  const left = place(end(bucket) * 0.8);
  return shape("rect", { x: left, y: SIZE.height - height, width: Math.max(2, right - left), height });
}

export class Latency {
  #title = element("h3", {}, "Latency");
  #text = element("p", { id: "latency" });
  #picture = shape("svg", {
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, preserveAspectRatio: "none", role: "img", class: "bars",
  });
  #box = element("div", { hidden: "" }, this.#title, this.#text, this.#picture);

  constructor(parent) {
    parent.append(this.#box);
  }

  update(latency) {
    this.#box.hidden = !latency;
    if (!latency) return;
    const packets = latency.buckets.reduce((sum, bucket) => sum + bucket.packets, 0);
    const [p50, p99, most] = [0.5, 0.99, 1].map((share) => quantile(latency, share));
    const sampled = `${count(packets)} sampled packets to the port since it was added`;
    setText(this.#text, `p50 ${p50}, p99 ${p99}, maximum ${most}, of ${sampled}`);
    const highest = Math.max(...latency.buckets.map((bucket) => bucket.packets));
    this.#picture.replaceChildren(...latency.buckets.map((bucket) => bar(bucket, highest)));
    setAttribute(this.#picture, "aria-label", `Histogram from 64 ns to 67 ms: p50 ${p50}, p99 ${p99}`);
  }
}
