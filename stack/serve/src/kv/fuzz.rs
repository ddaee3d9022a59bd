//! Fuzzing of the state machine: a script is a stream of bytes, with lengths of its parts.

use super::links::Links;
use super::output::Replies;
use super::session::Session;
use super::shard::{Room, Shard};
use super::stats::ServerFacts;
use stack::Slice;
use stack::tcp::ConnectionId;

/// Second of the first byte.
pub(crate) const START: u32 = 1_000_000_000;

/// A session with its store, and the replies as bytes.
pub(crate) struct Bench {
    /// The session is one of the first.
    shards: Vec<Shard>,
    waiting: Replies,
    session: Session,
    pub(crate) replies: Vec<u8>,
}

impl Bench {
    /// A store of one worker.
    pub(crate) fn new(memory: usize) -> Self {
        Self::with(memory, vec![Links::none()])
    }

    /// A store of several workers, which have `memory` bytes each.
    #[cfg(test)]
    pub(crate) fn sharded(memory: usize, workers: usize) -> Self {
        Self::with(memory, Links::connect(workers).expect("a descriptor"))
    }

    fn with(memory: usize, links: Vec<Links>) -> Self {
        let shards = links.into_iter().map(|links| Shard::new(memory, links)).collect();
        let mut bench =
            Self { shards, waiting: Replies::default(), session: Session::new(), replies: Vec::new() };
        bench.pass(START);
        bench
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: u32) {
        for shard in &mut self.shards {
            shard.store.advance(shard.store.now() + seconds);
        }
    }

    /// Passes bytes to the session. Returns whether it continues.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        let (mut rest, ticket) = (bytes, (ConnectionId::from_bits(0), ServerFacts::default()));
        loop {
            let Self { shards, session, waiting, .. } = self;
            if shards[0].room(waiting) == Room::Free {
                let taken = shards[0].feed(session, rest, waiting, ticket);
                rest = &rest[taken..];
            } else {
                // Others answer as late as possible, so that many requests wait.
                self.answer();
            }
            self.take();
            if self.session.is_closed() || (rest.is_empty() && !self.session.is_paused()) {
                self.answer();
                self.take();
                assert!(self.waiting.is_empty(), "every request is answered");
                return !self.session.is_closed();
            }
        }
    }

    /// Executes all requests of the first worker, and takes the answers.
    fn answer(&mut self) {
        while self
            .shards
            .iter_mut()
            .skip(1)
            .fold(false, |worked, shard| shard.serve(ServerFacts::default()) | worked)
        {
            let links = &mut self.shards[0].links;
            for from in 0..links.others() {
                while let Some((ticket, answer)) = links.reply(from) {
                    self.waiting.fill(ticket.slot, answer);
                }
            }
        }
    }

    /// Takes the replies that are ready.
    fn take(&mut self) {
        while let Some(piece) = self.waiting.front() {
            self.replies.extend(Slice::to_vec(piece));
            self.waiting.pop();
        }
    }

    /// Bytes of the store, and their limit.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let caches = self.shards.iter().map(|shard| shard.store.cache());
        caches.fold((0, 0), |(bytes, limit), cache| (bytes + cache.bytes(), limit + cache.limit()))
    }
}

/// Plays a script: each part begins with its length, or lets time pass.
#[cfg_attr(not(feature = "fuzz"), expect(unreachable_pub, reason = "exported with the feature fuzz"))]
pub fn fuzz_kv(script: &[u8]) {
    let mut bench = Bench::new(64 << 10);
    let mut whole = Bench::new(64 << 10);
    let (mut rest, mut is_timed, mut stream) = (script, false, Vec::new());
    while let Some((len, more)) = rest.split_first() {
        if *len >= 250 {
            bench.pass(1 << (len - 250));
            is_timed = true;
            rest = more;
            continue;
        }
        let (part, after) = more.split_at(more.len().min(usize::from(*len)));
        stream.extend_from_slice(part);
        rest = after;
        if !bench.feed(part) {
            break;
        }
        let (bytes, limit) = bench.memory();
        assert!(bytes <= limit, "{bytes} bytes of {limit}");
    }
    if !is_timed {
        whole.feed(&stream);
        assert_eq!(whole.replies, bench.replies, "the parts of a stream decide its replies");
    }
}
