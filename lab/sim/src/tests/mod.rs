//! Simulator tests: properties over random programs, and one test for each component.

mod closed;
mod deadlock;
mod exchange;
mod invariants;
mod order;
mod parts;
mod program;
mod refused;

use super::profile::{Constant, Profile};

/// The study's processor with caches and buffers so small that evictions and full buffers occur.
pub(super) fn small() -> Profile {
    let mut profile = Profile::study();
    let set = |constant: &mut Constant, value: f64| constant.value = value;
    set(&mut profile.l1.bytes, 4.0 * 64.0);
    set(&mut profile.l1.ways, 2.0);
    set(&mut profile.l2.bytes, 8.0 * 64.0);
    set(&mut profile.l2.ways, 2.0);
    set(&mut profile.llc.bytes, 16.0 * 64.0);
    set(&mut profile.llc.ways, 4.0);
    set(&mut profile.core.fill_buffers, 3.0);
    set(&mut profile.core.store_buffer, 4.0);
    set(&mut profile.core.reorder_buffer, 16.0);
    profile
}

/// The study's processor as one of two sockets.
pub(super) fn two_sockets() -> Profile {
    let constant = |value| Some(Constant { value, source: "a test".to_owned(), free: false });
    let mut profile = Profile::study();
    profile.transfer.remote_dram = constant(140.0);
    profile.transfer.remote_core = constant(120.0);
    profile
}
