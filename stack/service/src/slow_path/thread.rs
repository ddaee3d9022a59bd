//! The thread of a slow path.

use super::SlowPath;
use crate::Statistics;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running slow path, which ends when this is dropped. Clients notice the end.
#[derive(Debug)]
pub struct SlowPathThread {
    thread: Option<JoinHandle<Statistics>>,
    stop: Arc<AtomicBool>,
    event: Arc<OwnedFd>,
}

impl SlowPath {
    /// Runs on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start(mut self) -> io::Result<SlowPathThread> {
        let (stop, event) = (Arc::new(AtomicBool::new(false)), self.connector.event().clone());
        let ended = stop.clone();
        let run = move || {
            self.turn();
            // Read after the event was cleared, which is signalled after the store.
            while !ended.load(Ordering::SeqCst) {
                self.wait();
                self.turn();
            }
            self.statistics
        };
        let thread = std::thread::Builder::new().name("linerate-slow".to_owned()).spawn(run)?;
        Ok(SlowPathThread { thread: Some(thread), stop, event })
    }
}

impl SlowPathThread {
    /// Ends it, after the workers. Returns [`SlowPath::statistics`].
    pub fn finish(mut self) -> Statistics {
        self.end()
    }

    fn end(&mut self) -> Statistics {
        self.stop.store(true, Ordering::SeqCst);
        port::eventfd::signal(self.event.as_fd());
        // A panic of the thread was printed.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for SlowPathThread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}
