//! Shared parts of the benches: the measurements of the TCP/IP stack, which `linerate lab stack` uses too. No program
//! asserts limits on time; all print readings.

pub mod stack;
