//! Doorbell: wakes a sleeping receiver. The parent module has the protocol.

use mem::line::Padded;
use mem::shim::atomic::{AtomicBool, Ordering, fence};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Flag set by a receiver that needs a notification.
#[derive(Debug)]
struct NotificationFlag(Padded<AtomicBool>);

impl NotificationFlag {
    fn new() -> Self {
        Self(Padded(AtomicBool::new(false)))
    }

    /// Sets the flag. Called by the receiver, which must check the ring afterwards.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
        // Orders the store before the check of the ring; pairs with the sender's fence before `take`.
        fence(Ordering::SeqCst);
    }

    /// Clears the flag and returns whether it was set. Called by the sender after a fence, or by the receiver once
    /// awake.
    #[inline]
    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[derive(Debug)]
/// Wakes a thread that sleeps because a ring is empty.
pub struct Doorbell {
    asleep: NotificationFlag,
    doorbell: OwnedFd,
}

impl Doorbell {
    /// A doorbell without a request.
    ///
    /// # Errors
    /// If the kernel refuses the descriptor.
    pub fn new() -> std::io::Result<Self> {
        let doorbell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { asleep: NotificationFlag::new(), doorbell })
    }

    /// Requests a notification. Called by the receiver, which must check the ring afterwards.
    pub fn set(&self) {
        self.asleep.set();
    }

    /// Withdraws the request. Called by the receiver once awake.
    pub fn stop(&self) {
        if !self.asleep.take() {
            // The doorbell was rung or is about to be; in the latter case a spurious wake-up follows.
            let _ = rustix::io::read(&self.doorbell, &mut [0u8; 8]);
        }
    }

    /// Rings if requested. Called by the sender after a sequentially consistent fence following its publish.
    #[inline]
    pub fn ring(&self) {
        if self.asleep.take() {
            // If the counter is full, a wake-up is already pending.
            let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Readable once the doorbell was rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// No receiver sleeps while an entry is in the ring: it sees the entry, or the sender rings.
    #[test]
    fn loom_an_entry_is_seen_or_the_doorbell_is_rung() {
        loom::model(|| {
            let flag = Arc::new(NotificationFlag::new());
            let sender = {
                let flag = flag.clone();
                let (mut producer, consumer) = ring::spsc::ring::<u8>(1);
                let thread = thread::spawn(move || {
                    assert_eq!(producer.push(7), Ok(()));
                    // The worker's fence, once per round.
                    fence(Ordering::SeqCst);
                    (flag.take(), producer)
                });
                (thread, consumer)
            };
            let (thread, mut consumer) = sender;
            flag.set();
            let seen = consumer.ready(1) > 0;
            let (rung, _producer) = thread.join().unwrap();
            assert!(seen || rung, "the receiver would sleep for ever");
        });
    }
}
