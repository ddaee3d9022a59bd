//! Reading and writing: bytes are copied once, between the program's memory and the arenas.

use super::lane::WorkerSet;
use super::lock;
use super::socket::{Handle, Socket};
use super::state::{Datagram, Phase, State};
use crate::Reason;
use crate::chunks::ArenaRange;
use crate::entry::Command;
use stack::Endpoint;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes of a UDP datagram's payload over IPv4.
const MAX_DATAGRAM: usize = 65_507;

fn would_block<T>() -> io::Result<T> {
    Err(io::ErrorKind::WouldBlock.into())
}

impl Handle {
    /// Reads bytes of the stream; with `peek` they stay. Returns 0 at its end.
    ///
    /// # Errors
    /// The reason if the connection was reset; [`io::ErrorKind::WouldBlock`] if nothing arrives within `timeout`.
    pub fn read(&self, to: &mut [u8], peek: bool, timeout: Option<Duration>) -> io::Result<usize> {
        let socket = &self.socket;
        socket.wait(timeout, |state| {
            if state.receiving.data.is_empty() {
                return end_of_stream(state);
            }
            let n = socket.copy_stream(state, to, peek);
            if !peek && n > 0 {
                let bytes = n as u32;
                socket.lane().send(Command::Consumed { id: socket.id, bytes });
                socket.observe(state);
            }
            Ok(n)
        })
    }

    /// Writes bytes of the stream. Returns how many there was room for.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] after the end of sending; [`io::ErrorKind::WouldBlock`] if there is no room within
    /// `timeout`.
    pub fn write(&self, from: &[u8], timeout: Option<Duration>) -> io::Result<usize> {
        let socket = &self.socket;
        socket.wait(timeout, |state| {
            check_writable(state)?;
            let n = socket.append(state, from);
            if n == 0 && !from.is_empty() {
                state.sending.is_blocked = true;
                socket.observe(state);
                return would_block();
            }
            Ok(n)
        })
    }

    /// Receives a datagram; with `peek` it stays. Returns its sender, and its length, which may exceed that of `to`.
    ///
    /// # Errors
    /// As [`Handle::read`]; also errors of datagrams that were sent.
    pub fn receive_from(
        &self,
        to: &mut [u8],
        peek: bool,
        timeout: Option<Duration>,
    ) -> io::Result<(usize, Endpoint)> {
        let socket = &self.socket;
        socket.wait(timeout, |state| {
            if let Some(reason) = state.error.take() {
                socket.observe(state);
                return Err(reason.into());
            }
            let Some(datagram) = state.receiving.datagrams.front() else { return end_of_stream_udp(state) };
            let (from, mut at) = (datagram.from, 0);
            let inbound = &socket.shared.lanes[datagram.worker].inbound;
            for piece in &datagram.pieces {
                let rest = to.get_mut(at..).unwrap_or_default();
                let n = rest.len().min(piece.len as usize);
                inbound.read(piece.offset as usize, &mut rest[..n]);
                at += piece.len as usize;
            }
            if !peek {
                socket.pop_datagram(state);
            }
            Ok((at, from))
        })
    }

    /// Sends a datagram. `to` is not needed by a connected socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room within `timeout`; errors of earlier datagrams.
    pub fn send_to(&self, from: &[u8], to: Option<Endpoint>, timeout: Option<Duration>) -> io::Result<usize> {
        let socket = &self.socket;
        if from.len() > MAX_DATAGRAM {
            return Err(Reason::TooLong.into());
        }
        socket.wait(timeout, |state| {
            if let Some(reason) = state.closed.or(state.error.take()) {
                return Err(reason.into());
            }
            let Some(pieces) = socket.reserve(state, from) else {
                state.sending.is_blocked = true;
                socket.observe(state);
                return would_block();
            };
            let id = socket.id;
            let count = pieces.len();
            for (i, range) in pieces.into_iter().enumerate() {
                socket.lane().send(Command::UdpSend { id, remote: to, range, is_last: i + 1 == count });
            }
            Ok(from.len())
        })
    }
}

