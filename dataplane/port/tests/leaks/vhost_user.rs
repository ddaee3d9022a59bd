//! A front end leaves no resources behind after it has disconnected.

use crate::common::{Guest, Switch, TIMEOUT, footprint};
use port::PortState;
use port::vhost_user::Options;
use port::vhost_user::fuzz::fuzz_session;
use port::virtio_user::{Features, FrontEnd};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;

fn come_and_go(path: &Path, guest: &Guest, how_far: usize) {
    let mut front = FrontEnd::connect(path, TIMEOUT).unwrap();
    if how_far == 0 {
        return;
    }
    front.negotiate(Features(u64::MAX)).unwrap();
    if how_far == 1 {
        return;
    }
    front.share(&[guest.region()]).unwrap();
    if how_far == 2 {
        return;
    }
    let fresh = front.fresh_base();
    front.start(&[guest.ring(0, fresh), guest.ring(1, fresh)]).unwrap();
    assert_eq!(footprint().1, 1, "this is how shared memory is seen");
    if how_far == 4 {
        front.stop().unwrap();
    }
}

pub(crate) fn vhost_user_front_ends_leave_no_resources() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, Options::default());
    let guest = Guest::new();
    let quiet = |connects| {
        switch.wait("silence", |s| matches!(s.state, PortState::Waiting(_)) && s.connects == connects)
    };
    come_and_go(&path, &guest, 4);
    quiet(1);
    // The signalling context of a thread is not a front end's; the scripts below run in this thread.
    port::prepare_thread();
    let before = footprint();
    for n in 0..1000 {
        come_and_go(&path, &guest, n % 5);
        quiet(n as u64 + 2);
    }
    assert_eq!(footprint(), before, "open descriptors and mapped memory files after 1000 front ends");

    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let scripts = prop::collection::vec(any::<u8>(), 0..4000);
    runner
        .run(&scripts, |script| {
            fuzz_session(&script);
            prop_assert_eq!(footprint(), before);
            Ok(())
        })
        .unwrap();
}
