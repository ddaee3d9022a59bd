//! Arbitrary bytes as BPDUs, links and seconds of a bridge.
//!
//! Invariants: nothing panics, a decoded BPDU is decoded to the same one after it was encoded, the state machines
//! settle (`debug_assert` in `settle`), and one frame does not cause more frames than the hold count allows.

use crate::{Bpdu, Bridge, BridgeConfig, Event, FRAME_LEN, PortConfig, Protocol};
use std::time::Duration;
use wire::MacAddress;

const PORTS: u16 = 3;

/// The first byte selects options. Then each step is a byte that selects a port and an action, and what it needs.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_bridge(script: &[u8]) {
    let Some((&options, mut script)) = script.split_first() else { return };
    let protocol = if options & 1 == 0 { Protocol::Rstp } else { Protocol::Stp };
    let config = BridgeConfig { protocol, ..BridgeConfig::default() };
    let Ok(mut bridge) = Bridge::new(MacAddress::from_u64(0x20), config, Duration::ZERO) else { return };
    for number in 1..=PORTS {
        let guard = number == PORTS && options & 2 != 0;
        let added = bridge.add_port(number, PortConfig { bpdu_guard: guard, ..PortConfig::default() });
        assert_eq!(added, Ok(()));
    }
    let mut now = 0;
    while let Some((&action, rest)) = script.split_first() {
        let number = u16::from(action >> 6) + 1;
        script = match action & 3 {
            0 => {
                bridge.set_link(number, action & 4 != 0);
                rest
            }
            1 => {
                now += u64::from(action >> 2 & 15);
                let next = bridge.tick(Duration::from_secs(now));
                assert!(next > Duration::from_secs(now), "time advances");
                rest
            }
            _ => receive(&mut bridge, number, rest),
        };
        check(&mut bridge);
    }
}

/// A frame of up to 60 bytes, of which the first 17 are those of a BPDU.
fn receive<'a>(bridge: &mut Bridge, number: u16, script: &'a [u8]) -> &'a [u8] {
    let mut frame = Bpdu::TopologyChange.encode(MacAddress::from_u64(0x30));
    frame[12..14].copy_from_slice(&39_u16.to_be_bytes());
    let length = script.len().min(FRAME_LEN - 17);
    frame[17..17 + length].copy_from_slice(&script[..length]);
    if let Ok(bpdu) = Bpdu::decode(&frame) {
        assert_eq!(Bpdu::decode(&bpdu.encode(MacAddress::from_u64(1))), Ok(bpdu));
    }
    bridge.receive(number, &frame[..17 + length]);
    &script[length..]
}

fn check(bridge: &mut Bridge) {
    let events = bridge.take_events();
    let frames = events.iter().filter(|event| matches!(event, Event::Send(..))).count();
    assert!(frames <= 40 * usize::from(PORTS), "{frames} frames at once");
    for number in 1..=PORTS {
        let status = bridge.port_status(number);
        assert!(status.is_some_and(|status| !status.guarded || status.state == crate::State::Discarding));
    }
}
