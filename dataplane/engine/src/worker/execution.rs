//! Execution model of a worker: its round, its sleep, and its own commands.
//!
//! [`Alone`] runs to completion with exclusive queues and thread; [`super::Stage`] is one of several stages joined by
//! handoff queues; [`super::Sharing`] also serves queues of other workers. The model is a type parameter, so a worker
//! that runs to completion has no branches for the other models.

use super::Worker;
use crate::command::Command;
use port::PortId;

/// An execution model.
pub(crate) trait Execution: Sized + Send + 'static {
    /// Whether packets arrive or leave through handoff queues.
    const STAGED: bool = false;

    /// Runs one round. Returns whether there was any packet.
    #[inline(always)]
    fn round(worker: &mut Worker<Self>) -> bool {
        worker.own_round()
    }

    /// Sleeps until a kick or a command. Returns `false`, without sleeping, if packets are pending.
    fn sleep(worker: &mut Worker<Self>) -> bool {
        worker.sleep_alone()
    }

    /// Handles a command specific to this model.
    fn handle_command(worker: &mut Worker<Self>, command: Command) {
        let _ = (worker, command);
        debug_assert!(false, "control sends commands of handoff and shared queues only where there are such");
    }

    /// Adds the port's unsettled debt to the account of the queue at `at`.
    #[inline(always)]
    fn settle(worker: &mut Worker<Self>, at: usize) {
        let _ = (worker, at);
    }

    /// Charges `port` with `units` of work behind a handoff queue; each of its packets costs `price`.
    fn charge(&self, port: PortId, units: u64, price: u64) {
        let _ = (port, units, price);
    }

    /// How many queues the model itself has.
    fn queues(&self) -> usize {
        0
    }

    /// Total debt of `port`. A new queue starts from it, because earlier debts may belong to a previous port with
    /// this number.
    fn debt(&self, port: PortId) -> u64 {
        let _ = port;
        0
    }

    /// Classifies and sends everything in the handoff queues to this worker. Returns `false` if it must be called
    /// again.
    fn drain(worker: &mut Worker<Self>) -> bool {
        let _ = worker;
        true
    }

    /// Has the model's own queues of `port` take over a changed memory table.
    fn refresh(worker: &mut Worker<Self>, port: PortId) {
        let _ = (worker, port);
    }

    /// Discards what carried bursts of the model's own queues have left for `port`.
    fn forget(worker: &mut Worker<Self>, port: PortId) {
        let _ = (worker, port);
    }

    /// Gives up the model's own queues after a panic, which leaves their state undefined.
    fn fail(worker: &Worker<Self>) {
        let _ = worker;
    }
}

/// Runs to completion, on its own thread or inline.
pub(crate) struct Alone;

impl Execution for Alone {}
