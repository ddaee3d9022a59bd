//! The state of one connection: bytes in, replies out.
//!
//! A session takes bytes as they arrive, split anywhere. It holds at most one line or one value, and stops when enough
//! replies are prepared, so that a client that does not read cannot make it hold more. It must not know the stack.

use super::links::{Command, Links, Ticket};
use super::output::Output;
use super::stats::{self, ServerFacts};
use super::store::{Put, Store};
use super::{line, meta, text};
use stack::tcp::ConnectionId;
use std::borrow::Cow;

/// Maximum length in bytes of a line without its LF, as in memcached.
const MAX_LINE: usize = 2048;
/// Maximum length in bytes of a line with several keys.
const MAX_KEYS_LINE: usize = 64 << 10;
/// Spaces that may precede the command of such a line.
const MAX_SPACES: usize = 100;
/// First byte of a request of memcached's binary protocol.
const BINARY: u8 = 0x80;
/// Bytes reserved for a value when its first bytes arrive; more are reserved as they come.
const RESERVED: usize = 64 << 10;

/// Context of a request.
pub(super) struct Context<'a> {
    pub(super) store: &'a mut Store,
    pub(super) out: &'a mut Output,
    pub(super) links: &'a mut Links,
    pub(super) client: ConnectionId,
    pub(super) facts: ServerFacts,
}

impl Context<'_> {
    /// Whether there is room for replies and for a request to each other worker.
    pub(super) fn has_room(&mut self) -> bool {
        self.out.has_room() && self.links.has_room()
    }

    /// Sends a command to another worker, whose reply follows the replies so far.
    pub(super) fn forward(&mut self, to: usize, command: Command) {
        let slot = self.links.slot();
        if self.links.request(to, Ticket { client: self.client, slot }, command) {
            self.out.awaits(slot);
        } else {
            // Not reached: each step of a session begins with room for one request.
            self.out.line(b"SERVER_ERROR busy");
        }
    }

    /// Sends a command to all other workers. Replies that follow wait for its execution.
    pub(super) fn forward_all(&mut self, command: impl Fn() -> Command) {
        (0..self.links.others()).for_each(|to| self.forward(to, command()));
    }

    /// Removes an item without a reply.
    pub(super) fn remove(&mut self, key: &[u8]) {
        match self.links.owner(key) {
            Some(to) => self.forward(to, Command::Remove(key.into())),
            None => drop(self.store.delete(key)),
        }
    }

    /// Writes the general statistics of all workers.
    pub(super) fn write_stats(&mut self) {
        let ticket = Ticket { client: self.client, slot: self.links.slot() };
        let others = (0..self.links.others()).filter(|to| self.links.request(*to, ticket, Command::Stats));
        let missing = others.count();
        self.out.gathers(ticket.slot, missing, stats::totals(self.store, self.facts));
    }
}

/// Next element of a stream.
#[derive(Debug)]
pub(super) enum State {
    /// A command.
    Line,
    /// A value with its CR and LF.
    Value(Box<Pending>),
    /// Bytes of a value that is not stored.
    Skip(usize),
    /// Keys of a command for which there was no room for replies.
    Keys(Box<text::Keys>),
    /// Nothing: the connection is to be closed.
    Closed,
}

/// A command that waits for its value.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) put: Put,
    /// Length of the value with CR and LF.
    pub(super) len: usize,
    pub(super) reply: Reply,
    /// Received bytes of the value.
    pub(super) data: Vec<u8>,
}

/// How the result of storing is reported.
#[derive(Debug)]
pub(super) enum Reply {
    /// As by `set`.
    Text { is_silent: bool },
    /// As by `ms`, with the flags of the request.
    Meta(meta::SetReply),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    /// First part of a line.
    line: Vec<u8>,
    state: State,
    is_started: bool,
}

impl Session {
    pub(super) fn new() -> Self {
        Self { line: Vec::new(), state: State::Line, is_started: false }
    }

    /// Whether the connection is to be closed after the replies.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether a command waits for room for replies.
    pub(super) fn is_paused(&self) -> bool {
        matches!(self.state, State::Keys(_))
    }

