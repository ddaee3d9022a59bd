//! Requests between the workers that share a store: a key belongs to one of them, which executes its commands.
//!
//! Each pair of workers has two rings in each direction: requests, and answers. A worker takes a request only if the
//! ring of answers has room, and takes answers in any state, so no two workers wait for each other. Requests of a
//! worker to another one are executed in order.
//!
//! The module must not parse requests or change items.

use super::session::Pending;
use super::stats::Totals;
use super::text::Get;
use engine::Doorbell;
use host::Buffer;
use ring::spsc::{Consumer, Producer, ring};
use rustix::fd::BorrowedFd;
use stack::Slice;
use stack::tcp::ConnectionId;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Entries of each ring.
const RING: usize = 256;

/// A command for the worker that owns its key, or for all workers.
#[derive(Debug)]
pub(super) enum Command {
    /// A line with one key and without a value.
    Line(Box<[u8]>),
    /// A command with its complete value.
    Put(Box<Pending>),
    /// One key of a `get`.
    Get(Box<[u8]>, Get),
    /// Removes a key without a reply.
    Remove(Box<[u8]>),
    /// Makes the items invalid that exist at this second.
    Flush(u32),
    /// Asks for the statistics.
    Stats,
    /// Clears the statistics.
    Reset,
}

/// Where an answer belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) client: ConnectionId,
    /// Number of the reply among all of the worker.
    pub(super) slot: u64,
}

/// Result of a command.
#[derive(Debug)]
pub(super) enum Answer {
    /// A reply: a line, and a value that is sent by reference. Both are missing for a silent command.
    Reply([Option<Slice<Buffer>>; 2]),
    /// Statistics of a worker.
    Totals(Totals),
}

/// Rings between this worker and another one.
#[derive(Debug)]
struct Link {
    requests: Producer<(Ticket, Command)>,
    replies: Consumer<(Ticket, Answer)>,
    incoming: Consumer<(Ticket, Command)>,
    answers: Producer<(Ticket, Answer)>,
    /// Wakes the other worker.
    doorbell: Arc<Doorbell>,
    /// Whether it has something new in a ring.
    is_due: bool,
}

/// A worker's rings to the others that share a store.
#[derive(Debug)]
pub struct Links {
    /// Number of this worker.
    index: usize,
    /// By worker, without this one.
    others: Vec<Link>,
    /// Wakes this worker; `None` if it is the only one.
    doorbell: Option<Arc<Doorbell>>,
    /// Selects the worker of a key. Its random seed keeps clients from choosing keys of one worker.
    hasher: RandomState,
    next_slot: u64,
    forwarded: u64,
}

impl Links {
    /// Those of a worker that has the whole store.
    pub(super) fn none() -> Self {
        let hasher = RandomState::new();
        Self { index: 0, others: Vec::new(), doorbell: None, hasher, next_slot: 0, forwarded: 0 }
    }

    /// Those of each of `workers` workers.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor.
    pub fn connect(workers: usize) -> std::io::Result<Vec<Self>> {
        if workers < 2 {
            return Ok(vec![Self::none()]);
        }
        let doorbells = (0..workers).map(|_| Doorbell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let mut all: Vec<_> = doorbells
            .iter()
            .map(|doorbell| Self { doorbell: Some(doorbell.clone()), ..Self::none() })
            .collect();
        let hasher = RandomState::new();
        for (index, links) in all.iter_mut().enumerate() {
            (links.index, links.hasher) = (index, hasher.clone());
        }
        // In this order, each worker's links are sorted by the number of the other.
        for high in 1..workers {
            for low in 0..high {
                let [one, other] = pair([&doorbells[high], &doorbells[low]]);
                all[low].others.push(one);
                all[high].others.push(other);
            }
        }
        Ok(all)
    }

    /// Number of this worker, and of all.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.index, self.others.len() + 1)
    }

    /// Number of other workers.
    pub(super) fn others(&self) -> usize {
        self.others.len()
    }

    /// The link to the worker that owns a key; `None` if it is this one.
    #[inline]
    pub(super) fn owner(&self, key: &[u8]) -> Option<usize> {
        if self.others.is_empty() {
            return None;
        }
        let worker = (self.hasher.hash_one(key) % (self.others.len() as u64 + 1)) as usize;
        (worker != self.index).then(|| worker - usize::from(worker > self.index))
    }

    /// Whether each other worker takes a request.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.others.iter_mut().all(|link| link.requests.room(1) > 0)
    }

    /// Number of a reply that is requested next.
    pub(super) fn slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot
    }

    /// Sends a request. Returns `false` if there is no room.
    pub(super) fn request(&mut self, to: usize, ticket: Ticket, command: Command) -> bool {
        let link = &mut self.others[to];
        link.is_due = true;
        self.forwarded += 1;
        link.requests.push((ticket, command)).is_ok()
    }

    /// Number of answers that have arrived.
    pub(super) fn replies(&mut self, from: usize) -> usize {
        self.others[from].replies.ready(RING)
    }

    /// The next answer.
    pub(super) fn reply(&mut self, from: usize) -> Option<(Ticket, Answer)> {
        self.others[from].replies.pop()
    }

    /// The next request of another worker, if its answer has room.
    pub(super) fn incoming(&mut self, from: usize) -> Option<(Ticket, Command)> {
        let link = &mut self.others[from];
        if link.answers.room(1) == 0 { None } else { link.incoming.pop() }
    }

    /// Answers a request that [`Links::incoming`] returned.
    pub(super) fn answer(&mut self, to: usize, ticket: Ticket, answer: Answer) {
        let link = &mut self.others[to];
        link.is_due = true;
        // There is room for it.
        let _ = link.answers.push((ticket, answer));
    }

    /// Wakes workers that have something new in a ring.
    pub(super) fn ring(&mut self) {
        if self.others.iter().any(|link| link.is_due) {
            // Orders the entries before the check whether the other worker sleeps.
            fence(Ordering::SeqCst);
        }
        for link in &mut self.others {
            if std::mem::take(&mut link.is_due) {
                link.doorbell.ring();
            }
        }
    }

    /// Requests a wake-up. Returns `false` if a ring has entries.
    pub(super) fn prepare_sleep(&mut self) -> bool {
        self.doorbell.iter().for_each(|doorbell| doorbell.set());
        self.others.iter_mut().all(|link| link.replies.ready(1) == 0 && link.incoming.ready(1) == 0)
    }

    /// Withdraws the request.
    pub(super) fn resume(&self) {
        self.doorbell.iter().for_each(|doorbell| doorbell.stop());
    }

    /// Readable after a wake-up.
    pub(super) fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.doorbell.iter().map(|doorbell| doorbell.fd()).collect()
    }

    /// Requests sent.
    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded
    }
}

/// The links between two workers: that of the worker that rings the first doorbell, and that of the other.
fn pair([first, second]: [&Arc<Doorbell>; 2]) -> [Link; 2] {
    let ((requests, incoming), (answers, replies)) = (ring(RING), ring(RING));
    let ((requests_back, incoming_back), (answers_back, replies_back)) = (ring(RING), ring(RING));
    let (is_due, doorbell) = (false, first.clone());
    let one = Link { requests, replies, incoming: incoming_back, answers: answers_back, doorbell, is_due };
    let (requests, replies, doorbell) = (requests_back, replies_back, second.clone());
    [one, Link { requests, replies, incoming, answers, doorbell, is_due }]
}
