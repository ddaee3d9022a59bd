//! Listeners, and connections until a client has them.

use super::Service;
use super::client::Object;
use super::connection::{Announce, Connection};
use crate::accept::AcceptQueues;
use crate::entry::Completion;
use crate::link::Report;
use crate::{Fault, Reason};
use host::Buffer;
use stack::tcp::{ConnectionId, ListenerId};
use stack::{Endpoint, Stack};
use std::hash::BuildHasher;

/// A client at a listener.
#[derive(Debug)]
struct Member {
    client: usize,
    id: u32,
    /// Connections that the client may still accept.
    credit: u32,
}

/// An endpoint on which clients listen.
#[derive(Debug)]
pub(super) struct Listener {
    local: Endpoint,
    stack: ListenerId,
    /// User of the clients, if they share the endpoint.
    shared_by: Option<u32>,
    queues: AcceptQueues<usize>,
    members: Vec<Member>,
}

impl Service {
    pub(super) fn listen_for(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        (id, mut local, shares): (u32, Endpoint, bool),
    ) -> Result<(), Reason> {
        let shared_by = shares.then_some(self.clients[client].uid);
        let key = if let Some(&key) = self.by_end.get(&local) {
            let listener = &self.listeners[key];
            let is_member = listener.members.iter().any(|member| member.client == client);
            if shared_by.is_none() || listener.shared_by != shared_by || is_member {
                return Err(Reason::InUse);
            }
            key
        } else {
            let options = stack.config().tcp;
            let listening = stack.listen(local, options)?;
            local = stack.listener(listening).unwrap_or(local);
            let listener = Listener {
                local,
                stack: listening,
                shared_by,
                queues: AcceptQueues::new(self.options.accept, self.options.limits.backlog as usize),
                members: Vec::new(),
            };
            let key = self.listeners.insert(listener);
            self.by_end.insert(local, key);
            self.by_listener.insert(self.listeners[key].stack, key);
            key
        };
        let listener = &mut self.listeners[key];
        listener.queues.join(client as u32);
        listener.members.push(Member { client, id, credit: 0 });
        self.clients[client].objects.insert(id, Object::Listener(key));
        self.clients[client].reply(Completion::Bound { id, local });
        Ok(())
    }

    /// Clients at a listener, with the number that each has for it.
    pub(super) fn listeners_at(&self, local: &Endpoint) -> Vec<(usize, u32)> {
        let listener = self.by_end.get(local).map(|key| &self.listeners[*key]);
        let members = listener.into_iter().flat_map(|listener| &listener.members);
        members.map(|member| (member.client, member.id)).collect()
    }

    /// A connection is established.
    pub(super) fn accepted(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, listener: ListenerId) {
        let (Some(&key), Some(ends)) = (self.by_listener.get(&listener), stack.endpoints(id)) else {
            return stack.abort(id);
        };
        let hash = self.hasher.hash_one(ends);
        let connection = self.insert(Connection::new(id, ends, None), id);
        stack.report_acks(id, true);
        if self.listeners[key].queues.push(connection, hash).is_err() {
            self.drop_unaccepted(stack, connection);
        }
        self.deliver(key);
    }

    /// Permits a client to accept more connections.
    pub(super) fn permit(&mut self, client: usize, key: usize, count: u32) {
        let members = &mut self.listeners[key].members;
        if let Some(member) = members.iter_mut().find(|member| member.client == client) {
            member.credit = member.credit.saturating_add(count).min(self.options.limits.backlog);
        }
        self.deliver(key);
    }

    /// Passes waiting connections to clients that may accept them.
    fn deliver(&mut self, key: usize) {
        for i in 0..self.listeners[key].members.len() {
            loop {
                let Listener { queues, members, .. } = &mut self.listeners[key];
                let member = &mut members[i];
                let has_room =
                    self.clients[member.client].objects.len() < self.options.limits.sockets as usize;
                if member.credit == 0 || !has_room {
                    break;
                }
                let Some(connection) = queues.take(member.client as u32) else { break };
                member.credit -= 1;
                let (client, id) = (member.client, member.id);
                self.assign(connection, client, id);
            }
        }
    }

    fn assign(&mut self, key: usize, number: usize, listener: u32) {
        let (Some(connection), Some(client)) = (self.connections.get_mut(key), self.clients.get_mut(number))
        else {
            return;
        };
        connection.client = Some(number);
        connection.id = client.next_number();
        connection.announce = Announce::Accepted { listener };
        client.objects.insert(connection.id, Object::Connection(key));
        let waiting: u32 = connection.waiting.iter().map(super::connection::charge).sum();
        self.unaccepted -= waiting;
        client.waiting += waiting;
        self.statistics.accepted += 1;
        self.mark(key);
    }

    /// Removes a client from a listener, which ends with its last client.
    pub(super) fn unlisten_for(&mut self, stack: &mut Stack<Buffer>, client: usize, key: usize) {
        let listener = &mut self.listeners[key];
        listener.members.retain(|member| member.client != client);
        let without = listener.queues.leave(client as u32);
        if listener.members.is_empty() {
            stack.unlisten(listener.stack);
            self.by_end.remove(&listener.local);
            self.by_listener.remove(&listener.stack);
            self.listeners.remove(key);
        } else {
            self.deliver(key);
        }
        for connection in without {
            self.drop_unaccepted(stack, connection);
        }
    }

    fn drop_unaccepted(&mut self, stack: &mut Stack<Buffer>, key: usize) {
        let Some(mut connection) = self.connections.try_remove(key) else { return };
        self.unaccepted -= connection.discard();
        if let Some(id) = connection.stack {
            stack.abort(id);
        }
    }

    /// Ends a client's connection with the service, on all workers.
    pub(super) fn fail(&mut self, client: usize, fault: Fault) {
        let Some(client) = self.clients.get_mut(client) else { return };
        if client.fault.is_none() {
            client.fault = Some(fault);
            self.link.report(Report::Fault { client: client.number, fault });
        }
    }
}