    /// Processes bytes until they end, the replies have no room, or the connection is to be closed. Returns the number
    /// of bytes processed.
    pub(super) fn feed(&mut self, bytes: &[u8], context: &mut Context<'_>) -> usize {
        if !self.is_started && bytes.first() == Some(&BINARY) {
            self.state = State::Closed;
        }
        self.is_started |= !bytes.is_empty();
        let mut at = 0;
        while context.has_room() {
            let rest = &bytes[at..];
            if let State::Keys(keys) = &mut self.state {
                if let Some(next) = keys.resume(context) {
                    self.state = next;
                }
            } else if rest.is_empty() || self.is_closed() {
                break;
            } else {
                at += self.step(rest, context);
            }
        }
        at
    }

    /// Processes some bytes of `rest`, which is not empty.
    fn step(&mut self, rest: &[u8], context: &mut Context<'_>) -> usize {
        match &mut self.state {
            State::Line => self.take_line(rest, context),
            State::Value(pending) => {
                let part = &rest[..rest.len().min(pending.len - pending.data.len())];
                let Some(data) = pending.take(part) else { return part.len() };
                if let State::Value(pending) = std::mem::replace(&mut self.state, State::Line) {
                    pending.finish(data, context);
                }
                part.len()
            }
            State::Skip(left) => {
                let taken = rest.len().min(*left);
                *left -= taken;
                if *left == 0 {
                    self.state = State::Line;
                }
                taken
            }
            State::Keys(_) | State::Closed => 0,
        }
    }

    fn take_line(&mut self, rest: &[u8], context: &mut Context<'_>) -> usize {
        let end = memchr::memchr(b'\n', rest);
        let part = &rest[..end.unwrap_or(rest.len())];
        if self.line.len() + part.len() > MAX_LINE && !self.may_be_long(part, context) {
            self.state = State::Closed;
            return rest.len();
        }
        let Some(end) = end else {
            self.line.extend_from_slice(part);
            return part.len();
        };
        self.state = if self.line.is_empty() {
            text::execute(line::command(part), context)
        } else {
            self.line.extend_from_slice(part);
            let line = std::mem::take(&mut self.line);
            text::execute(line::command(&line), context)
        };
        end + 1
    }

    /// Whether the line is one with several keys and not too long. If it is too long, that is reported.
    fn may_be_long(&self, part: &[u8], context: &mut Context<'_>) -> bool {
        let bytes = || self.line.iter().chain(part);
        let spaces = bytes().take(MAX_SPACES).take_while(|byte| **byte == b' ').count();
        let start: Vec<u8> = bytes().skip(spaces).take(5).copied().collect();
        let has_keys = [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|name| start.starts_with(name));
        let is_short = self.line.len() + part.len() <= MAX_KEYS_LINE;
        if has_keys && !is_short {
            context.out.line(b"CLIENT_ERROR line too long");
        }
        has_keys && is_short
    }
}

impl Pending {
    /// Takes bytes of the value. Returns the value once it is complete.
    fn take<'a>(&mut self, part: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.data.is_empty() && part.len() == self.len {
            return Some(Cow::Borrowed(part));
        }
        if self.data.is_empty() {
            self.data.reserve(self.len.min(RESERVED));
        }
        self.data.extend_from_slice(part);
        (self.data.len() == self.len).then(|| Cow::Owned(std::mem::take(&mut self.data)))
    }

    /// Executes the command, or sends it to the worker of its key.
    fn finish(mut self: Box<Self>, data: Cow<'_, [u8]>, context: &mut Context<'_>) {
        if !data.ends_with(b"\r\n") {
            let is_silent = matches!(self.reply, Reply::Text { is_silent: true });
            return text::reply(is_silent, b"CLIENT_ERROR bad data chunk", context);
        }
        match context.links.owner(&self.put.key) {
            Some(to) => {
                self.data = data.into_owned();
                context.forward(to, Command::Put(self));
            }
            None => self.store(data, context),
        }
    }

    /// Executes the command.
    pub(super) fn store(&self, data: Cow<'_, [u8]>, context: &mut Context<'_>) {
        let len = data.len() - 2;
        let stored = context.store.put(&self.put, data);
        match &self.reply {
            Reply::Text { is_silent } => text::stored(*is_silent, stored, context),
            Reply::Meta(reply) => reply.write(stored, &self.put, len, context),
        }
    }
}
