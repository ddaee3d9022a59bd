//! Commands of clients.

use super::Service;
use super::client::Object;
use super::connection::{Announce, Connection, Fact};
use crate::chunks::ArenaRange;
use crate::entry::{ACCEPTED, Command, Completion, StreamOptions};
use crate::{Fault, Reason};
use host::Buffer;
use stack::tcp::ConnectionId;
use stack::{Endpoint, SendError, Slice, Stack, Time};

impl Service {
    /// Runs the next commands of a client, at most `control` that open or close something, which it reduces. Returns
    /// whether there were any.
    pub(super) fn run_commands(
        &mut self,
        stack: &mut Stack<Buffer>,
        key: usize,
        control: &mut u32,
        now: Time,
    ) -> bool {
        let mut count = 0;
        while count < self.options.limits.commands && self.clients[key].is_served() {
            let client = &mut self.clients[key];
            let done = match client.next_command() {
                Ok(None) => break,
                Ok(Some(command)) if command.is_control() && *control == 0 => {
                    client.deferred = Some(command);
                    break;
                }
                Ok(Some(command)) => {
                    *control -= u32::from(command.is_control());
                    self.command(stack, key, command, now)
                }
                Err(Fault::Ring) => {
                    self.fail(key, Fault::Ring);
                    break;
                }
                Err(fault) => Err(fault),
            };
            count += 1;
            if let Err(fault) = done {
                self.fail(key, fault);
            }
        }
        let client = &mut self.clients[key];
        client.channel.commands.release();
        count > 0 || (client.deferred.is_some() && client.is_served())
    }

    fn command(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        command: Command,
        now: Time,
    ) -> Result<(), Fault> {
        match command {
            Command::Send { id, range } => return self.send(stack, client, id, range),
            Command::Consumed { id, bytes } => return self.consumed(stack, client, id, bytes),
            Command::UdpSend { id, remote, range, is_last } => {
                return self.udp_send(stack, client, id, (remote, range, is_last), now);
            }
            Command::Listen { id, local, shares } => {
                let listen = |service: &mut Self| {
                    let owners = service.listeners_at(&local);
                    service.evict(stack, owners, now);
                    service.listen_for(stack, client, (id, local, shares))
                };
                return self.open(client, id, listen);
            }
            Command::Connect { id, local, remote, options } => {
                let ends = (local, remote);
                let connect = |service: &mut Self| match service.check_place(stack, ends, now)? {
                    Some(worker) => {
                        service.clients[client].reply(Completion::Elsewhere { id, worker });
                        Ok(())
                    }
                    None => service.connect(stack, (client, id), ends, options, now),
                };
                return self.open(client, id, connect);
            }
            Command::UdpBind { id, local } => {
                let bind = |service: &mut Self| {
                    let owner = stack.udp_bound(local).and_then(|socket| service.udp.owner(socket));
                    service.evict(stack, owner, now);
                    service.udp_bind(stack, client, id, local)
                };
                return self.open(client, id, bind);
            }
            Command::Accept { id, count } => {
                if let Some(Object::Listener(key)) = self.object(client, id) {
                    self.permit(client, key, count);
                }
            }
            Command::Shutdown { id } => self.alive(client, id).into_iter().for_each(|id| stack.close(id)),
            Command::Abort { id } => self.alive(client, id).into_iter().for_each(|id| stack.abort(id)),
            Command::SetOptions { id, options } => {
                if let Some(id) = self.alive(client, id) {
                    stack.set_options(id, options.apply(stack.config().tcp));
                }
            }
            Command::UdpGroup { id, change } => self.change_group(stack, client, id, change, now),
            Command::UdpSetOptions { id, options } => self.udp_set_options(stack, client, id, options),
            Command::UdpConnect { id, remote } => self.udp_connect(stack, client, id, remote, now),
            Command::Close { id } => self.close(stack, client, id, now),
        }
        Ok(())
    }

    pub(super) fn object(&self, client: usize, id: u32) -> Option<Object> {
        self.clients.get(client)?.objects.get(&id).copied()
    }

    /// The stack's connection with this number, if it has not ended. Commands for others cross its end.
    fn alive(&self, client: usize, id: u32) -> Option<ConnectionId> {
        let Some(Object::Connection(key)) = self.object(client, id) else { return None };
        self.connections.get(key)?.stack
    }

    /// Opens a socket with a number that the client has chosen.
    fn open(
        &mut self,
        client: usize,
        id: u32,
        open: impl FnOnce(&mut Self) -> Result<(), Reason>,
    ) -> Result<(), Fault> {
        let objects = &self.clients[client].objects;
        if id >= ACCEPTED || objects.contains_key(&id) {
            return Err(Fault::Number);
        }
        let has_room = objects.len() < self.options.limits.sockets as usize;
        if let Err(reason) = if has_room { open(self) } else { Err(Reason::TooMany) } {
            self.clients[client].reply(Completion::Failed { id, reason });
        }
        Ok(())
    }

