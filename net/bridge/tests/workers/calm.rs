//! Two well-behaved guests exchange frames while a third port misbehaves.

use crate::guest::{Behavior, Ending, Guest, Limit};
use crate::rig::{Rig, assert_sums_agree};
use ring::driver::DriverRing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Ports of guests 0 and 1, which send to each other and to guest [`BAD`].
pub(crate) const CALM: [&str; 2] = ["left", "right"];
/// Guest number at port `bad`.
pub(crate) const BAD: u8 = 2;

/// Observes the two well-behaved guests.
pub(crate) struct Calm<'a> {
    pub(crate) rig: &'a Rig,
    heard: Vec<Arc<AtomicU64>>,
}

impl Calm<'_> {
    /// Waits until each of the two has received `more` checked frames.
    pub(crate) fn go_on(&self, more: u64) {
        let (limit, now) = (Limit::new(), || self.heard.iter().map(|heard| heard.load(Ordering::Relaxed)));
        let enough: Vec<_> = now().map(|heard| heard + more).collect();
        while now().zip(&enough).any(|(heard, enough)| heard < *enough) {
            limit.check("frames between the guests that behave");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs the two guests during `act`. All their losses must be counted, and their ports must survive.
pub(crate) fn beside<R: DriverRing>(packed: bool, behavior: Behavior, act: impl FnOnce(&Calm<'_>)) {
    let (rig, done) = (Rig::new(), AtomicBool::new(false));
    CALM.iter().chain(&["bad"]).for_each(|name| {
        rig.add(name);
    });
    let guests = std::thread::scope(|s| {
        let _ending = Ending(&done);
        let plug = |n: u8| Guest::<R>::plug_in(&rig.socket(CALM[usize::from(n)]), n, packed).with(behavior);
        let guests = [plug(0), plug(1)];
        let calm = Calm { rig: &rig, heard: guests.iter().map(|guest| guest.heard.clone()).collect() };
        let live = |guest: Guest<R>| {
            let (done, peers) = (&done, [1 - guest.number, BAD]);
            s.spawn(move || guest.live(&peers, done))
        };
        let runs = guests.map(live);
        act(&calm);
        done.store(true, Ordering::Relaxed);
        runs.map(|run| run.join().unwrap())
    });
    for (guest, name) in guests.iter().zip(CALM) {
        let port = rig.port(name).unwrap();
        assert_eq!((port.reason, port.state.as_str(), port.connects), (None, "connected", 1), "{name}");
        assert_eq!((port.rx_packets, port.tx_packets), (guest.counts.sent, guest.counts.received), "{name}");
    }
    assert_sums_agree(&rig.engine.snapshot());
    rig.engine.stop().unwrap();
}
