//! Removal of clients: a bounded number of sockets in each round, so that other clients do not wait for it, and those
//! whose address another client binds.

use super::client::Object;
use super::{Client, Service};
use crate::Fault;
use crate::link::Report;
use host::Buffer;
use stack::{Stack, Time};

impl Service {
    /// Continues the removal of a client that has a fault, by at most `control` sockets, which it reduces. Returns
    /// whether there was any work.
    pub(super) fn remove_faulty(
        &mut self,
        stack: &mut Stack<Buffer>,
        key: usize,
        control: &mut u32,
        now: Time,
    ) -> bool {
        let client = &self.clients[key];
        let Some(fault) = client.fault else { return false };
        let objects = client.objects.iter().take(*control as usize);
        let some: Vec<_> = objects.map(|(id, object)| (*id, *object)).collect();
        *control -= some.len() as u32;
        for (id, object) in some {
            if !matches!(object, Object::Connection(_)) || fault == Fault::Left {
                self.close(stack, key, id, now);
            }
            self.clients[key].objects.remove(&id);
            self.abandon(stack, object);
        }
        if self.clients[key].objects.is_empty() {
            let client = self.clients.remove(key).number;
            self.link.report(Report::Removed { client });
        }
        true
    }

    /// Closes those of the sockets whose clients have ended, before another client binds their address. A socket is
    /// named by its client and number.
    pub(super) fn evict(
        &mut self,
        stack: &mut Stack<Buffer>,
        sockets: impl IntoIterator<Item = (usize, u32)>,
        now: Time,
    ) {
        for (client, id) in sockets {
            if self.clients.get(client).is_some_and(Client::has_ended) {
                self.fail(client, Fault::Left);
                self.close(stack, client, id, now);
            }
        }
    }

    /// Removes a connection. One that was not closed is reset.
    fn abandon(&mut self, stack: &mut Stack<Buffer>, object: Object) {
        let Object::Connection(key) = object else { return };
        let Some(connection) = self.connections.try_remove(key) else { return };
        if let Some(id) = connection.stack.filter(|_| !connection.is_released) {
            stack.abort(id);
        }
    }
}
