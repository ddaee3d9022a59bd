//! What the switch promises when several workers serve ports with several queues: every packet is accounted for,
//! and what one front end does costs no other port.
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
mod sleep;
mod stealing;
mod swap;
mod theft;
