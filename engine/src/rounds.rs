//! The loop of every thread that forwards: rounds while there are packets, and sleep when there were none for a while.

use mem::ticks;

/// What a thread does round after round: one worker in one of the ways in which workers run, or several stages.
pub(crate) trait Rounds {
    /// Obeys what control wants. `false`: the thread is to end.
    fn heed(&mut self) -> bool;

    /// A round, with the ticks since `last`, and up to now, on the accounts of those that made it. Whether there was any
    /// packet.
    fn round(&mut self, last: &mut u64) -> bool;

    /// Whether it sleeps after so many rounds and ticks without packets, if it ever does.
    fn may_sleep(&mut self, rounds: u32, idle: u64) -> bool;

    /// Sleeps until a kick or a command, unless packets are there already. Whether it slept.
    fn sleep(&mut self) -> bool;
}

/// Runs until told to end.
pub(crate) fn run(mut thread: impl Rounds) {
    let (mut last, mut idle_since, mut idle_rounds) = (ticks(), ticks(), 0);
    while thread.heed() {
        if thread.round(&mut last) {
            (idle_since, idle_rounds) = (last, 0);
            continue;
        }
        idle_rounds += 1;
        // Where the guest runs on this core's other thread, an eager poll takes its cycles.
        std::hint::spin_loop();
        if thread.may_sleep(idle_rounds, last - idle_since) && thread.sleep() {
            // Sleep is neither busy nor idle: the processor was somebody else's.
            last = ticks();
            (idle_since, idle_rounds) = (last, 0);
        }
    }
}
