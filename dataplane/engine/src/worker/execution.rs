//! What an execution model adds to a worker: how a round goes, how it sleeps, and commands that only this model knows.
//!
//! [`Alone`] runs to completion with queues and thread to itself, [`super::Stage`] is one of several that are joined by handoff queues,
//! [`super::Sharing`] serves queues of others, too. What none of them needs is not asked for: the model is a type, so a worker
//! that runs to completion has no branch for the others.

use super::Worker;
use crate::command::Command;
use port::PortId;

/// An execution model.
pub(crate) trait Execution: Sized + Send + 'static {
    /// Whether packets come or leave by handoff queues.
    const STAGED: bool = false;

    /// One round. Returns whether there was any packet.
    #[inline(always)]
    fn round(worker: &mut Worker<Self>) -> bool {
        worker.own_round()
    }

    /// Sleeps until a kick or a command. Returns `false`, without sleeping, if packets are pending.
    fn sleep(worker: &mut Worker<Self>) -> bool {
        worker.sleep_alone()
    }

    /// Obeys a command that only this model knows.
    fn handle_command(worker: &mut Worker<Self>, command: Command) {
        let _ = (worker, command);
        debug_assert!(false, "control sends commands of hops and shared queues only where there are such");
    }

    /// Charges the queue at `at` with what its port has come to owe.
    #[inline(always)]
    fn settle(worker: &mut Worker<Self>, at: usize) {
        let _ = (worker, at);
    }

    /// `port` owes `units` for work that was done behind a handoff queue; each of its packets costs `price`.
    fn owe(&self, port: PortId, units: u64, price: u64) {
        let _ = (port, units, price);
    }

    /// All that was ever charged to `port`: debts under its number may be another's, from before.
    fn owed(&self, port: PortId) -> u64 {
        let _ = port;
        0
    }

    /// Judges and sends all that is in handoff queues to this worker. Returns `false` if it has to be asked again.
    fn drain(worker: &mut Worker<Self>) -> bool {
        let _ = worker;
        true
    }

    /// The queues of `port` that the model has take over a changed map.
    fn refresh(worker: &mut Worker<Self>, port: PortId) {
        let _ = (worker, port);
    }

    /// Nothing carried over by the queues that the model has is left for `port`.
    fn forget(worker: &mut Worker<Self>, port: PortId) {
        let _ = (worker, port);
    }

    /// A panic has left the queues that the model has in no state to go on.
    fn fail(worker: &Worker<Self>) {
        let _ = worker;
    }
}

/// Runs to completion, on a thread of its own or when it is called.
pub(crate) struct Alone;

impl Execution for Alone {}
