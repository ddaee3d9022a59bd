//! A front end makes its call eventfd blocking, and fills it. Workers must not block on it.
//!
//! Tests the whole switch. The critical window, between the check for space and the write, is too short to be hit often
//! here; the test in `dataplane/port/src/eventfd/signal.rs` hits it.

use crate::calm::{self, BAD};
use crate::guest::{Behavior, Ending, Guest};
use crate::scope::pick;
use ring::driver::Split;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};
use std::sync::atomic::{AtomicBool, Ordering};

/// Empties and refills the counter, so that a worker finds space first and none later.
fn fill(call: &OwnedFd) {
    fcntl_setfl(call, OFlags::NONBLOCK).unwrap();
    // The counter may already be empty, or a worker may add to it first.
    let _ = preadv2(call, &mut [IoSliceMut::new(&mut [0; 8])], u64::MAX, ReadWriteFlags::NOWAIT);
    let _ = rustix::io::write(call, &(u64::MAX - 1).to_ne_bytes());
    fcntl_setfl(call, OFlags::empty()).unwrap();
}

#[test]
fn full_call_eventfd_blocks_no_worker() {
    calm::beside::<Split>(false, Behavior::default(), |calm| {
        let (rig, done) = (calm.rig, AtomicBool::new(false));
        let mut bad = Guest::<Split>::plug_in(&rig.socket("bad"), BAD, false);
        let calls: Vec<_> = (0..4).map(|ring| bad.call(ring).try_clone().unwrap()).collect();
        std::thread::scope(|s| {
            let _ending = Ending(&done);
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    bad.step(&[0, 1]);
                }
            });
            for _ in 0..pick(300, 50) {
                calls.iter().for_each(fill);
                // The call eventfd has no reader; a blocked worker would stall its other ports.
                calm.go_on(100);
            }
            rig.wait_for_traffic(&["bad"], 200);
        });
    });
}
