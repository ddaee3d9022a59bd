//! A worker's side of one client.

use crate::chunks::{ArenaRange, FreeChunks};
use crate::entry::{ACCEPTED, Command, Completion};
use crate::handshake;
use crate::limits::Sizes;
use crate::reason::Fault;
use crate::region::Parts;
use crate::ring::{Consumer, Producer};
use mem::SharedRange;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Socket of a client, by its kind and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Listener(usize),
    Connection(usize),
    Udp(usize),
}

/// Rings and arenas.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(super) commands: Consumer<SharedRange>,
    completions: Producer<SharedRange>,
    outbound: SharedRange,
    inbound: SharedRange,
    /// Free chunks of `inbound`.
    pub(super) free: FreeChunks,
    pub(super) has_fault: bool,
    pub(super) to_service: OwnedFd,
    to_client: Arc<OwnedFd>,
}

impl Channel {
    /// The worker's ends of empty rings, with the eventfds to the worker and to the client.
    pub(crate) fn new(parts: Parts, (to_service, to_client): (OwnedFd, Arc<OwnedFd>), sizes: &Sizes) -> Self {
        Self {
            commands: Consumer::new(parts.commands, sizes.ring),
            completions: Producer::new(parts.completions, sizes.ring),
            outbound: parts.outbound,
            inbound: parts.inbound,
            free: FreeChunks::new(sizes.arena),
            has_fault: false,
            to_service,
            to_client,
        }
    }

    /// Appends a completion. Returns `false` if the ring is full.
    #[inline]
    pub(super) fn send(&mut self, completion: Completion) -> bool {
        if let Ok(has_room) = self.completions.push(&completion.encode()) {
            has_room
        } else {
            self.has_fault = true;
            false
        }
    }

    /// Whether `count` completions fit.
    pub(super) fn has_room(&mut self, count: u64) -> bool {
        let room = self.completions.room(count);
        self.has_fault |= room.is_err();
        room == Ok(true)
    }

    /// Makes completions visible and wakes the client if it sleeps. Returns whether there were any.
    pub(super) fn publish(&mut self) -> bool {
        let is_new = self.completions.publish();
        if is_new && self.completions.consumer_sleeps() {
            port::eventfd::signal(self.to_client.as_fd());
        }
        is_new
    }

    /// Bytes that the client sends. Returns `None` if the range is empty or outside of the arena.
    #[inline]
    pub(super) fn outbound(&self, range: ArenaRange) -> Option<SharedRange> {
        self.outbound.slice(range.offset as usize, range.len as usize).filter(|bytes| !bytes.is_empty())
    }

    /// Writes received bytes to a range that the service took.
    #[inline]
    pub(super) fn write(&self, range: ArenaRange, bytes: &[u8]) {
        self.inbound.write(range.offset as usize, bytes);
    }
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) channel: Channel,
    /// Number that the slow path uses.
    pub(super) number: usize,
    pub(super) uid: u32,
    /// Ends with the client.
    socket: Arc<UnixStream>,
    pub(super) objects: HashMap<u32, Object>,
    /// Results of commands for which the ring had no room. No further command is taken until it is empty.
    pub(super) outbox: VecDeque<Completion>,
    /// Command that waits for the next round.
    pub(super) deferred: Option<Command>,
    /// Connections with something to report.
    pub(super) dirty: VecDeque<usize>,
    /// Connections that wait for room in the arena.
    pub(super) starved: Vec<usize>,
    /// Bytes received that are not in the arena.
    pub(super) waiting: u32,
    next: u32,
    /// Number of active workers that was reported to the client since the handshake; 0 if none.
    pub(super) active: u32,
    /// The client is being removed.
    pub(super) fault: Option<Fault>,
}

impl Client {
    /// A client without sockets, of the user `uid`; `socket` ends with it.
    pub(crate) fn new(channel: Channel, number: usize, uid: u32, socket: Arc<UnixStream>) -> Self {
        Self {
            channel,
            number,
            uid,
            socket,
            objects: HashMap::new(),
            outbox: VecDeque::new(),
            deferred: None,
            dirty: VecDeque::new(),
            starved: Vec::new(),
            waiting: 0,
            next: ACCEPTED,
            active: 0,
            fault: None,
        }
    }

    /// Whether the client is being removed, or has ended and the slow path has not reported it yet. A system call.
    #[cold]
    pub(super) fn has_ended(&self) -> bool {
        self.fault.is_some() || handshake::has_ended(&self.socket)
    }

    /// Whether the next command may be taken. Those of a client that left are still carried out.
    pub(super) fn is_served(&self) -> bool {
        self.fault == Some(Fault::Left) || (self.fault.is_none() && self.outbox.is_empty())
    }

    /// Takes the next command, or returns the fault of a client whose ring or command is invalid.
    #[inline]
    pub(super) fn next_command(&mut self) -> Result<Option<Command>, Fault> {
        if let Some(command) = self.deferred.take() {
            return Ok(Some(command));
        }
        let Some(words) = self.channel.commands.pop().map_err(|_| Fault::Ring)? else { return Ok(None) };
        Command::decode(&words).map(Some).ok_or(Fault::Command)
    }

    /// Makes the next command signal the worker. Returns `false` if there is one now.
    pub(super) fn prepare_sleep(&mut self) -> bool {
        self.channel.commands.prepare_sleep() && self.deferred.is_none()
    }

    /// A free number for an accepted connection.
    pub(super) fn next_number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1) | ACCEPTED;
            if !self.objects.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    /// Reports the result of a command, in order.
    pub(super) fn reply(&mut self, completion: Completion) {
        if !self.outbox.is_empty() || !self.channel.send(completion) {
            self.outbox.push_back(completion);
        }
    }

    /// Sends what waits in the outbox. Returns whether it is empty.
    pub(super) fn flush_outbox(&mut self) -> bool {
        while let Some(&completion) = self.outbox.front() {
            if !self.channel.send(completion) {
                return false;
            }
            self.outbox.pop_front();
        }
        true
    }
}
