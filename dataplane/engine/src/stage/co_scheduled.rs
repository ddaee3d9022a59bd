//! Several stages on one thread: a round of each in turn, and one sleep for all.

use crate::rounds::Rounds;
use crate::sleeper::timespec;
use crate::worker::{Stage, Worker};
use rustix::event::{PollFd, PollFlags, poll};

/// The stages of a thread. It ends when every one was told to quit.
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
        // Each is asked, because each may have something left to send.
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
            // An interrupted sleep is a wake-up like any other.
            let _ = poll(&mut wakes, limit.as_ref());
        }
        for stage in stages {
            stage.resume(ready);
        }
        ready
    }
}
