// Requests to the switch: the session, the interval of polling, and attempts after the connection was lost.

const INTERVAL = 1000;
const TIMEOUT = 5000;
/** Pauses between attempts to connect: doubled each time, up to the last. */
const PAUSES = { first: 1000, last: 15000 };

/** The session is missing or over. */
export class SignedOut extends Error {}

/** The switch does not answer, or answers with an error. */
export class Unreachable extends Error {}

async function request(path, options = {}) {
  const signal = AbortSignal.timeout(TIMEOUT);
  const failed = (cause) => {
    throw new Unreachable(path, { cause });
  };
  const response = await fetch(path, { ...options, cache: "no-store", signal }).catch(failed);
  if (response.status === 401) throw new SignedOut();
  return response;
}

/** The JSON of a path. */
export async function get(path) {
  const response = await request(path);
  if (!response.ok) throw new Unreachable(`${path}: ${response.status}`);
  return response.json().catch((cause) => {
    throw new Unreachable(path, { cause });
  });
}

/** The body of a path that has no end, which is read for at most `milliseconds`. */
export async function download(path, milliseconds) {
  const response = await fetch(path, { cache: "no-store" });
  if (response.status === 401) throw new SignedOut();
  if (!response.ok) throw new Error((await response.json()).reason);
  const [reader, parts] = [response.body.getReader(), []];
  const timer = setTimeout(() => reader.cancel(), milliseconds);
  for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value);
  clearTimeout(timer);
  return new Blob(parts, { type: "application/x-pcapng" });
}

export async function isSignedIn() {
  return (await get("/session")).signed_in;
}

/** Exchanges the token for a session. Returns false if it is wrong. */
export async function signIn(token) {
  const headers = { Authorization: `Bearer ${encodeURIComponent(token)}` };
  try {
    return (await request("/session", { method: "POST", headers })).ok;
  } catch (error) {
    if (error instanceof SignedOut) return false;
    throw error;
  }
}

export async function signOut() {
  await request("/session", { method: "DELETE" });
}

/**
 * Calls `poll` in intervals. `tell` gets "live", "paused", "out" (no session) or "lost" with the seconds until the next
 * attempt.
 */
export class Connection {
  #poll;
  #tell;
  #pause = PAUSES.first;
  #timer = null;
  #busy = false;
  #paused = false;
  #stopped = true;

  constructor(poll, tell) {
    [this.#poll, this.#tell] = [poll, tell];
  }

  /** Polls now, and then in intervals, also if it was paused. */
  start() {
    [this.#stopped, this.#paused] = [false, false];
    this.#pause = PAUSES.first;
    return this.#turn();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** Pauses or resumes, and returns whether it is paused. */
  toggle() {
    if (this.#paused) {
      this.start();
    } else {
      this.#paused = true;
      clearTimeout(this.#timer);
      this.#tell("paused");
    }
    return this.#paused;
  }

  async #turn() {
    clearTimeout(this.#timer);
    if (this.#busy) return;
    this.#busy = true;
    const pause = await this.#attempt();
    this.#busy = false;
    if (!this.#stopped && !this.#paused) this.#timer = setTimeout(() => this.#turn(), pause);
  }

  /** Polls once. Returns the time until the next turn. */
  async #attempt() {
    try {
      await this.#poll();
      this.#pause = PAUSES.first;
      if (!this.#paused && !this.#stopped) this.#tell("live");
      return INTERVAL;
    } catch (error) {
      return this.#failed(error);
    }
  }

  #failed(error) {
    if (error instanceof SignedOut) {
      this.#stopped = true;
      this.#tell("out");
      return 0;
    }
    // Any other error is a fault of the page, which browsers log.
    if (!(error instanceof Unreachable)) reportError(error);
    const pause = this.#pause;
    this.#pause = Math.min(2 * pause, PAUSES.last);
    if (!this.#paused && !this.#stopped) this.#tell("lost", pause / 1000);
    return pause;
  }
}
