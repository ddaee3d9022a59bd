//! Fuzz target of arbitrary frames against an aggregation, also replayed by ordinary tests.
//!
//! Invariants: nothing panics, a written frame is parsed again, ports that distribute have one partner, and no port
//! sends more than three LACPDUs a second.

use crate::{Endpoint, FRAME, Group, GroupConfig, Pdu, SlowFrame, State, lacp_frame};
use std::collections::BTreeMap;
use wire::MacAddress;

const OWN: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const PORTS: u16 = 4;
/// Bytes of a script for each event: what happens, time, partner, its state, and a change of the frame.
const STEP: usize = 6;
const SECOND: u64 = 1_000_000_000;

/// Passes frames and link changes to an aggregation of four ports.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_frames(script: &[u8]) {
    let config = GroupConfig { is_active: true, is_fast: true, system_priority: 1, system: OWN, key: 1 };
    let mut group = Group::new(config);
    (1..=PORTS).for_each(|port| group.add(port, port));
    let (mut now, mut sent) = (0, BTreeMap::<u16, Vec<u64>>::new());
    for step in script.as_chunks::<STEP>().0 {
        let [what, time, partner, state, at, change] = *step;
        now += u64::from(time) << 24;
        let port = u16::from(what & 3) + 1;
        if what & 4 != 0 {
            group.set_enabled(port, what & 8 != 0, now);
        } else {
            let frame = frame(&group, port, partner, State(state), (at, change));
            if let Ok(SlowFrame::Lacp(pdu)) = SlowFrame::parse(&frame) {
                assert_eq!(SlowFrame::parse(&lacp_frame(OWN, &pdu)), Ok(SlowFrame::Lacp(pdu)));
                group.receive(port, &pdu, now);
            }
        }
        group.run(now, |port, _| sent.entry(port).or_default().push(now));
        check(&group, now);
    }
    for times in sent.values() {
        let within = |four: &[u64]| four[3] - four[0] >= SECOND;
        assert!(times.windows(4).all(within), "at most three LACPDUs a second: {times:?}");
    }
}

/// A frame of partner `partner & 3`, one byte of which is changed.
fn frame(group: &Group, port: u16, partner: u8, state: State, (at, change): (u8, u8)) -> [u8; FRAME] {
    let system = MacAddress::new([2, 0, 0, 0, 1, partner & 3]);
    let actor =
        Endpoint { system_priority: 1, system, key: u16::from(partner >> 7), port_priority: 1, port, state };
    // Half of the partners know this end.
    let known = group.port(port).filter(|_| partner & 4 == 0).map(|port| *port.actor());
    let mut frame = lacp_frame(system, &Pdu { actor, partner: known.unwrap_or_default() });
    frame[usize::from(at) % FRAME] ^= change;
    frame
}

fn check(group: &Group, now: u64) {
    let ports = (1..=PORTS).filter_map(|port| group.port(port)).filter(|port| port.is_distributing());
    let mut partners = ports.map(|port| (port.partner().system, port.partner().key));
    let first = partners.next();
    assert!(partners.all(|partner| Some(partner) == first), "the ports that distribute have one partner");
    assert!(first.is_none_or(|(system, _)| system != OWN), "a loop is not aggregated");
    assert!(group.deadline(now).is_none_or(|at| at > now), "timers that were due have run");
}
