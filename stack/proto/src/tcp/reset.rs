//! Resets, and other segments without a connection.

use super::Seq;
use super::key::Key;
use super::segment::Segment;
use super::shared::{Io, Shared};
use crate::Payload;
use crate::ip::{Deferred, Header, Outgoing, PathId};
use wire::checksum::protocol;
use wire::{TcpBuilder, TcpFlags};

/// A segment without payload.
pub(crate) struct Bare {
    pub(crate) key: Key,
    pub(crate) builder: TcpBuilder,
}

/// The reset that answers a segment (RFC 9293 section 3.10.7.1).
pub(crate) fn reply(key: &Key, segment: &Segment) -> Bare {
    if segment.flags.has(TcpFlags::ACK) {
        return at(key, segment.ack);
    }
    let ack = segment.seq + segment.sequence_len();
    let flags = TcpFlags::RST.with(TcpFlags::ACK);
    let builder = TcpBuilder::new((key.local_port, key.remote_port), 0, ack.0, flags, 0);
    Bare { key: *key, builder }
}

/// A reset with this sequence number.
pub(crate) fn at(key: &Key, seq: Seq) -> Bare {
    let builder = TcpBuilder::new((key.local_port, key.remote_port), seq.0, 0, TcpFlags::RST, 0);
    Bare { key: *key, builder }
}

impl Bare {
    /// The packet, with its checksum.
    pub(crate) fn packet<P: Payload>(mut self, path: PathId) -> Outgoing<P> {
        let header = self.builder.finish();
        let pseudo = super::key::pseudo(self.key.local, self.key.remote);
        let mut sum = super::key::with_len(pseudo, header.len() as u32);
        sum.add(header);
        [header[16], header[17]] = sum.finish();
        Outgoing {
            path,
            protocol: protocol::TCP,
            ecn: 0,
            flow: 0,
            hop_limit: 64,
            header: Header::new(header),
            payload: alloc::vec::Vec::new(),
            may_fragment: false,
            deferred: Deferred::default(),
        }
    }
}

/// Sends a reset within the limit of the stack.
pub(crate) fn send<P: Payload>(path: PathId, reset: &Bare, shared: &mut Shared<P>, io: &mut Io<'_, P>) {
    if shared.rates.resets.allows(io.now) {
        io.counters.tcp_resets_out += 1;
        let packet = Bare { key: reset.key, builder: reset.builder }.packet(path);
        io.ip.send(packet, io.now, io.counters);
    } else {
        io.counters.rate_limited += 1;
    }
}
