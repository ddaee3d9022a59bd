//! A profile's constants in the machine's units.

use super::profile::{Profile, Protocol};
use super::{TICKS, Time};

/// A profile's constants, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) protocol: Protocol,
    pub(super) migratory: bool,
    pub(super) inclusive: bool,
    pub(super) stream_lines: u64,
    pub(super) issue: Time,
    pub(super) reorder_buffer: u64,
    pub(super) store_buffer: usize,
    pub(super) fill_buffers: usize,
    pub(super) mispredict: Time,
    pub(super) store: Time,
    pub(super) store_l2: Time,
    pub(super) l1_bytes: u64,
    pub(super) l1_ways: u64,
    pub(super) l1: Time,
    pub(super) l2_bytes: u64,
    pub(super) l2_ways: u64,
    pub(super) l2: Time,
    pub(super) llc: Time,
    pub(super) dram: Time,
    pub(super) dram_interval: Time,
    pub(super) core_clean: Time,
    pub(super) core_modified: Time,
    pub(super) upgrade: Time,
    pub(super) hold: Time,
    pub(super) spread: f64,
    pub(super) drain: Time,
    pub(super) remote_dram: Option<Time>,
    pub(super) remote_core: Option<Time>,
    pub(super) device_ways: usize,
    pub(super) demotes: bool,
}

impl Timing {
    pub(super) fn new(profile: &Profile) -> Timing {
        let transfer = &profile.transfer;
        Timing {
            protocol: profile.protocol,
            migratory: profile.migratory.value > 0.0,
            inclusive: profile.inclusive.as_ref().is_some_and(|switch| switch.value > 0.0),
            stream_lines: profile.l2_stream.value as u64,
            issue: (TICKS as f64 / profile.core.width.value).round() as Time,
            reorder_buffer: profile.core.reorder_buffer.value as u64,
            store_buffer: profile.core.store_buffer.value as usize,
            fill_buffers: profile.core.fill_buffers.value as usize,
            mispredict: Profile::cycles(&profile.core.mispredict),
            store: Profile::cycles(&profile.core.store),
            store_l2: Profile::cycles(&profile.core.store_l2),
            l1_bytes: profile.l1.bytes.value as u64,
            l1_ways: profile.l1.ways.value as u64,
            l1: Profile::cycles(&profile.l1.latency),
            l2_bytes: profile.l2.bytes.value as u64,
            l2_ways: profile.l2.ways.value as u64,
            l2: Profile::cycles(&profile.l2.latency),
            llc: Profile::cycles(&profile.llc.latency),
            dram: profile.nanoseconds(&transfer.dram),
            dram_interval: profile.nanoseconds(&transfer.dram_interval),
            core_clean: profile.nanoseconds(&transfer.core_clean),
            core_modified: profile.nanoseconds(&transfer.core_modified),
            upgrade: profile.nanoseconds(&transfer.upgrade),
            hold: profile.nanoseconds(&transfer.hold),
            spread: transfer.spread.as_ref().map_or(0.0, |part| part.value),
            drain: profile.nanoseconds(&transfer.drain),
            remote_dram: transfer.remote_dram.as_ref().map(|time| profile.nanoseconds(time)),
            remote_core: transfer.remote_core.as_ref().map(|time| profile.nanoseconds(time)),
            device_ways: profile.device_ways(),
            demotes: profile.demote,
        }
    }
}
