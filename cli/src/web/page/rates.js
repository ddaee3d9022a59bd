// Rates from two snapshots of counters.

import { History } from "./history.js";

/** Drops that are no loss: copies of floods for ports without a peer, and packets to idle members of bonds. */
const HARMLESS = ["flood-port-down", "bond-inactive"];
const SERIES = ["rxPackets", "rxBits", "txPackets", "txBits", "drops"];

function lost(drops) {
  return Object.entries(drops).filter(([reason]) => !HARMLESS.includes(reason)).reduce((sum, [, n]) => sum + n, 0);
}

/** Drops per second by reason, of which at least one packet was dropped since the port exists. */
function reasons(now, before, seconds) {
  const rate = ([reason, total]) => ({
    reason,
    total,
    rate: Math.max(0, total - (before[reason] ?? 0)) / seconds,
    harmless: HARMLESS.includes(reason),
  });
  return Object.entries(now).map(rate).sort((a, b) => b.rate - a.rate || b.total - a.total);
}

function portRates(port, before, seconds) {
  const rate = (key) => Math.max(0, port[key] - before[key]) / seconds;
  return {
    rxPackets: rate("rx_packets"),
    rxBits: 8 * rate("rx_bytes"),
    txPackets: rate("tx_packets"),
    txBits: 8 * rate("tx_bytes"),
    drops: Math.max(0, lost(port.drops) - lost(before.drops)) / seconds,
    reasons: reasons(port.drops, before.drops, seconds),
  };
}

/** Cycles per packet of sampled bursts, by step. */
function stepRates(steps, before) {
  const packets = steps.packets - before.packets;
  const each = (step) => (packets > 0 ? (steps[step] - before[step]) / packets : null);
  return { receive: each("receive"), pipeline: each("pipeline"), transmit: each("transmit") };
}

function workerRates(worker, before, seconds, frequency) {
  const [busy, packets] = [worker.busy_cycles - before.busy_cycles, worker.packets - before.packets];
  return {
    busy: Math.min(1, Math.max(0, busy / (seconds * frequency))),
    packets: Math.max(0, packets) / seconds,
    cycles: packets > 0 ? busy / packets : null,
    wakes: Math.max(0, worker.wakes - before.wakes) / seconds,
    ...stepRates(worker.steps, before.steps),
  };
}

/** Entries with rates and history by key, from each snapshot and the one before. */
export class Rates {
  #before = null;
  ports = new Map();
  workers = new Map();
  totals = new History(...SERIES);
  now = Object.fromEntries(SERIES.map((name) => [name, 0]));

  /** Takes a snapshot. Returns whether the switch has started again since the last one. */
  take(snapshot) {
    const restarted = this.#before !== null && snapshot.uptime_ns < this.#before.uptime_ns;
    if (restarted) this.#before = null;
    const before = this.#before ?? snapshot;
    const seconds = Math.max(1e-9, (snapshot.uptime_ns - before.uptime_ns) / 1e9);
    this.#takePorts(snapshot, before, seconds);
    this.#takeWorkers(snapshot, before, seconds);
    if (this.#before !== null) this.#sum(seconds);
    this.#before = snapshot;
    return restarted;
  }

  #takePorts(snapshot, before, seconds) {
    const key = (port) => `${port.id} ${port.name}`;
    const earlier = new Map(before.ports.map((port) => [key(port), port]));
    const entry = (port) => {
      const old = this.ports.get(port.name);
      const history = old?.history ?? new History(...SERIES);
      const rates = portRates(port, earlier.get(key(port)) ?? port, seconds);
      if (this.#before !== null) history.push(rates, seconds);
      return [port.name, { ...port, ...rates, events: port.history, history, lost: lost(port.drops) }];
    };
    this.ports = new Map(snapshot.ports.map(entry));
  }

  #takeWorkers(snapshot, before, seconds) {
    const entry = (worker) => {
      const history = this.workers.get(worker.index)?.history ?? new History("busy");
      const earlier = before.workers.find((other) => other.index === worker.index) ?? worker;
      const rates = workerRates(worker, earlier, seconds, snapshot.cycles_per_second);
      if (this.#before !== null) history.push(rates, seconds);
      return [worker.index, { ...worker, ...rates, history }];
    };
    this.workers = new Map(snapshot.workers.map(entry));
  }

  #sum(seconds) {
    for (const name of SERIES) {
      this.now[name] = [...this.ports.values()].reduce((sum, port) => sum + port[name], 0);
    }
    this.totals.push(this.now, seconds);
  }
}
