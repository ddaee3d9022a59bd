//! ICMP errors about segments (RFC 9293 section 3.9.2.2, RFC 5927).

use super::connection::{Flags, State};
use super::input::Outcome;
use super::key::Key;
use super::shared::Io;
use super::{Seq, Tcp};
use crate::ip::{ErrorKind, TransportError};
use crate::{Closed, Payload};

impl<P: Payload> Tcp<P> {
    /// Processes an error about a segment that is in flight; others are ignored. Only a connection that is not
    /// established ends by one (RFC 5461).
    pub(crate) fn error(&mut self, error: &TransportError, io: &mut Io<'_, P>) {
        let key = Key::new(error.local, error.remote);
        let Some(index) = self.table.find(&key, |index| self.connections.get(index).map(|c| &c.key)) else {
            return;
        };
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(index) else { return };
        let seq = Seq(error.sequence);
        if seq.is_before(c.tx.una) || !seq.is_before(c.tx.nxt) {
            return;
        }
        let is_attempt = c.state == State::SynSent && c.flags.has(Flags::ACTIVE);
        let reason = match error.kind {
            // The next turn adapts the segment size and sends lost segments again.
            ErrorKind::TooBig(mtu) => {
                io.ip.shrink_path((error.local.address, error.remote.address), mtu, io.now);
                shared.drop_mtu_probe(c, seq);
                return shared.make_ready(index, c);
            }
            ErrorKind::Refused => Closed::Refused,
            ErrorKind::Unreachable => Closed::Unreachable,
        };
        if is_attempt {
            self.remove(index, Outcome::Close(reason), io);
        }
    }
}
