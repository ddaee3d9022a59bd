//! Services between hosts in one process.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

mod pair;
