//! Runs independent experiments on several threads.
//!
//! Protocol: each thread takes the next number from a shared counter until none is left, and sends its results to the
//! caller's thread. Experiments share nothing, so the counter may be relaxed; the channel orders the rest.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// Returns the requested number of jobs, or the number of CPUs available to this process.
pub fn jobs(requested: Option<NonZeroUsize>) -> NonZeroUsize {
    requested.or(thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// Runs `run` on each item, `jobs` at a time. On the caller's thread, `listen` gets the number of an item with `None`
/// when it begins, and with its result when it ends. No item begins once `stop` is set or `listen` returned a break.
pub fn in_parallel<T: Sync, R: Send>(
    jobs: NonZeroUsize,
    items: &[T],
    stop: &AtomicBool,
    run: impl Fn(&T) -> R + Sync,
    mut listen: impl FnMut(usize, Option<R>) -> ControlFlow<()>,
) {
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, events) = channel();
    let take = || {
        let stopped = stop.load(Ordering::Relaxed) || over.load(Ordering::Relaxed);
        let place = if stopped { items.len() } else { next.fetch_add(1, Ordering::Relaxed) };
        items.get(place).map(|item| (place, item))
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len()) {
            let (sender, take, run) = (sender.clone(), &take, &run);
            scope.spawn(move || {
                while let Some((place, item)) = take() {
                    // The receiver outlives all senders.
                    let _ = sender.send((place, None));
                    let _ = sender.send((place, Some(run(item))));
                }
            });
        }
        drop(sender);
        for (place, result) in events {
            if listen(place, result).is_break() {
                over.store(true, Ordering::Relaxed);
            }
        }
    });
}
