//! Several workers serve ports with several queues: every packet is accounted for, and a misbehaving front end does not
//! affect other ports.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod calls;
mod calm;
mod churn;
mod guest;
mod hostile;
mod hung;
mod memory;
mod models;
mod moving;
mod rig;
mod scope;
mod sleep;
mod stealing;
mod swap;
mod theft;
