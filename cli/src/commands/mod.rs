//! The commands: `run` runs a switch; `verbs`, `ports`, `bridges` and others query and change a running one, and `trace`
//! follows a packet through it; `events` shows what happened, `doctor` finds known causes of faults, and `import` reads
//! the configuration of another switch; `generate`, `bench` and `load` measure; `serve` runs servers, `stack` queries
//! them; `guest` and `demo` are guests.

pub(crate) mod bench;
pub(crate) mod bonds;
pub(crate) mod bridges;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod config;
mod confinement;
pub(crate) mod connections;
pub(crate) mod counters;
mod cpu;
mod crash;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod end;
pub(crate) mod events;
pub(crate) mod extcap;
pub(crate) mod generate;
pub(crate) mod guest;
pub(crate) mod import;
pub(crate) mod laboratory;
pub(crate) mod load;
pub(crate) mod mirrors;
pub(crate) mod multicast;
pub(crate) mod ports;
pub(crate) mod queues;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod snippet;
pub(crate) mod sockets;
pub(crate) mod stack;
pub(crate) mod supervision;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod tunnels;
mod unsaved;
pub(crate) mod upgrade;
pub(crate) mod verbs;
pub(crate) mod workers;
