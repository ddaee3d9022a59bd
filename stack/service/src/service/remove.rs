//! Removal of clients: a bounded number of sockets in each round, so that other clients do not wait for it.

use super::Service;
use super::client::Object;
use crate::Fault;
use host::Buffer;
use stack::{Stack, Time};

impl Service {
    /// Continues the removal of a client that has a fault. Returns whether there was any work.
    pub(super) fn remove_faulty(&mut self, stack: &mut Stack<Buffer>, key: usize, now: Time) -> bool {
        let client = &self.clients[key];
        let Some(fault) = client.fault else { return false };
        let limit = self.options.limits.commands as usize;
        let some: Vec<_> = client.objects.iter().take(limit).map(|(id, object)| (*id, *object)).collect();
        for (id, object) in some {
            if !matches!(object, Object::Connection(_)) || fault == Fault::Left {
                self.close(stack, key, id, now);
            }
            self.clients[key].objects.remove(&id);
            self.abandon(stack, object);
        }
        if self.clients[key].objects.is_empty() {
            self.clients.remove(key);
            *self.statistics.left.entry(fault).or_default() += 1;
            (self.options.on_client)(&format!("client {key} removed: {fault}"));
        }
        true
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
