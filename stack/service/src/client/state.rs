//! State of a socket, without locks: what was received, what may be sent, and how it ends.

use super::placement::Placement;
use crate::Reason;
use crate::chunks::{ArenaRange, Stream};
use crate::client::Handle;
use stack::Endpoint;
use std::collections::VecDeque;

/// Readiness of a socket, as poll(2) reports it.
#[expect(clippy::struct_excessive_bools, reason = "independent conditions of poll(2)")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data, the end of the stream, an error or a new connection.
    pub readable: bool,
    /// Room for data, or an error.
    pub writable: bool,
    /// The peer will send no more.
    pub finished: bool,
    /// The connection has ended.
    pub closed: bool,
    /// Number of arrivals, which grows with each piece of data, datagram and connection.
    pub arrivals: u64,
}

/// Progress of opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Opening,
    /// A connection waits for the peer.
    Connecting,
    Open,
}

/// A received datagram.
#[derive(Debug)]
pub(super) struct Datagram {
    /// Worker in whose arena it is.
    pub(super) worker: usize,
    pub(super) from: Endpoint,
    pub(super) pieces: Vec<ArenaRange>,
}

/// Receiving side.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    pub(super) data: VecDeque<ArenaRange>,
    pub(super) datagrams: VecDeque<Datagram>,
    /// Pieces of a datagram that is not complete.
    pub(super) pieces: Vec<ArenaRange>,
    /// Connections that the program has not accepted.
    pub(super) accepted: VecDeque<Handle>,
    pub(super) is_finished: bool,
    /// The program reads no more.
    pub(super) is_shut: bool,
    pub(super) arrivals: u64,
}

/// Sending side.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub(super) stream: Stream,
    /// Lengths of the commands that are not acknowledged.
    pub(super) sends: VecDeque<u32>,
    pub(super) is_shut: bool,
    /// A call found no room since the last acknowledgement.
    pub(super) is_blocked: bool,
}

/// State of a socket.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) placement: Placement,
    pub(super) local: Endpoint,
    pub(super) remote: Option<Endpoint>,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    /// Reason of the end; no command has an effect any more.
    pub(super) closed: Option<Reason>,
    /// Error that the next call reports.
    pub(super) error: Option<Reason>,
    /// Number of the last request that has an answer.
    pub(super) requests: u32,
    /// The last answer: number of its request, and the reason if it failed.
    pub(super) answer: Option<(u32, Option<Reason>)>,
    /// The program has dropped it.
    pub(super) is_released: bool,
}

impl State {
    /// Whether reading would not block.
    pub(super) fn is_readable(&self) -> bool {
        let Receiving { data, datagrams, accepted, is_finished, is_shut, .. } = &self.receiving;
        let has_input = !data.is_empty() || !datagrams.is_empty() || !accepted.is_empty();
        has_input || *is_finished || *is_shut || self.closed.is_some() || self.error.is_some()
    }

    pub(super) fn readiness(&self) -> Readiness {
        let is_open = self.phase == Phase::Open;
        Readiness {
            readable: self.is_readable(),
            writable: self.closed.is_some() || is_open && !self.sending.is_blocked,
            finished: self.receiving.is_finished || self.closed.is_some(),
            closed: self.closed.is_some(),
            arrivals: self.receiving.arrivals,
        }
    }

    /// Counts acknowledged bytes. Returns `false` if more were acknowledged than sent.
    pub(super) fn acknowledge(&mut self, free: &mut crate::chunks::FreeChunks, bytes: u32) -> bool {
        let mut left = bytes;
        while let Some(len) = self.sending.sends.front_mut() {
            let part = left.min(*len);
            (*len, left) = (*len - part, left - part);
            if *len > 0 {
                break;
            }
            self.sending.sends.pop_front();
        }
        self.sending.is_blocked = false;
        self.sending.stream.give_back(free, bytes)
    }
}
