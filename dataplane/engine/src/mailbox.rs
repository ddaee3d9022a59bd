//! Commands from the control thread to a worker; neither side waits for the other.
//!
//! Protocol: the control thread pushes a command under the lock and then increments `posted` (release; pairs with the
//! worker's acquire load in [`Mailbox::take`]). At a burst boundary the worker compares `posted` with the number of
//! the last command that it handled. If they differ, it tries the lock; if the lock is held, it continues and retries
//! at the next burst boundary. After handling the commands, it stores `done` (release; pairs with the control
//! thread's acquire load in [`Mailbox::is_done`]), which makes everything that the worker did before, and every
//! reference that it dropped, visible to the control thread. `done >= n` therefore means that the worker has passed a
//! burst boundary after command `n`; memory is unmapped in that epoch.

#[cfg(loom)]
use loom::sync::Mutex;
use mem::line::Padded;
use mem::shim::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::Mutex;

/// Commands from the control thread to one worker.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    commands: Mutex<Vec<T>>,
    /// Written only when a command is posted, so the worker's copy of the line stays valid between commands.
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

    /// Posts a command and returns its number, for [`Mailbox::is_done`].
    pub(crate) fn post(&self, command: T) -> u64 {
        let mut commands = self.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        commands.push(command);
        // Release pairs with the acquire load in `take`.
        self.posted.fetch_add(1, Ordering::Release) + 1
    }

    /// Whether the worker has handled command `number` and passed a burst boundary.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        // Acquire pairs with the release store in `handled`.
        self.done.load(Ordering::Acquire) >= number
    }

    /// Whether a command after number `seen` was posted. Called by the worker at a burst boundary.
    #[inline(always)]
    pub(crate) fn pending(&self, seen: u64) -> bool {
        self.posted.load(Ordering::Relaxed) != seen
    }

    /// Moves all commands to `into`, oldest first, and returns the number of the last one. Returns `None` if the lock
    /// is held.
    pub(crate) fn take(&self, into: &mut Vec<T>) -> Option<u64> {
        let mut commands = self.commands.try_lock().ok()?;
        into.append(&mut commands);
        Some(self.posted.load(Ordering::Acquire))
    }

    /// Marks all commands up to `number` as handled. Called by the worker.
    pub(crate) fn handled(&self, number: u64) {
        // Release pairs with the acquire load in `is_done`.
        self.done.store(number, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn commands_arrive_in_order_and_complete_when_handled() {
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

    /// The control thread posts a command, waits until it is done, and then owns the value that the worker used
    /// before.
    #[test]
    fn loom_completed_command_releases_the_old_value() {
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
                        // SAFETY: the worker may access the old value until it has handled the command; loom checks
                        // this.
                        old.with_mut(|p| unsafe { *p += 1 });
                        thread::yield_now();
                    }
                })
            };
            let number = mailbox.post(());
            while !mailbox.is_done(number) {
                thread::yield_now();
            }
            // SAFETY: the worker has handled the command and does not access the old value any more; loom checks
            // this.
            old.with_mut(|p| unsafe { *p = 7 });
            worker.join().unwrap();
        });
    }
}
