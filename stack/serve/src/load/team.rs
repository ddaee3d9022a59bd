//! Workers of one run, each with a stack and connections of its own: they begin their rounds together, and the last one
//! that ends stops the run.
//!
//! Their clocks have different origins, so no time may pass between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// State that the workers of a run share.
#[derive(Debug)]
pub struct Team {
    workers: usize,
    /// Workers that have opened and filled.
    ready: AtomicUsize,
    /// Workers that have ended.
    ended: AtomicUsize,
    stop: Arc<AtomicBool>,
}

impl Team {
    /// The state of this many workers. `stop` is set at the end of the run.
    pub fn new(workers: usize, stop: Arc<AtomicBool>) -> Arc<Self> {
        let [ready, ended] = [0, 0].map(AtomicUsize::new);
        Arc::new(Self { workers, ready, ended, stop })
    }
}

/// One of the workers.
#[derive(Debug)]
pub(super) struct Member {
    team: Arc<Team>,
    /// Whether it was counted as ready.
    pub(super) is_ready: bool,
}

impl Member {
    pub(super) fn new(team: Arc<Team>) -> Self {
        Self { team, is_ready: false }
    }

    /// Reports that the worker is ready for the rounds. Returns whether all are.
    pub(super) fn ready(&mut self) -> bool {
        let before = usize::from(!std::mem::replace(&mut self.is_ready, true));
        self.team.ready.fetch_add(before, Ordering::Relaxed) + before >= self.team.workers
    }

    /// Reports the end of the worker, once. The run stops with the last one, or with one that failed.
    pub(super) fn end(&self, has_failed: bool) {
        let ended = self.team.ended.fetch_add(1, Ordering::Relaxed) + 1;
        if has_failed || ended >= self.team.workers {
            self.team.stop.store(true, Ordering::Relaxed);
        }
    }
}
