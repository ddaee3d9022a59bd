//! Hand-over of a port on a loopback interface, on which the frames that it sends return.

use super::*;
use crate::handover::Handover;
use crate::interface::{Place, sys};
use crate::vhost_user::fake::FakeEngine;
use crate::{Burst, BurstStats, PortControl, PortState};
use mem::copy::Portable;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::time::{Duration, Instant};

/// A type of Ethernet for local experiments, which the kernel ignores.
const TYPE: [u8; 2] = [0x88, 0xb5];
/// Frames that are not counted, because the interface loses the first one after it came up.
const WARM_UP: std::ops::Range<u8> = 250..252;

fn options() -> Options {
    Options::new(Place { interface: "lo".to_owned(), netns: None })
}

/// Sends frames with these numbers.
fn send(engine: &mut FakeEngine, numbers: std::ops::Range<u8>) {
    let mut burst = Burst::new();
    burst.begin(0);
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&TYPE);
    for number in numbers {
        frame[14] = number;
        assert!(burst.push_own(&frame));
    }
    let indices: Vec<u8> = (0..burst.len() as u8).collect();
    let sent = engine.tx.get_mut(&0).unwrap().tx(&burst, &indices, &mut BurstStats::default());
    assert_eq!(sent, Ok(indices.len()));
}

/// Receives until `got` has `n` numbers.
fn receive(engine: &mut FakeEngine, got: &mut Vec<u8>, n: usize) {
    let (rx, start) = (engine.rx.get_mut(&0).unwrap(), Instant::now());
    let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
    while got.len() < n {
        assert!(start.elapsed() < Duration::from_secs(20), "{} of {n} frames came", got.len());
        burst.begin_limited(0, 7);
        rx.rx(&mut burst, &mut stats).unwrap();
        burst.load_heads::<Portable>();
        for i in (0..burst.len()).filter(|i| burst.head(*i)[12..14] == TYPE) {
            got.extend(Some(burst.head(i)[14]).filter(|number| *number < WARM_UP.start));
        }
        rx.complete(burst.buf_ids());
    }
}

fn hand_over(port: &mut dyn PortControl, engine: &mut FakeEngine) -> Handover {
    port.as_handover().unwrap().hand_over(engine).unwrap()
}

fn in_namespace(scenario: fn()) {
    let scenario = move || {
        // SAFETY: no descriptor table is unshared.
        match unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
            Err(rustix::io::Errno::PERM) => {
                panic!("SKIPPED: this process may not create a network namespace; run the tests as root")
            }
            unshared => unshared.unwrap(),
        }
        scenario();
    };
    std::thread::spawn(scenario).join().unwrap();
}

/// Half of the frames of a block are received by one port, and the rest by the one that continues it.
#[test]
fn a_block_is_continued_in_the_middle() {
    in_namespace(|| {
        let (mut port, mut engine, now) = (open(options()).unwrap(), FakeEngine::default(), Instant::now());
        sys::set_up(port.poll_fd().unwrap(), "lo", true).unwrap();
        port.handle(now, &mut engine);
        send(&mut engine, WARM_UP);
        let mut got = Vec::new();
        for round in 0..6_u8 {
            send(&mut engine, 40 * round..40 * (round + 1));
            receive(&mut engine, &mut got, 40 * usize::from(round) + 20);
            let handover = hand_over(&mut *port, &mut engine);
            assert!(engine.rx.is_empty() && engine.tx.is_empty());
            if round % 2 == 0 {
                port.as_handover().unwrap().resume(now, &mut engine);
            } else {
                let mut next = successor(options()).unwrap();
                next.as_handover().unwrap().take_over(handover, now, &mut engine).unwrap();
                port.as_handover().unwrap().release(&mut FakeEngine::default());
                port = next;
            }
            port.handle(now, &mut engine);
            assert_eq!(port.status().state, PortState::Connected);
            receive(&mut engine, &mut got, 40 * (usize::from(round) + 1));
        }
        assert_eq!(got, (0..240).collect::<Vec<u8>>());
    });
}

type Change = fn(&mut Handover);

#[test]
fn a_description_that_does_not_fit_is_refused() {
    in_namespace(|| {
        let (mut port, mut engine, now) = (open(options()).unwrap(), FakeEngine::default(), Instant::now());
        sys::set_up(port.poll_fd().unwrap(), "lo", true).unwrap();
        port.handle(now, &mut engine);
        let changes: [(&str, Change); 5] = [
            ("not that of a port on an interface", |handover| handover.parts[0].tag = 9),
            ("not that of a port on an interface", |handover| handover.parts[0].bytes.truncate(3)),
            ("not that of a port on an interface", |handover| handover.parts[0].descriptors.clear()),
            ("fewer blocks", |handover| handover.parts[0].bytes[..2].fill(0xff)),
            ("no memory for the rings", |handover| {
                handover.parts[0].descriptors =
                    vec![std::os::unix::net::UnixStream::pair().unwrap().0.into()];
            }),
        ];
        for (expected, change) in changes {
            let mut handover = hand_over(&mut *port, &mut engine);
            change(&mut handover);
            let mut next = successor(options()).unwrap();
            let taken = next.as_handover().unwrap().take_over(handover, now, &mut engine);
            let error = taken.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            next.as_handover().unwrap().release(&mut engine);
            port.as_handover().unwrap().resume(now, &mut engine);
        }
    });
}
