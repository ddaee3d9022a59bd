//! The part of a store that belongs to one worker, with its links to the other parts.
//!
//! A command for a key of another worker is sent to it, and its reply keeps a place among the replies of the
//! connection. Commands behind it go on meanwhile, so replies of one batch of requests take one exchange. Commands of a
//! connection for the same key keep their order.

use super::links::{Answer, Command, Links, Ticket};
use super::output::{Output, Replies};
use super::session::{Context, Session};
use super::stats::{self, ServerFacts, Stats};
use super::store::Store;
use super::text;
use stack::tcp::ConnectionId;
use std::borrow::Cow;

/// Maximum number of requests of another worker that are executed in one round.
const BATCH: usize = 64;

/// The store of one worker.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) store: Store,
    pub(super) links: Links,
    out: Output,
}

/// Condition that a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing.
    Free,
    /// Replies that wait to be sent or to arrive.
    Replies,
    /// A full ring.
    Links,
}

impl Shard {
    /// An empty store of at most `memory` bytes.
    pub(super) fn new(memory: usize, links: Links) -> Self {
        Self { store: Store::new(memory, links.place()), links, out: Output::new() }
    }

    /// Whether a session with these replies may process requests.
    pub(super) fn room(&mut self, replies: &Replies) -> Room {
        match () {
            () if !replies.has_room() => Room::Replies,
            () if !self.links.has_room() => Room::Links,
            () => Room::Free,
        }
    }

    /// Passes bytes to a session, and its replies to `replies`. Returns the number of bytes processed.
    pub(super) fn feed(
        &mut self,
        session: &mut Session,
        bytes: &[u8],
        replies: &mut Replies,
        (client, facts): (ConnectionId, ServerFacts),
    ) -> usize {
        let Self { store, links, out } = self;
        out.begin(replies);
        let taken = session.feed(bytes, &mut Context { store, out, links, client, facts });
        replies.extend(out);
        taken
    }

    /// Executes requests of other workers. Returns whether there were any.
    pub(super) fn serve(&mut self, facts: ServerFacts) -> bool {
        let mut worked = false;
        for from in 0..self.links.others() {
            for _ in 0..BATCH {
                let Some((ticket, command)) = self.links.incoming(from) else { break };
                let answer = self.execute(ticket, command, facts);
                self.links.answer(from, ticket, answer);
                worked = true;
            }
        }
        worked
    }

    fn execute(&mut self, ticket: Ticket, command: Command, facts: ServerFacts) -> Answer {
        let Self { store, links, out } = self;
        let context = &mut Context { store, out, links, client: ticket.client, facts };
        match command {
            Command::Line(line) => drop(text::execute(&line, context)),
            Command::Put(mut pending) => {
                let data = std::mem::take(&mut pending.data);
                pending.store(Cow::Owned(data), context);
            }
            Command::Get(key, get) => get.read(&key, context),
            Command::Remove(key) => drop(context.store.delete(&key)),
            Command::Flush(at) => context.store.flush(at),
            Command::Stats => return Answer::Totals(stats::totals(store, facts)),
            Command::Reset => context.store.stats = Stats::default(),
        }
        Answer::Reply(self.out.answer())
    }
}