/// Result of a read without data.
fn end_of_stream<T: Default>(state: &mut State) -> io::Result<T> {
    if let Some(reason) = state.error.take() {
        return Err(reason.into());
    }
    if state.receiving.is_finished || state.receiving.is_shut || state.closed.is_some() {
        return Ok(T::default());
    }
    would_block()
}

fn end_of_stream_udp(state: &State) -> io::Result<(usize, Endpoint)> {
    match state.closed {
        Some(reason) => Err(reason.into()),
        None => would_block(),
    }
}

fn check_writable(state: &mut State) -> io::Result<()> {
    if let Some(reason) = state.error.take() {
        return Err(reason.into());
    }
    if state.sending.is_shut || state.closed.is_some() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    if state.phase == Phase::Open { Ok(()) } else { would_block() }
}

impl Socket {
    /// Copies received bytes.
    fn copy_stream(&self, state: &mut State, to: &mut [u8], peek: bool) -> usize {
        let mut at = 0;
        let mut i = 0;
        while at < to.len()
            && let Some(piece) = state.receiving.data.get_mut(i)
        {
            let n = (piece.len as usize).min(to.len() - at);
            self.lane().inbound.read(piece.offset as usize, &mut to[at..at + n]);
            at += n;
            if peek {
                i += 1;
                continue;
            }
            *piece = ArenaRange { offset: piece.offset + n as u32, len: piece.len - n as u32 };
            if piece.len == 0 {
                state.receiving.data.pop_front();
            }
        }
        at
    }

    fn pop_datagram(&self, state: &mut State) {
        let Some(Datagram { worker, pieces, .. }) = state.receiving.datagrams.pop_front() else { return };
        let bytes = pieces.iter().map(|piece| piece.len).sum();
        if bytes > 0 {
            self.request(WorkerSet::one(worker), Command::Consumed { id: self.id, bytes });
        }
        self.observe(state);
    }

    /// Appends bytes to the stream as far as limits and the arena have room. Returns their number.
    fn append(self: &Arc<Self>, state: &mut State, from: &[u8]) -> usize {
        let sizes = self.shared.sizes;
        let mut at = 0;
        while at < from.len() && state.sending.sends.len() < sizes.sends as usize {
            let credit = sizes.send_bytes.saturating_sub(state.sending.stream.held()) as usize;
            let wanted = (from.len() - at).min(credit);
            if wanted == 0 {
                break;
            }
            let Some(range) = self.take(state, wanted) else { break };
            let n = range.len as usize;
            self.lane().outbound.write(range.offset as usize, &from[at..at + n]);
            state.sending.sends.push_back(range.len);
            self.lane().send(Command::Send { id: self.id, range });
            at += n;
        }
        at
    }

    /// Takes a range of the arena. If there is none, the socket is woken when one is free.
    fn take(self: &Arc<Self>, state: &mut State, wanted: usize) -> Option<ArenaRange> {
        let mut arena = lock(&self.lane().arena);
        let range = state.sending.stream.take(&mut arena.free, wanted);
        if range.is_none() {
            arena.starved.push(self.clone());
        }
        range
    }

    /// Copies a datagram to the arena. Returns `None`, without using it, if there is no room.
    fn reserve(self: &Arc<Self>, state: &mut State, from: &[u8]) -> Option<Vec<ArenaRange>> {
        let sizes = self.shared.sizes;
        if state.sending.stream.held() as usize + from.len()
            > sizes.send_bytes.max(MAX_DATAGRAM as u32) as usize
        {
            return None;
        }
        if from.is_empty() {
            return Some(vec![ArenaRange::default()]);
        }
        let mut arena = lock(&self.lane().arena);
        if arena.free.len() < from.len().div_ceil(crate::chunks::CHUNK as usize) + 1 {
            arena.starved.push(self.clone());
            return None;
        }
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < from.len()
            && let Some(range) = state.sending.stream.take(&mut arena.free, from.len() - at)
        {
            self.lane().outbound.write(range.offset as usize, &from[at..at + range.len as usize]);
            at += range.len as usize;
            pieces.push(range);
        }
        Some(pieces)
    }
}
