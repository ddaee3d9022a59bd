//! Multicast memberships and settings of clients' UDP sockets.

use super::Service;
use super::client::Object;
use crate::entry::{Completion, GroupChange};
use crate::{DatagramOptions, Reason};
use host::Buffer;
use stack::{Stack, Time};

impl Service {
    /// Joins or leaves a group, and answers.
    pub(super) fn change_group(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        change: GroupChange,
        now: Time,
    ) {
        let done = match self.object(client, id) {
            Some(Object::Udp(key)) if change.joins => self.join(stack, client, key, change, now),
            Some(Object::Udp(key)) => self.leave(stack, key, change, now),
            _ => Err(Reason::NotConnected),
        };
        let reason = done.err();
        self.clients[client].reply(Completion::Answer { id, request: change.request, reason });
    }

    fn join(
        &mut self,
        stack: &mut Stack<Buffer>,
        client: usize,
        key: usize,
        GroupChange { group, local, .. }: GroupChange,
        now: Time,
    ) -> Result<(), Reason> {
        let interface = if local.is_unspecified() {
            None
        } else {
            Some(stack.interface_of(local).ok_or(Reason::NotLocal)?)
        };
        let ((own, all), (most, most_of_all)) = (self.udp.groups(client), self.options.limits.groups);
        if own >= most || all >= most_of_all {
            return Err(Reason::TooMany);
        }
        let socket = &mut self.udp.sockets[key];
        if !stack.udp_join(socket.stack, interface, group, now)? {
            return Err(Reason::InUse);
        }
        socket.groups += 1;
        Ok(())
    }

    fn leave(
        &mut self,
        stack: &mut Stack<Buffer>,
        key: usize,
        GroupChange { group, local, .. }: GroupChange,
        now: Time,
    ) -> Result<(), Reason> {
        let interface = if local.is_unspecified() { None } else { stack.interface_of(local) };
        let socket = &mut self.udp.sockets[key];
        if !stack.udp_leave(socket.stack, interface, group, now)? {
            return Err(Reason::NotLocal);
        }
        socket.groups -= 1;
        Ok(())
    }

    /// Changes the settings of a socket. Nothing to do if it was closed meanwhile.
    pub(super) fn udp_set_options(
        &self,
        stack: &mut Stack<Buffer>,
        client: usize,
        id: u32,
        options: DatagramOptions,
    ) {
        let Some(Object::Udp(key)) = self.object(client, id) else { return };
        let socket = self.udp.sockets[key].stack;
        if let Some(base) = stack.udp_options(socket) {
            // The socket exists.
            let _ = stack.udp_set_options(socket, options.apply(base));
        }
    }
}
