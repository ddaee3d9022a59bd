//! The four cases that were measured, simulated with either switch.
