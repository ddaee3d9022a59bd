//! Memory that a client shares with one worker, and sets of workers.

use super::lock;
use super::socket::Socket;
use crate::chunks::FreeChunks;
use crate::entry::Command;
use crate::limits::Sizes;
use crate::region::Parts;
use crate::ring::Producer;
use mem::SharedRange;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Commands on their way to the worker.
#[derive(Debug)]
struct Sender {
    commands: Producer<SharedRange>,
    /// Commands for which the ring had no room. Its length is bounded by the number of sockets and of their limits.
    overflow: VecDeque<Command>,
}

/// The arena for data to send.
#[derive(Debug)]
pub(super) struct Arena {
    pub(super) free: FreeChunks,
    /// Sockets that wait for a chunk.
    pub(super) starved: Vec<Arc<Socket>>,
}

/// Ring of commands and arenas of one worker.
#[derive(Debug)]
pub(super) struct Lane {
    sender: Mutex<Sender>,
    pub(super) arena: Mutex<Arena>,
    pub(super) outbound: SharedRange,
    pub(super) inbound: SharedRange,
    to_service: OwnedFd,
}

impl Lane {
    /// The client's ends, which are empty.
    pub(super) fn new(parts: Parts, to_service: OwnedFd, sizes: &Sizes) -> Self {
        let commands = Producer::new(parts.commands, sizes.ring);
        Self {
            sender: Mutex::new(Sender { commands, overflow: VecDeque::new() }),
            arena: Mutex::new(Arena { free: FreeChunks::new(sizes.arena), starved: Vec::new() }),
            outbound: parts.outbound,
            inbound: parts.inbound,
            to_service,
        }
    }

    /// Appends a command. Never blocks.
    pub(super) fn send(&self, command: Command) {
        let mut sender = lock(&self.sender);
        sender.overflow.push_back(command);
        self.pass(&mut sender);
    }

    /// Passes waiting commands to the ring. Returns whether all had room.
    pub(super) fn flush(&self) -> bool {
        self.pass(&mut lock(&self.sender))
    }

    fn pass(&self, sender: &mut Sender) -> bool {
        while let Some(command) = sender.overflow.front() {
            // A service with an invalid position has ended for this client, which the dispatcher notices.
            if sender.commands.push(&command.encode()) != Ok(true) {
                break;
            }
            sender.overflow.pop_front();
        }
        if sender.commands.publish() && sender.commands.consumer_sleeps() {
            self.wake();
        }
        sender.overflow.is_empty()
    }

    /// Wakes the worker.
    pub(super) fn wake(&self) {
        port::eventfd::signal(self.to_service.as_fd());
    }
}

/// A set of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkerSet(u32);

impl WorkerSet {
    /// Only this one.
    pub(super) fn one(worker: usize) -> Self {
        Self(1 << worker)
    }

    /// The first `count`, at most 32.
    pub(super) fn all(count: usize) -> Self {
        Self(u32::MAX >> (32 - count.clamp(1, 32)))
    }

    pub(super) fn has(self, worker: usize) -> bool {
        self.0 & 1 << worker != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(super) fn remove(&mut self, worker: usize) {
        self.0 &= !(1 << worker);
    }

    /// The first one, and the others.
    pub(super) fn split(self) -> (Self, Self) {
        let others = self.0 & self.0.wrapping_sub(1);
        (Self(self.0 & !others), Self(others))
    }

    /// The first one from `worker` on, and then from 0 on; 0 if there is none.
    pub(super) fn next(self, worker: usize) -> usize {
        let from = self.0 >> worker << worker;
        let found = if from == 0 { self.0 } else { from };
        (found.trailing_zeros() % 32) as usize
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |worker| self.has(*worker))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn worker_sets_iterate_wrap_and_split() {
        let mut some = WorkerSet::all(5);
        some.remove(0);
        some.remove(2);
        assert_eq!(some.iter().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!([0, 1, 2, 4, 5, 31].map(|worker| some.next(worker)), [1, 1, 3, 4, 1, 1]);
        let (first, others) = some.split();
        assert_eq!((first, others.iter().collect::<Vec<_>>()), (WorkerSet::one(1), vec![3, 4]));
        assert_eq!(
            (WorkerSet::all(32).iter().count(), WorkerSet::default().split().1),
            (32, WorkerSet::default())
        );
        some.add(WorkerSet::one(31));
        assert!(some.has(31) && !some.has(0) && !some.is_empty());
    }
}
