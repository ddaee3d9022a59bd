//! A memif peer leaves no resources behind after it has disconnected.

use crate::common::footprint;
use port::memif::fuzz::{fuzz_messages, fuzz_rings};
use port::memif::{Memif, Options};
use port::vhost_user::fake::FakeEngine;
use port::{PortControl, PortFault, PortState};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::{Duration, Instant};

pub(crate) fn memif_peers_leave_no_resources() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let options = Options { ring_size: 128, queue_pairs: 2, ..Options::default() };
    // The signalling context of a thread is not a peer's.
    port::prepare_thread();
    let mut now = Instant::now();
    let (mut server, mut engine) = (Memif::listen(&path, options).unwrap(), FakeEngine::default());
    let before = footprint();
    for n in 0..200u64 {
        let (mut client, mut other) = (Memif::connect(&path, options, now).unwrap(), FakeEngine::default());
        let rounds = if n % 4 == 0 { n / 4 % 12 } else { 40 };
        for _ in 0..rounds {
            client.handle(now, &mut other);
            server.handle(now, &mut engine);
        }
        if n % 4 == 1 {
            assert_eq!(engine.rx.len(), 2, "it runs: {:?}", server.status());
            server.fault(now, PortFault::MemoryLost, &mut engine);
        }
        if n % 4 == 2 {
            client.close(&mut other);
        }
        drop((client, other));
        for _ in 0..4 {
            now += Duration::from_secs(3);
            server.handle(now, &mut engine);
        }
        assert!(!matches!(server.status().state, PortState::Connected) && engine.rx.is_empty());
        assert_eq!(footprint(), before, "open descriptors and mapped memory files after peer {n}");
    }
    drop((server, engine));

    let before = footprint();
    let mut runner = TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let scripts = prop::collection::vec(any::<u8>(), 0..1500);
    runner
        .run(&scripts, |script| {
            fuzz_messages(&script);
            fuzz_rings(&script);
            prop_assert_eq!(footprint(), before);
            Ok(())
        })
        .unwrap();
}
