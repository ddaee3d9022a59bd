//! Configuration of a switch: values, their keys in a file, and their validation.
//!
//! `reader` reads single values. `kinds` has one file per kind of port; `policy` (with `vlan` and `security`) and
//! `wrappers` are settings for ports of all kinds, `access` those of their sockets, and `control`
//! those of the control API; `grants` are the ports that applications may obtain, and `bonds` groups of ports; `links`
//! are the keys of protocols between neighbours. `model` and `placement` are the execution and the location of workers;
//! `confine` has the keys about what the process gives up, and `needs` what ports need of it; `openflow` has the
//! controllers of bridges, `flows` their flows and access lists, and `conntrack` limits of their connections; `mirror`
//! copies packets; `web` is the address of the web page, `remote` that of the API over TCP; `topology` is the whole
//! configuration as one value. `config` reads and validates a whole file or a request, `recording` the files that ports
//! play, `section` prints a port in the file's format, `changes` compares two configurations, and `document` writes
//! changes into the text of a file. `keys` defines the keys of all sections, `description` joins them with their types,
//! and `schema` describes a port for the control API.

pub(crate) mod access;
pub(crate) mod bonds;
pub(crate) mod changes;
pub(crate) mod config;
pub(crate) mod confine;
pub(crate) mod conntrack;
pub(crate) mod control;
pub(crate) mod description;
pub(crate) mod document;
pub(crate) mod export;
pub(crate) mod flows;
pub(crate) mod grants;
pub(crate) mod keys;
pub(crate) mod kinds;
pub(crate) mod links;
pub(crate) mod mirror;
pub(crate) mod model;
pub(crate) mod multicast;
pub(crate) mod needs;
pub(crate) mod openflow;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod reader;
pub(crate) mod recording;
pub(crate) mod remote;
pub(crate) mod schema;
pub(crate) mod section;
pub(crate) mod security;
pub(crate) mod topology;
pub(crate) mod underlay;
pub(crate) mod value;
pub(crate) mod vlan;
pub(crate) mod web;
pub(crate) mod wrappers;

/// Maximum number of ports at one time. Counters and tables for all of them are allocated at start.
pub(crate) const MAX_PORTS: usize = 1024;
