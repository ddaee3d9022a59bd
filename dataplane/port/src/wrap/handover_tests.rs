//! Tests of the hand-over of a port with a capture and a trace.

use super::tests::bench::packets;
use super::*;
use crate::handover::Handover;
use crate::spool::Output;
use crate::stream::{SocketAddress, Stream};
use crate::vhost_user::fake::FakeEngine;
use crate::{Burst, BurstStats, PortControl};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

fn wrappers(dir: &Path) -> Wrappers {
    let output = |name| Output::new(dir.join(name));
    Wrappers {
        capture: Some(Capture { output: output("c.pcapng"), snap: None, directions: Directions::Both }),
        trace: Some(Trace { output: output("t"), directions: Directions::In }),
        ..Wrappers::default()
    }
}

fn successor(dir: &Path, wrappers: &Wrappers) -> Box<dyn PortControl> {
    let port = Stream::successor(&SocketAddress::Unix(dir.join("s"))).unwrap();
    wrap_successor(Box::new(port), "red", wrappers).unwrap()
}

/// Sends frames as the peer, and receives them in the port.
fn pass(peer: &mut UnixStream, engine: &mut FakeEngine, frames: usize) {
    peer.write_all(&[&60_u32.to_be_bytes()[..], &[7; 60]].concat().repeat(frames)).unwrap();
    let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
    while stats.packets < frames as u64 {
        burst.begin(0);
        let rx = engine.rx.get_mut(&0).unwrap();
        rx.rx(&mut burst, &mut stats).unwrap();
        rx.complete(burst.buf_ids());
    }
}

#[test]
fn files_continue_behind_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let (now, mut engine) = (Instant::now(), FakeEngine::default());
    let stream = Stream::listen(&SocketAddress::Unix(dir.path().join("s"))).unwrap();
    let mut port = wrap(Box::new(stream), "red", &wrappers(dir.path())).unwrap();
    let mut peer = UnixStream::connect(dir.path().join("s")).unwrap();
    port.handle(now, &mut engine);
    for frames in 1..=4 {
        pass(&mut peer, &mut engine, frames);
        let handover = port.as_handover().unwrap().hand_over(&mut engine).unwrap();
        if frames == 2 {
            port.as_handover().unwrap().resume(now, &mut engine);
            continue;
        }
        let mut next = successor(dir.path(), &wrappers(dir.path()));
        next.as_handover().unwrap().take_over(handover, now, &mut engine).unwrap();
        next.handle(now, &mut engine);
        port.as_handover().unwrap().release(&mut FakeEngine::default());
        port = next;
    }
    pass(&mut peer, &mut engine, 5);
    port.close(&mut engine);
    assert_eq!(packets(&dir.path().join("c.pcapng")).len(), 15);
    assert_eq!(std::fs::read_to_string(dir.path().join("t")).unwrap().lines().count(), 15);
    let captured = port.details().into_iter().find(|(name, _)| *name == crate::PortDetail::Captured);
    assert_eq!(captured.map(|(_, count)| count), Some("15".to_owned()));
}

#[test]
fn description_without_the_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (now, mut engine) = (Instant::now(), FakeEngine::default());
    let take_over = |handover: Handover, wrappers: &Wrappers, engine: &mut FakeEngine| {
        let mut port = successor(dir.path(), wrappers);
        port.as_handover().unwrap().take_over(handover, now, engine).unwrap_err().to_string()
    };
    let error = take_over(Handover::default(), &wrappers(dir.path()), &mut engine);
    assert!(error.contains("it has no file that is written"), "{error}");
    for bytes in [0, 31] {
        let mut handover = Handover::default();
        handover.push(0xf0, vec![0; bytes], Vec::new());
        let error = take_over(handover, &wrappers(dir.path()), &mut engine);
        assert!(error.contains("not that of a file that is written"), "{error}");
    }
    let mut handover = Handover::default();
    handover.push(0xf0, vec![0; 32], vec![UnixStream::pair().unwrap().0.into()]);
    let error = take_over(handover, &wrappers(dir.path()), &mut engine);
    assert!(error.contains("not that of a file that is written"), "{error}");
    assert!(!dir.path().join("c.pcapng").exists(), "a successor creates no file");
}
