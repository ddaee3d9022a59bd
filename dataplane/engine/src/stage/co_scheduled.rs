//! Several stages on one thread: one round of each in turn, and a common sleep.

use crate::rounds::Rounds;
use crate::sleeper::timespec;
use crate::worker::{Stage, Worker};
use rustix::event::{PollFd, PollFlags, poll};

/// The stages of a thread. The thread ends when all were told to quit.
pub(crate) struct CoScheduled(pub(crate) Vec<Worker<Stage>>);

impl Rounds for CoScheduled {
    fn handle_commands(&mut self) -> bool {
        self.0.retain_mut(Worker::handle_commands);
        !self.0.is_empty()
    }

    fn round(&mut self, last: &mut u64) -> bool {
        self.0.iter_mut().fold(false, |worked, stage| stage.staged_round(last) | worked)
    }

    fn may_sleep(&mut self, rounds: u32, idle: u64) -> bool {
        // Called for each stage, because each may have packets to flush.
        self.0.iter_mut().fold(true, |tired, stage| stage.may_sleep(rounds, idle) & tired)
    }

    #[cold]
    fn sleep(&mut self) -> bool {
        let stages = &mut self.0;
        let ready = stages.iter_mut().all(Worker::prepare_sleep);
        if ready {
            let mut wakes: Vec<_> =
                stages.iter().map(|stage| PollFd::from_borrowed_fd(stage.wake_fd(), PollFlags::IN)).collect();
            let limit = stages.iter().filter_map(Worker::until_timers).min().map(timespec);
            // An interrupted sleep counts as a wake-up.
            let _ = poll(&mut wakes, limit.as_ref());
        }
        for stage in stages {
            stage.resume(ready);
        }
        ready
    }
}
