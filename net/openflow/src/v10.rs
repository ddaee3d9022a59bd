//! OpenFlow 1.0: matches and actions of fixed form, ports of 16 bits.

pub(crate) mod action;
pub(crate) mod matching;
