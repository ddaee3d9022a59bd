//! UDP sockets of clients.
//!
//! A datagram of a client is copied into private memory, because the stack does not report when it was sent. A received
//! one is written to the client's arena at once, or dropped if arena, ring or socket have no room for it.

use super::Service;
use super::client::Object;
use crate::chunks::{ArenaRange, CHUNK, FreeChunks, Stream};
use crate::entry::Completion;
use crate::{Fault, Reason};
use host::{Buffer, BufferPool};
use slab::Slab;
use stack::{Endpoint, Slice, SocketId, Stack, Time, UdpOptions};

/// Bytes of a socket that the client has not read. More are dropped.
const RECEIVE_BUFFER: u32 = 256 << 10;
/// Maximum number of bytes of a datagram that is collected.
const MAX_DATAGRAM: usize = 65_535;

#[derive(Debug)]
pub(super) struct Socket {
    client: usize,
    id: u32,
    pub(super) stack: SocketId,
    stream: Stream,
    /// Number of its multicast memberships.
    pub(super) groups: u32,
    /// Pieces of a datagram that is not complete.
    pieces: Vec<Slice<Buffer>>,
}

/// UDP sockets of all clients.
#[derive(Debug)]
pub(super) struct Udp {
    pub(super) sockets: Slab<Socket>,
    by_stack: Vec<usize>,
    pool: BufferPool,
}

impl Udp {
    pub(super) fn new(pool: BufferPool) -> Self {
        Self { sockets: Slab::new(), by_stack: Vec::new(), pool }
    }

    fn find(&self, id: SocketId) -> Option<usize> {
        let key = *self.by_stack.get(id.index())?;
        self.sockets.get(key).filter(|socket| socket.stack == id).map(|_| key)
    }

    /// Client of a socket, and its number.
    pub(super) fn owner(&self, socket: SocketId) -> Option<(usize, u32)> {
        self.find(socket).map(|key| (self.sockets[key].client, self.sockets[key].id))
    }

    /// Multicast memberships of a client, and of all clients.
    pub(super) fn groups(&self, client: usize) -> (u32, u32) {
        self.sockets.iter().fold((0, 0), |(own, all), (_, socket)| {
            let is_own = u32::from(socket.client == client);
            (own + is_own * socket.groups, all + socket.groups)
        })
    }

    pub(super) fn give_back(&mut self, key: usize, free: &mut FreeChunks, bytes: u32) -> bool {
        self.sockets.get_mut(key).is_none_or(|socket| socket.stream.give_back(free, bytes))
    }

    pub(super) fn close(&mut self, stack: &mut Stack<Buffer>, key: usize, free: &mut FreeChunks, now: Time) {
        if let Some(mut socket) = self.sockets.try_remove(key) {
            socket.stream.clear(free);
            stack.udp_close(socket.stack, now);
        }
    }
}

impl Service {
    pub(super) fn udp_bind(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        local: Endpoint,
    ) -> Result<(), Reason> {
        let socket = stack.udp_bind(local, UdpOptions::default())?;
        let local = stack.udp_endpoints(socket).map_or(local, |(local, _)| local);
        let (stream, pieces, groups) = (Stream::default(), Vec::new(), 0);
        let key = self.udp.sockets.insert(Socket { client, id, stack: socket, stream, groups, pieces });
        if self.udp.by_stack.len() <= socket.index() {
            self.udp.by_stack.resize(socket.index() + 1, usize::MAX);
        }
        self.udp.by_stack[socket.index()] = key;
        self.clients[client].objects.insert(id, Object::Udp(key));
        self.clients[client].reply(Completion::Bound { id, local });
        Ok(())
    }

    pub(super) fn udp_connect(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        remote: Endpoint,
        now: Time,
    ) {
        let Some(Object::Udp(key)) = self.object(client, id) else { return };
        let socket = self.udp.sockets[key].stack;
        let done = stack.udp_connect(socket, remote, now);
        let local = stack.udp_endpoints(socket).map(|(local, _)| local).unwrap_or_default();
        self.clients[client].reply(match done {
            Ok(()) => Completion::Connected { id, local, remote },
            Err(error) => Completion::DatagramFailed { id, reason: error.into() },
        });
    }

    pub(super) fn udp_send(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        (remote, range, is_last): (Option<Endpoint>, ArenaRange, bool),
        now: Time,
    ) -> Result<(), Fault> {
        let channel = &self.clients[client].channel;
        // A datagram may be empty.
        let bytes = if range.len == 0 { None } else { Some(channel.outbound(range).ok_or(Fault::Range)?) };
        let Some(Object::Udp(key)) = self.object(client, id) else { return Ok(()) };
        let socket = &mut self.udp.sockets[key];
        let len = bytes.as_ref().map_or(0, mem::SharedRange::len);
        if socket.pieces.iter().map(Slice::len).sum::<usize>() + len > MAX_DATAGRAM + CHUNK as usize {
            return Err(Fault::Credit);
        }
        let copied = self.udp.pool.fill(len, |to| {
            // An empty datagram has no bytes.
            let _ = bytes.is_some_and(|bytes| bytes.read(0, to));
        });
        socket.pieces.extend(copied.map(Slice::new));
        if len > 0 {
            self.clients[client].reply(Completion::Sent { id, bytes: range.len });
        }
        if is_last {
            let pieces = std::mem::take(&mut socket.pieces);
            if let Err(error) = stack.udp_send(socket.stack, remote, pieces, now) {
                let reason = error.into();
                self.clients[client].reply(Completion::DatagramFailed { id, reason });
            }
        }
        Ok(())
    }

    pub(super) fn datagram(&mut self, socket: SocketId, from: Endpoint, data: &Slice<Buffer>) {
        let Some(key) = self.udp.find(socket) else { return };
        if !self.deliver_datagram(key, from, data) {
            self.statistics.datagrams_dropped += 1;
        }
    }

    /// Writes a datagram to the arena. Returns `false`, without a piece of it, if there is no room.
    fn deliver_datagram(&mut self, key: usize, from: Endpoint, data: &Slice<Buffer>) -> bool {
        let Socket { client, id, stream, .. } = &mut self.udp.sockets[key];
        let (client, id) = (&mut self.clients[*client], *id);
        // One more than full chunks, because the first piece may use the rest of a chunk.
        let pieces = data.len().div_ceil(CHUNK as usize) + 1;
        let has_room =
            stream.held() + data.len() as u32 <= RECEIVE_BUFFER && client.channel.free.len() >= pieces;
        if !has_room || !client.outbox.is_empty() || !client.channel.has_room(pieces as u64) {
            return false;
        }
        let (mut at, mut bytes) = (0, [0; CHUNK as usize]);
        loop {
            let left = data.len() - at;
            let taken = if left == 0 { None } else { stream.take(&mut client.channel.free, left) };
            let range = taken.unwrap_or_default();
            let part = &mut bytes[..range.len as usize];
            data.copy_to(at, part);
            client.channel.write(range, part);
            at += range.len as usize;
            let is_last = at == data.len() || range.len == 0;
            client.channel.send(Completion::Datagram { id, from, range, is_last });
            if is_last {
                return true;
            }
        }
    }

    pub(super) fn datagram_lost(&mut self, socket: SocketId, reason: Reason) {
        let Some(key) = self.udp.find(socket) else { return };
        let Socket { client, id, .. } = self.udp.sockets[key];
        self.clients[client].reply(Completion::DatagramFailed { id, reason });
    }
}
