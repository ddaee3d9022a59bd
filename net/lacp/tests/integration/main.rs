//! Tests of LACP through the public interface.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod pairs;
mod replay;
