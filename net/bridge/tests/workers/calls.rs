//! A front end makes the descriptor by which it is called a blocking one, and full. No worker waits for it.
//!
//! This is the whole switch under such a front end. The one moment that matters, between asking whether there is room
//! and writing, is too short to be met here often; the test in `dataplane/port/src/eventfd/signal.rs` meets it.

use crate::calm::{self, BAD};
use crate::guest::{Ending, Guest, Manners};
use ring::driver::Split;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};
use std::sync::atomic::{AtomicBool, Ordering};

const ROUNDS: usize = 300;

/// Empties the counter and fills it again, so that at one moment a worker finds room and at the next has none.
fn fill(call: &OwnedFd) {
    fcntl_setfl(call, OFlags::NONBLOCK).unwrap();
    // An empty counter is what is wanted, and a worker may be first to add to it.
    let _ = preadv2(call, &mut [IoSliceMut::new(&mut [0; 8])], u64::MAX, ReadWriteFlags::NOWAIT);
    let _ = rustix::io::write(call, &(u64::MAX - 1).to_ne_bytes());
    fcntl_setfl(call, OFlags::empty()).unwrap();
}

#[test]
fn a_front_end_that_never_reads_its_calls_keeps_no_worker() {
    calm::beside::<Split>(false, Manners::default(), |calm| {
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
            for _ in 0..ROUNDS {
                calls.iter().for_each(fill);
                // There is no reader meanwhile; a worker that waits would hold up its other ports.
                calm.go_on(100);
            }
            rig.wait_for_traffic(&["bad"], 200);
        });
    });
}
