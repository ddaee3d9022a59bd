//! Fuzzing of the state machine: a script is a stream of bytes, with lengths of its parts.

use super::output::Output;
use super::session::{Context, Session};
use super::stats::ServerFacts;
use super::store::Store;
use stack::Slice;

/// Second of the first byte.
pub(crate) const START: u32 = 1_000_000_000;

/// A session with its store, and the replies as bytes.
pub(crate) struct Bench {
    store: Store,
    out: Output,
    session: Session,
    pub(crate) replies: Vec<u8>,
}

impl Bench {
    pub(crate) fn new(memory: usize) -> Self {
        let mut store = Store::new(memory);
        store.advance(START);
        Self { store, out: Output::new(), session: Session::new(), replies: Vec::new() }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: u32) {
        self.store.advance(self.store.now() + seconds);
    }

    /// Passes bytes to the session. Returns whether it continues.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        let Self { store, out, session, replies } = self;
        let (mut rest, facts) = (bytes, ServerFacts::default());
        loop {
            let taken = session.feed(rest, &mut Context { store, out, facts });
            replies.extend(out.take().flat_map(|piece: Slice<_>| piece.to_vec()));
            rest = &rest[taken..];
            if session.is_closed() || (rest.is_empty() && !session.is_paused()) {
                return !session.is_closed();
            }
        }
    }

    /// Bytes of the store, and their limit.
    pub(crate) fn memory(&self) -> (usize, usize) {
        (self.store.cache().bytes(), self.store.cache().limit())
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
