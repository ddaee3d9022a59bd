//! The control API: HTTP with JSON over a Unix socket, on a thread of its own and never on a worker.
//!
//! `service` handles requests, `routes` describes them, `error` has their errors, `server` speaks HTTP, `client` is the
//! other end, `grants` answers applications that ask for ports, `model` is the JSON of requests and answers; `control` owns the socket's path. Routes begin with the version
//! of the API; within a version, fields are added and never change.

pub(crate) mod client;
pub(crate) mod control;
mod error;
#[cfg(test)]
mod fake;
pub(crate) mod grants;
pub(crate) mod model;
pub(crate) mod routes;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
