//! One connection: what was agreed on, and what waits to be sent.

use crate::bundles::Bundle;
use crate::input::Input;
use crate::monitors::Monitors;
use crate::output::Output;
use crate::settings::Settings;
use crate::stats::Partial;
use openflow::{DecodeError, Dialect, EncodeError, ErrorCode, FramingError, Header, Message, Role, Version};
use port::Now;
use std::collections::BTreeMap;

/// Identity of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// Kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A controller of the bridge.
    Controller,
    /// A peer that has connected to the bridge. It gets asynchronous messages only after it asked for them.
    Service,
    /// The same at the management socket. It is probed after [`crate::limits::MANAGEMENT_PROBE`].
    Management,
    /// A further connection to a controller (OpenFlow 1.3.5, 6.3.7), which has the role and the settings of its main
    /// connection. Only packets are sent through it without a request.
    Auxiliary,
}

/// Place of an auxiliary connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// The main connection.
    pub main: SessionId,
    /// Number among the connections of this controller, from 1.
    pub number: u8,
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The stream is not OpenFlow.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The first message is not a HELLO.
    #[error("the first OpenFlow message has type {0}: a session starts with HELLO")]
    NoHello(u8),
    /// No common version.
    #[error("no common version of OpenFlow: the peer offers up to {0:#04x}")]
    NoVersion(u8),
    /// The peer refused the offered versions.
    #[error("the peer refused the offered versions of OpenFlow")]
    Refused,
    /// No HELLO in time.
    #[error("no HELLO within {} s", crate::limits::HANDSHAKE.as_secs())]
    Handshake,
    /// No answers to probes.
    #[error("no answer to {} echo requests", crate::limits::PROBES)]
    Silent,
    /// The peer does not read its messages.
    #[error("the peer does not read its messages: too many of them wait")]
    Stalled,
    /// The main connection of an auxiliary one has ended.
    #[error("the main connection has ended")]
    Main,
}

/// Messages of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received messages.
    pub received: u64,
    /// Sent messages; an answer in several messages counts once.
    pub sent: u64,
    /// Sent error messages.
    pub errors: u64,
    /// Asynchronous messages that were discarded because the output was full.
    pub discarded: u64,
}

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// Identity.
    pub id: SessionId,
    /// Kind.
    pub kind: Kind,
    /// Place of an auxiliary connection.
    pub auxiliary: Option<Auxiliary>,
    /// Version agreed on; `None` during the handshake.
    pub version: Option<Version>,
    /// Role; [`Role::Equal`] before a request.
    pub role: Role,
    /// Messages.
    pub counters: Counters,
}

/// When the peer was heard last, and how often it was probed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// When the last message was processed; before the first, when the session was opened.
    pub(crate) heard: Now,
    pub(crate) probes: u32,
    /// Whether the peer has read a part of much output since the last tick: then it is not silent.
    pub(crate) reads: bool,
}

impl Liveness {
    pub(crate) fn new(heard: Now) -> Self {
        Self { heard, probes: 0, reads: false }
    }
}

/// State of one connection.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) kind: Kind,
    pub(crate) auxiliary: Option<Auxiliary>,
    /// Version negotiated by the HELLO messages; `None` before.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) role: Role,
    pub(crate) settings: Settings,
    pub(crate) bundles: BTreeMap<u32, Bundle>,
    pub(crate) monitors: Monitors,
    /// First parts of a request of several messages.
    pub(crate) partial: Option<Partial>,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) liveness: Liveness,
    pub(crate) counters: Counters,
    /// Why it must be closed, if it must.
    pub(crate) ended: Option<SessionError>,
}

impl Session {
    pub(crate) fn new(id: SessionId, kind: Kind, now: Now) -> Self {
        Self {
            id,
            kind,
            auxiliary: None,
            dialect: None,
            role: Role::Equal,
            settings: Settings::new(kind),
            bundles: BTreeMap::new(),
            monitors: Monitors::default(),
            partial: None,
            input: Input::default(),
            output: Output::default(),
            liveness: Liveness::new(now),
            counters: Counters::default(),
            ended: None,
        }
    }

    pub(crate) fn report(&self) -> SessionReport {
        let Self { id, kind, auxiliary, role, counters, .. } = *self;
        SessionReport { id, kind, auxiliary, version: self.version(), role, counters }
    }

    /// The main connection that it belongs to, possibly itself.
    pub(crate) fn main(&self) -> SessionId {
        self.auxiliary.map_or(self.id, |auxiliary| auxiliary.main)
    }

    /// Memory of what it keeps for its peer, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let bundles: usize = self.bundles.values().map(Bundle::memory).sum();
        let partial = self.partial.as_ref().map_or(0, Partial::memory);
        bundles + partial + self.output.memory() + self.monitors.memory()
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.dialect.map(|dialect| dialect.version)
    }

    /// Adds a message to the output. Before the handshake, nothing is sent.
    ///
    /// # Errors
    /// If the version cannot express the message. Nothing is sent then.
    pub(crate) fn send(&mut self, message: &Message, xid: u32) -> Result<(), EncodeError> {
        let Some(dialect) = self.dialect else { return Ok(()) };
        self.output.put(message, dialect, xid)?;
        self.counters.sent += 1;
        Ok(())
    }

    /// Adds an asynchronous message to the output, unless too much waits or the version cannot express it.
    pub(crate) fn notify(&mut self, message: &Message) {
        self.notify_within(crate::limits::NOTICES, message);
    }

    /// As [`Session::notify`], unless `limit` bytes wait.
    pub(crate) fn notify_within(&mut self, limit: usize, message: &Message) {
        if self.output.len() >= limit {
            self.counters.discarded += 1;
        } else {
            // A version that has no such message does not have the event either.
            let _ = self.send(message, 0);
        }
    }

    /// Answers the message `request` with an error.
    pub(crate) fn refuse(&mut self, code: ErrorCode, request: &[u8]) {
        let (Some(version), Some(header)) = (self.version(), Header::read(request)) else { return };
        let answer = DecodeError::new(code, request).message(version);
        self.counters.errors += 1;
        // Every version has error messages.
        let _ = self.send(&Message::Error(answer), header.xid);
    }
}
