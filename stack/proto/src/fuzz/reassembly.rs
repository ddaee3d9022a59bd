//! Reassembly of fragments of known packets, of arbitrary fragments, and the passing of time.
//!
//! Invariants: a complete packet of known fragments has the known bytes and a valid header, and no limit is exceeded.

use super::Script;
use crate::ip::InterfaceId;
use crate::ip::reassembly::{Fragment, Reassembled, Reassembly};
use crate::{Counters, Limits, Time};
use alloc::vec::Vec;
use core::time::Duration;
use wire::checksum::{Sum, protocol};
use wire::{Ipv4, Ipv6, ipv6_fragment_header, rewrite_ipv4};

/// Interface on which only fragments of known packets arrive.
const KNOWN: InterfaceId = InterfaceId(0);
const UNKNOWN: InterfaceId = InterfaceId(1);

/// Runs a script.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_reassembly(script: &[u8]) {
    let limits = Limits { reassemblies: 4, fragments: 6, reassembly_bytes: 2000, ..Limits::default() };
    let mut host = Host { held: Reassembly::new(&limits), now: Time(0), counters: Counters::default() };
    let mut script = Script(script);
    while !script.0.is_empty() {
        match script.byte() {
            0..8 => {
                let len = script.byte();
                host.receive(UNKNOWN, script.bytes(len));
            }
            8..16 => host.wait(script.byte()),
            flags => host.receive(KNOWN, &known(flags, script.byte(), script.byte())),
        }
    }
}

struct Host {
    held: Reassembly,
    now: Time,
    counters: Counters,
}

impl Host {
    fn wait(&mut self, seconds: u8) {
        self.now = self.now.after(Duration::from_secs(seconds.into()));
        while let Some(first) = self.held.expire(self.now, &mut self.counters) {
            assert!(
                Fragment::new(KNOWN, &first, 0).is_some_and(|fragment| fragment.payload().end == first.len())
            );
        }
        assert!(self.held.deadline() > self.now);
    }

    fn receive(&mut self, interface: InterfaceId, packet: &[u8]) {
        let head = packet.get(..128).unwrap_or(packet);
        let Some(fragment) = Fragment::new(interface, head, 0) else { return };
        // The caller of the reassembly checks this.
        let Some(payload) = packet.get(fragment.payload()) else { return };
        let copy = |to: &mut [u8]| to.copy_from_slice(payload);
        match self.held.receive(&fragment, copy, self.now, &mut self.counters) {
            Reassembled::Complete(packet) => check(&packet, interface == KNOWN),
            Reassembled::Refused { code, pointer } => {
                assert!(matches!(code, 0 | 3) && (pointer as usize) < packet.len());
            }
            Reassembled::Pending | Reassembled::Discarded => (),
        }
        let (packets, bytes) = self.held.usage();
        assert!(packets <= 4 && bytes <= 2000, "{packets} packets, {bytes} bytes");
    }
}

/// A fragment of a known packet: `flags` select its version and whether fragments follow, `place` and `len` its bytes.
fn known(flags: u8, place: u8, len: u8) -> Vec<u8> {
    let (is_v4, more, id) = (flags & 1 != 0, flags & 2 != 0, flags >> 2 & 3);
    let start = usize::from(place % 32) * 8;
    let len = if more { usize::from(len) / 8 * 8 } else { usize::from(len) };
    let payload = (start..start + len).map(|at| pattern(id, at));
    if is_v4 {
        let field = (start / 8) as u16 | u16::from(more) << 13;
        let [high, low] = field.to_be_bytes();
        let mut packet = Vec::from([0x45, 0, 0, 0, 0, 0, high, low, 64, protocol::UDP, 0, 0]);
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2].into_iter().chain(payload));
        let len = packet.len() as u16;
        rewrite_ipv4(&mut packet, len, id.into());
        return packet;
    }
    let [high, low] = (len as u16 + 8).to_be_bytes();
    let mut packet = Vec::from([0x60, 0, 0, 0, high, low, 44, 64]);
    packet.extend([0xfd; 32]);
    packet.extend(ipv6_fragment_header(protocol::UDP, start as u16, more, id.into()));
    packet.extend(payload);
    packet
}

/// Byte of a known packet.
fn pattern(id: u8, at: usize) -> u8 {
    (at * 5 + at / 256) as u8 ^ id << 6
}

fn check(packet: &[u8], is_known: bool) {
    let (payload, len) = if packet[0] >> 4 == 4 {
        let view = Ipv4::new(packet).expect("a header");
        assert!(!view.is_fragment() && Sum::of(&packet[..view.header_len()]).finish() == [0, 0]);
        (&packet[view.header_len()..], usize::from(view.total_len()))
    } else {
        let view = Ipv6::new(packet).expect("a header");
        (&packet[40..], 40 + usize::from(view.payload_len()))
    };
    assert_eq!(len, packet.len());
    let id = payload.first().map_or(0, |first| first >> 6);
    let is_pattern = payload.iter().enumerate().all(|(at, byte)| *byte == pattern(id, at));
    assert!(is_pattern || !is_known, "{payload:?}");
}
