// The page: signs in, polls the switch, and gives each panel the same model. A panel is an object with `update(model)`;
// to add one, write it in a file of its own and name it in `panels`.

import { Bridges } from "./bridges.js";
import { Connection, SignedOut, get, isSignedIn, signIn, signOut } from "./connection.js";
import { Detail } from "./detail.js";
import { find, setAttribute, setText } from "./dom.js";
import { Events } from "./events.js";
import { Addresses } from "./fdb.js";
import { Findings, announce } from "./findings.js";
import { Ports } from "./ports.js";
import { Rates } from "./rates.js";
import * as theme from "./theme.js";
import { Totals } from "./totals.js";
import { duration } from "./units.js";
import { Workers } from "./workers.js";

/** Polls after which bridges, bonds, neighbours and addresses are read again. */
const SLOW = 5;
const TEXTS = { live: "Live", paused: "Paused", out: "Signed out", lost: "Connection lost" };

const model = { rates: new Rates(), snapshot: null, status: null, compared: 0 };
let turn = 0;
let state = "start";
let attempt = null;

const attention = new Findings(open);
const detail = new Detail(() => select(null));
const [bridges, ports, workers, addresses] = [new Bridges(open), new Ports(open), new Workers(), new Addresses()];
const events = new Events();
const panels = [new Totals(), bridges, ports, workers, detail];
const connection = new Connection(poll, show);

function open(name) {
  select(name);
  detail.open(name, model);
}

function select(name) {
  ports.select(name);
  bridges.select(name);
  if (model.snapshot) bridges.update(model);
}

/** The names of the ports, which decide whether the rest has changed. */
function names(snapshot) {
  return snapshot?.ports.map((port) => port.name).join("\n");
}

/** Reads what changes slowly. */
async function pollSlowly() {
  const paths = ["/v1/status", "/v1/bridges", "/v1/bonds", "/v1/neighbors", "/v1/findings"];
  const [status, bridges, bonds, neighbors, { seconds: compared, findings }] = await Promise.all(paths.map(get));
  Object.assign(model, { status, bridges, bonds, neighbors, findings, compared });
  await Promise.all([addresses.poll(), events.poll()]);
}

async function poll() {
  const snapshot = await get("/v1/snapshot");
  const changed = names(snapshot) !== names(model.snapshot);
  if (model.rates.take(snapshot)) [model.rates, turn] = [freshRates(snapshot), 0];
  // Counters are compared at the second request for findings.
  if (turn % SLOW === 0 || changed || state !== "live" || model.compared === 0) await pollSlowly();
  turn += 1;
  model.snapshot = snapshot;
  draw();
}

/** Rates without the history of the switch before its restart. */
function freshRates(snapshot) {
  const rates = new Rates();
  rates.take(snapshot);
  announce("The switch has started again.");
  return rates;
}

function draw() {
  const { status, snapshot } = model;
  const number = attention.update(model);
  panels.forEach((panel) => panel.update(model));
  setText(find("name"), status.name);
  setText(find("about"), `linerate ${status.version}, running for ${duration(snapshot.uptime_ns / 1e9)}`);
  document.title = number > 0 ? `(${number}) ${status.name}` : status.name;
  document.body.dataset.ready = "yes";
}

/** Shows the state of the connection. */
function show(next, seconds) {
  if (next === "lost" && state !== "lost") announce("The connection to the switch is lost.");
  if (next === "live" && state === "lost") announce("The switch answers again.");
  state = next;
  clearInterval(attempt);
  setAttribute(find("connection"), "data-state", next);
  setText(find("connection"), TEXTS[next]);
  if (next === "lost") countDown(seconds);
  document.body.classList.toggle("stale", next === "lost");
  find("retry").hidden = next !== "lost";
  if (next === "out") showLogin();
}

function countDown(seconds) {
  const tell = () => setText(find("connection"), `${TEXTS.lost}; next attempt in ${seconds} s`);
  tell();
  attempt = setInterval(() => {
    seconds = Math.max(0, seconds - 1);
    tell();
  }, 1000);
}

function showPaused(paused) {
  setAttribute(find("pause"), "aria-pressed", String(paused));
  setText(find("pause"), paused ? "Resume" : "Pause");
}

function showPage(visible) {
  find("page").hidden = !visible;
  find("login").hidden = visible;
  find("pause").hidden = !visible;
  find("leave").hidden = !visible;
  document.querySelector("nav").hidden = !visible;
}

function showLogin() {
  showPage(false);
  setAttribute(find("connection"), "data-state", "out");
  setText(find("connection"), TEXTS.out);
  find("token").focus();
}

/** The token of the URL, which is removed from the address bar and from the history. */
function tokenOfUrl() {
  const { hash } = location;
  if (!hash.startsWith("#token=")) return null;
  history.replaceState(null, "", location.pathname);
  return decodeURIComponent(hash.slice("#token=".length));
}

async function enter(token) {
  setText(find("login-error"), "");
  if (token && !(await signIn(token))) {
    showLogin();
    setText(find("login-error"), "The token is wrong, or the switch has started again with another one.");
    return;
  }
  if (!token && !(await isSignedIn())) {
    showLogin();
    return;
  }
  find("token").value = "";
  showPage(true);
  showPaused(false);
  await connection.start();
}

/** Enters, and tries again while the switch does not answer. */
async function begin(token) {
  try {
    await enter(token);
  } catch (error) {
    if (error instanceof SignedOut) {
      showLogin();
    } else {
      show("lost", 2);
      setTimeout(() => begin(token), 2000);
    }
  }
}

find("login").addEventListener("submit", (event) => {
  event.preventDefault();
  begin(find("token").value.trim());
});
find("pause").addEventListener("click", () => showPaused(connection.toggle()));
find("retry").addEventListener("click", () => connection.start());
find("leave").addEventListener("click", async () => {
  connection.stop();
  await signOut();
  showLogin();
});
addEventListener("hashchange", () => {
  const token = tokenOfUrl();
  if (token) begin(token);
});
theme.start(() => workers.repaint(model));
begin(tokenOfUrl());
