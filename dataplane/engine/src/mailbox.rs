//! How control speaks to a worker without either waiting for the other.
//!
//! Protocol: control puts a command in the list under the lock and then raises `posted` (release; pairs with the
//! worker's acquire load at its next burst boundary). The worker sees `posted` differ from what it has done, tries
//! the lock, and if control holds it just then carries on and looks again one burst later. Having obeyed, it
//! stores `done` (release; pairs with control's acquire load in [`Mailbox::is_done`]): everything the worker did
//! before, and every reference it let go of, is then visible to control. So `done >= n` means that the worker has
//! passed a burst boundary after command `n`, which is the epoch on which memory is unmapped.

#[cfg(loom)]
use loom::sync::Mutex;
use mem::line::Padded;
use mem::shim::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::Mutex;

/// Commands from control to one worker.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    commands: Mutex<Vec<T>>,
    /// Written by control only; the worker's copy of the line stays valid between commands.
    posted: Padded<AtomicU64>,
    /// Written by the worker only.
    done: Padded<AtomicU64>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            commands: Mutex::new(Vec::new()),
            posted: Padded(AtomicU64::new(0)),
            done: Padded(AtomicU64::new(0)),
        }
    }

    /// Leaves a command; its number is what [`Mailbox::is_done`] takes.
    pub(crate) fn post(&self, command: T) -> u64 {
        let mut commands = self.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        commands.push(command);
        // Release pairs with the acquire load in `pending`.
        self.posted.fetch_add(1, Ordering::Release) + 1
    }

    /// Whether the worker has obeyed command `number` and passed a burst boundary.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        // Acquire pairs with the release store in `handled`.
        self.done.load(Ordering::Acquire) >= number
    }

    /// The worker's question at a burst boundary: is there a command beyond the `seen` it has obeyed?
    #[inline(always)]
    pub(crate) fn pending(&self, seen: u64) -> bool {
        self.posted.load(Ordering::Relaxed) != seen
    }

    /// Takes all commands, oldest first, unless control holds the lock at this moment. Returns the number of the
    /// last of them.
    pub(crate) fn take(&self, into: &mut Vec<T>) -> Option<u64> {
        let mut commands = self.commands.try_lock().ok()?;
        into.append(&mut commands);
        Some(self.posted.load(Ordering::Acquire))
    }

    /// The worker has obeyed everything up to `number`.
    pub(crate) fn handled(&self, number: u64) {
        // Release pairs with the acquire load in `is_done`.
        self.done.store(number, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn commands_arrive_in_order_and_are_done_only_when_obeyed() {
        let mailbox = Mailbox::new();
        assert!(!mailbox.pending(0));
        let (first, second) = (mailbox.post('a'), mailbox.post('b'));
        assert!(mailbox.pending(0));
        let mut taken = vec![];
        let upto = mailbox.take(&mut taken).unwrap();
        assert_eq!((taken, upto), (vec!['a', 'b'], second));
        assert!(!mailbox.is_done(first));
        mailbox.handled(upto);
        assert!(mailbox.is_done(first) && mailbox.is_done(second) && !mailbox.pending(upto));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Control hands a value over, waits for the epoch, and then owns what the worker let go of.
    #[test]
    fn loom_a_command_done_means_that_the_old_value_is_free() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::new());
            let old = Arc::new(loom::cell::UnsafeCell::new(0u32));
            let worker = {
                let (mailbox, old) = (mailbox.clone(), old.clone());
                thread::spawn(move || {
                    let mut commands: Vec<()> = Vec::new();
                    loop {
                        if mailbox.pending(0)
                            && let Some(upto) = mailbox.take(&mut commands)
                        {
                            mailbox.handled(upto);
                            return;
                        }
                        // SAFETY: the worker may use the old value until it has obeyed; loom checks the claim.
                        old.with_mut(|p| unsafe { *p += 1 });
                        thread::yield_now();
                    }
                })
            };
            let number = mailbox.post(());
            while !mailbox.is_done(number) {
                thread::yield_now();
            }
            // SAFETY: the worker has obeyed, so it does not touch the old value any more; loom checks the claim.
            old.with_mut(|p| unsafe { *p = 7 });
            worker.join().unwrap();
        });
    }
}
