//! Several stages on one thread: a round of each in turn, and one sleep for all.

use crate::worker::Worker;
use mem::ticks;
use rustix::event::{PollFd, PollFlags, poll};

/// Runs until every stage was told to quit.
pub(crate) fn run_together(mut stages: Vec<Worker>) {
    let (mut last, mut idle_since, mut idle_rounds) = (ticks(), ticks(), 0);
    loop {
        stages.retain_mut(Worker::heed);
        if stages.is_empty() {
            return;
        }
        let mut worked = false;
        for stage in &mut stages {
            worked |= stage.timed_round(&mut last);
        }
        if worked {
            (idle_since, idle_rounds) = (last, 0);
            continue;
        }
        idle_rounds += 1;
        std::hint::spin_loop();
        let idle = last - idle_since;
        // Each is asked, because each may have something left to send.
        let mut tired = true;
        for stage in &mut stages {
            tired &= stage.may_sleep(idle_rounds, idle);
        }
        if tired && sleep(&mut stages) {
            last = ticks();
            (idle_since, idle_rounds) = (last, 0);
        }
    }
}

/// Sleeps until a kick or a command for any of the stages, unless packets are there already. Whether it slept.
#[cold]
fn sleep(stages: &mut [Worker]) -> bool {
    let ready = stages.iter_mut().all(Worker::lie_down);
    if ready {
        let mut beds: Vec<_> =
            stages.iter().map(|stage| PollFd::from_borrowed_fd(stage.bed(), PollFlags::IN)).collect();
        // An interrupted sleep is a wake-up like any other.
        let _ = poll(&mut beds, None);
    }
    for stage in stages {
        stage.get_up(ready);
    }
    ready
}
