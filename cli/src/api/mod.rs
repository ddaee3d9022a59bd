//! The control API: HTTP with JSON over a Unix socket, on a thread of its own and never on a worker.
//!
//! `service` handles requests, `routes` describes them, `error` has their errors, `server` speaks HTTP, and `client` is
//! the other end, with the connections of `endpoint`. `remote` serves the API over TCP to clients with `tokens` or
//! certificates. `exporter` serves metrics over TCP, and `web` the web page. `model` is the JSON of requests and
//! answers, and `control` owns the path of a socket. `config` shows the configuration and applies another one, whose
//! file is its `source`, and `capture` captures packets. `upgrade` replaces the process by one that has its
//! `inheritance`. `peer` is the client of a request, and `places` the directories that its files may be in. `grants`
//! answers applications that ask for ports, which `policy` allows. `bonds`, `fdb`, `events`, `findings`, `flows`,
//! `history`, `mirrors`, `multicast`, `queues` and `workers` have requests and routes of their own. `stack` is the API of
//! a program with a TCP/IP stack. Routes begin with the version of the API, except `/metrics`, the text of `metrics`;
//! within a version, fields are added and never change.

mod answer;
mod bonds;
pub(crate) mod capture;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod endpoint;
pub(crate) mod error;
mod events;
pub(crate) mod exporter;
#[cfg(test)]
mod fake;
mod fdb;
mod findings;
mod flows;
pub(crate) mod grants;
pub(crate) mod history;
mod hung_step;
pub(crate) mod inheritance;
pub(crate) mod metrics;
pub(crate) mod mirrors;
pub(crate) mod model;
mod multicast;
mod peer;
mod places;
mod policy;
pub(crate) mod queue_report;
pub(crate) mod queues;
pub(crate) mod remote;
pub(crate) mod routes;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod source;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
mod tokens;
pub(crate) mod upgrade;
pub(crate) mod web;
mod workers;
