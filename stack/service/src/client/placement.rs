//! On which workers a socket is, and how it gets there.
//!
//! An address is bound at the first worker, and at the others when the first one has bound it. So if two clients bind
//! one address at the same time, one of them has it on all workers, and the other one nowhere.

use super::lane::WorkerSet;
use crate::entry::Command;

/// Workers of a socket.
#[derive(Debug, Default)]
pub(super) struct Placement {
    /// Workers at which the socket's number is in use.
    parts: WorkerSet,
    /// Workers that follow the first one.
    followers: WorkerSet,
    /// Workers that have not answered.
    awaited: WorkerSet,
    /// The command that opens the socket.
    command: Option<Command>,
    /// Whether a worker referred to this one.
    is_referred: bool,
}

impl Placement {
    /// A socket that a worker opened.
    pub(super) fn at(worker: usize) -> Self {
        Self { parts: WorkerSet::one(worker), ..Self::default() }
    }

    /// Begins to open a socket on `workers`. Returns those that are to receive the command.
    pub(super) fn begin(&mut self, workers: WorkerSet, command: Command) -> WorkerSet {
        let (first, followers) = workers.split();
        *self = Self { parts: first, followers, awaited: first, command: Some(command), is_referred: false };
        first
    }

    /// Begins again at the worker to which another one referred. Returns the worker and the command; `None` for a
    /// second referral, because workers that disagree would refer to each other without end.
    pub(super) fn begin_again(&mut self, worker: usize) -> Option<(WorkerSet, Command)> {
        let command = self.command.filter(|_| !self.is_referred)?;
        let first = self.begin(WorkerSet::one(worker), command);
        self.is_referred = true;
        Some((first, command))
    }

    /// A worker has bound the address. Returns those that are to receive the command now, and the command.
    pub(super) fn bound(&mut self, worker: usize) -> Option<(WorkerSet, Command)> {
        self.awaited.remove(worker);
        let followers = std::mem::take(&mut self.followers);
        self.parts.add(followers);
        self.awaited.add(followers);
        Some((followers, self.command?))
    }

    /// Whether all workers have bound the address.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited.is_empty() && self.followers.is_empty()
    }

    /// The number is free at a worker. No other one follows.
    pub(super) fn ended(&mut self, worker: usize) {
        self.parts.remove(worker);
        self.awaited.remove(worker);
        self.followers = WorkerSet::default();
    }

    /// Workers that have the socket or are opening it. No other one follows.
    pub(super) fn close(&mut self) -> WorkerSet {
        self.followers = WorkerSet::default();
        self.parts
    }

    /// Workers at which the number is in use.
    pub(super) fn parts(&self) -> WorkerSet {
        self.parts
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use stack::Endpoint;

    #[test]
    fn bind_on_the_first_worker_is_followed_by_the_others() {
        let command = Command::UdpBind { id: 1, local: Endpoint::default() };
        let mut placement = Placement::default();
        assert_eq!(placement.begin(WorkerSet::all(3), command), WorkerSet::one(0));
        assert!(!placement.is_complete());
        let (followers, _) = placement.bound(0).unwrap();
        assert_eq!(followers.iter().collect::<Vec<_>>(), [1, 2]);
        assert!(placement.bound(1).is_some_and(|(followers, _)| followers.is_empty()));
        assert!(!placement.is_complete());
        placement.bound(2);
        assert!(placement.is_complete() && placement.parts() == WorkerSet::all(3));
    }

    #[test]
    fn socket_begins_again_at_another_worker() {
        let command = Command::UdpBind { id: 1, local: Endpoint::default() };
        let mut placement = Placement::default();
        assert_eq!(placement.begin_again(1), None, "the service ended");
        placement.begin(WorkerSet::one(0), command);
        assert_eq!(placement.begin_again(1), Some((WorkerSet::one(1), command)));
        assert_eq!(placement.parts(), WorkerSet::one(1));
        assert_eq!(placement.begin_again(0), None, "the workers disagree");
    }

    #[test]
    fn refused_bind_is_not_repeated_on_other_workers() {
        let command = Command::UdpBind { id: 1, local: Endpoint::default() };
        let mut placement = Placement::default();
        placement.begin(WorkerSet::all(3), command);
        placement.ended(0);
        assert!(placement.parts().is_empty() && placement.close().is_empty());
        placement.begin(WorkerSet::all(3), command);
        placement.bound(0);
        placement.ended(1);
        assert_eq!(placement.close().iter().collect::<Vec<_>>(), [0, 2], "these are to be closed");
        placement.begin(WorkerSet::all(3), command);
        assert_eq!(placement.close(), WorkerSet::one(0), "the program drops the socket meanwhile");
        assert!(placement.bound(0).is_some_and(|(followers, _)| followers.is_empty()));
    }
}
