//! How a sender wakes a receiver that sleeps. The protocol is in the module above.

use mem::line::Padded;
use mem::shim::atomic::{AtomicBool, Ordering, fence};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Whether a receiver wants to be rung.
#[derive(Debug)]
struct Wish(Padded<AtomicBool>);

impl Wish {
    fn new() -> Self {
        Self(Padded(AtomicBool::new(false)))
    }

    /// The receiver's: it looks at the ring after this.
    fn make(&self) {
        self.0.store(true, Ordering::Relaxed);
        // Orders the store before the look at the ring; pairs with the sender's fence before `take`.
        fence(Ordering::SeqCst);
    }

    /// The sender's, behind a fence, or the receiver's, which is awake: whether there was a wish.
    #[inline]
    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct Doorbell {
    asleep: Wish,
    doorbell: OwnedFd,
}

impl Doorbell {
    pub(super) fn new() -> std::io::Result<Self> {
        let doorbell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { asleep: Wish::new(), doorbell })
    }

    /// The receiver's: wants to be rung. It looks at the ring after this.
    pub(super) fn set(&self) {
        self.asleep.make();
    }

    /// The receiver's: it is awake.
    pub(super) fn stop(&self) {
        if !self.asleep.take() {
            // Rung, or about to be; nothing there yet is a wake-up too many later.
            let _ = rustix::io::read(&self.doorbell, &mut [0u8; 8]);
        }
    }

    /// The sender's, after a sequentially consistent fence behind what it published.
    #[inline]
    pub(super) fn ring(&self) {
        if self.asleep.take() {
            // A full counter is a wake-up that is already pending.
            let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// No receiver sleeps over an entry: the receiver sees it when it looks, or it is rung for.
    #[test]
    fn loom_a_parcel_is_seen_or_rung_for() {
        loom::model(|| {
            let wish = Arc::new(Wish::new());
            let sender = {
                let wish = wish.clone();
                let (mut producer, consumer) = ring::spsc::ring::<u8>(1);
                let thread = thread::spawn(move || {
                    assert_eq!(producer.push(7), Ok(()));
                    // As the worker's, once for a round.
                    fence(Ordering::SeqCst);
                    (wish.take(), producer)
                });
                (thread, consumer)
            };
            let (thread, mut consumer) = sender;
            wish.make();
            let seen = consumer.ready(1) > 0;
            let (rung, _producer) = thread.join().unwrap();
            assert!(seen || rung, "the receiver would sleep for ever");
        });
    }
}
