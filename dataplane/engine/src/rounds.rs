//! The loop of every forwarding thread: rounds while there are packets, and sleep after a period without packets.

use mem::ticks;

/// One round of a forwarding thread: a worker in one of the execution models, or several stages.
pub(crate) trait Rounds {
    /// Handles the control thread's commands. Returns `false` to end the thread.
    fn handle_commands(&mut self) -> bool;

    /// Runs one round and adds the ticks since `last` to the busy or idle time of its workers. Returns whether there
    /// was any packet.
    fn round(&mut self, last: &mut u64) -> bool;

    /// Whether to sleep after `rounds` rounds and `idle` ticks without packets. Always `false` with busy polling.
    fn may_sleep(&mut self, rounds: u32, idle: u64) -> bool;

    /// Sleeps until a kick or a command. Returns `false`, without sleeping, if packets are pending.
    fn sleep(&mut self) -> bool;
}

/// Runs until the control thread ends it.
pub(crate) fn run(mut thread: impl Rounds) {
    let (mut last, mut idle_since, mut idle_rounds) = (ticks(), ticks(), 0);
    while thread.handle_commands() {
        if thread.round(&mut last) {
            (idle_since, idle_rounds) = (last, 0);
            continue;
        }
        idle_rounds += 1;
        // On SMT, a tight poll loop takes cycles from a guest on the sibling thread.
        std::hint::spin_loop();
        if thread.may_sleep(idle_rounds, last - idle_since) && thread.sleep() {
            // Sleep counts neither as busy nor as idle.
            last = ticks();
            (idle_since, idle_rounds) = (last, 0);
        }
    }
}