    /// Returns the worker that opens a connection, if it is another one: segments to a port that the client chose
    /// belong to the worker of their flow.
    fn check_place(
        &self,
        stack: &mut Stack<Buffer>,
        (local, remote): (Endpoint, Endpoint),
        now: Time,
    ) -> Result<Option<u32>, Reason> {
        if local.port == 0 {
            return Ok(None);
        }
        let owner = stack.owner_of_flow(local, remote, now)?.ok_or(Reason::NotLocal)?;
        Ok((owner != self.link.worker.0).then_some(owner.into()))
    }

    fn connect(
        &mut self,
        stack: &mut Stack<Buffer>,
        (client, id): (usize, u32),
        (local, remote): (Endpoint, Endpoint),
        options: StreamOptions,
        now: Time,
    ) -> Result<(), Reason> {
        let options = options.apply(stack.config().tcp);
        let connection = stack.connect(local, remote, options, now)?;
        stack.report_acks(connection, true);
        let ends = stack.endpoints(connection).unwrap_or((local, remote));
        let key = self.insert(Connection::new(connection, ends, Some((client, id))), connection);
        self.clients[client].objects.insert(id, Object::Connection(key));
        let (local, remote) = ends;
        self.clients[client].reply(Completion::Connecting { id, local, remote });
        Ok(())
    }

    pub(super) fn connected(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId) {
        let Some(key) = self.key(id) else { return };
        let connection = &mut self.connections[key];
        connection.announce = Announce::Connected;
        connection.ends = stack.endpoints(id).unwrap_or(connection.ends);
        self.statistics.connected += 1;
        self.mark(key);
    }

    #[inline]
    fn send(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        range: ArenaRange,
    ) -> Result<(), Fault> {
        let bytes = self.clients[client].channel.outbound(range).ok_or(Fault::Range)?;
        let Some(Object::Connection(key)) = self.object(client, id) else { return Ok(()) };
        let connection = &mut self.connections[key];
        let Some(stream) = connection.stack else { return Ok(()) };
        let limits = &self.options.limits;
        if !connection.count_send(range.len, limits.send_bytes, limits.sends) {
            return Err(Fault::Credit);
        }
        if stack.send(stream, Slice::new(bytes.into())) == Err(SendError::Full) {
            // The stack's send buffer is smaller than the limit that clients know.
            connection.closed = Fact::New(Reason::Memory);
            stack.abort(stream);
        }
        Ok(())
    }

    fn consumed(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        bytes: u32,
    ) -> Result<(), Fault> {
        let object = self.object(client, id);
        let channel = &mut self.clients[client].channel;
        let is_valid = match object {
            Some(Object::Connection(key)) => {
                let connection = &mut self.connections[key];
                if let Some(stream) = connection.stack {
                    stack.consumed(stream, bytes as usize);
                }
                connection.stream.give_back(&mut channel.free, bytes)
            }
            Some(Object::Udp(key)) => self.udp.give_back(key, &mut channel.free, bytes),
            _ => true,
        };
        for key in std::mem::take(&mut self.clients[client].starved) {
            self.mark(key);
        }
        is_valid.then_some(()).ok_or(Fault::Returned)
    }

    pub(super) fn close(&mut self, stack: &mut Stack<Buffer>, client: usize, id: u32, now: Time) {
        match self.object(client, id) {
            Some(Object::Connection(key)) => self.release(stack, client, key, now),
            Some(Object::Listener(key)) => {
                self.clients[client].objects.remove(&id);
                self.unlisten_for(stack, client, key);
            }
            Some(Object::Udp(key)) => {
                self.clients[client].objects.remove(&id);
                let free = &mut self.clients[client].channel.free;
                self.udp.close(stack, key, free, now);
            }
            None => return,
        }
        if !matches!(self.object(client, id), Some(Object::Connection(_))) {
            self.clients[client].reply(Completion::Closed { id, reason: Reason::Normally });
        }
    }

    /// Ends a connection as close(2) does: with a reset if received data was not read.
    fn release(&mut self, stack: &mut Stack<Buffer>, number: usize, key: usize, now: Time) {
        let (connection, client) = (&mut self.connections[key], &mut self.clients[number]);
        let is_unread = connection.stream.held() > 0 || !connection.waiting.is_empty();
        client.waiting -= connection.discard();
        connection.stream.clear(&mut client.channel.free);
        connection.is_released = true;
        match connection.stack {
            Some(id) if is_unread => stack.abort(id),
            Some(id) => {
                stack.close(id);
                let (linger, _) = self.options.limits.linger;
                self.lingering.push_back((Time(now.0 + linger.as_nanos() as u64), id));
            }
            None => {}
        }
        self.mark(key);
    }
}
