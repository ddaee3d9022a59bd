//! Checksums after a change of a header.

use super::{Rewriter, WINDOW};
use crate::field::Field;
use wire::checksum::{protocol, update};
use wire::{SCTP_CHECKSUM, crc32c_update};

/// Offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// Bytes around a change, before and after it.
pub(super) struct Change {
    pub(super) old: [u8; WINDOW],
    pub(super) new: [u8; WINDOW],
}

/// Part of a transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covered {
    /// Nothing.
    No,
    /// The pseudo-header: addresses.
    Pseudo,
    /// The transport header and its payload.
    Transport,
    /// A port of SCTP.
    SctpPort,
}

impl Rewriter {
    /// Updates the checksum of the IPv4 header at `header`.
    pub(super) fn update_header(&mut self, header: usize, change: &Change) {
        self.update_sum(header + IPV4_CHECKSUM, change);
    }

    /// Updates the checksum of the transport header, if the packet has one.
    pub(super) fn update_transport(&mut self, covered: Covered, change: &Change) {
        let (at, protocol) = (usize::from(self.layout.transport), self.key.get(Field::IpProto) as u8);
        let offset = match protocol {
            protocol::TCP => 16,
            protocol::UDP => 6,
            protocol::ICMP if covered == Covered::Transport => 2,
            protocol::ICMPV6 => 2,
            _ => return,
        };
        if at == 0 {
            return;
        }
        if self.partial == Some((self.start + at, offset)) {
            // The sender of the offload adds everything but the pseudo-header.
            if covered == Covered::Pseudo {
                self.update_partial(at + offset, change);
            }
            return;
        }
        let is_udp = protocol == protocol::UDP;
        if is_udp && self.bytes_at(at + offset) == Some([0, 0]) {
            return;
        }
        self.update_sum(at + offset, change);
        if is_udp && self.bytes_at(at + offset) == Some([0, 0]) {
            self.overwrite(at + offset, [0xff, 0xff]);
        }
    }

    fn update_sum(&mut self, at: usize, change: &Change) {
        if let Some(sum) = self.bytes_at(at) {
            self.overwrite(at, update(sum, &change.old, &change.new));
        }
    }

    /// A partial checksum is the sum itself, not its complement.
    pub(super) fn update_partial(&mut self, at: usize, change: &Change) {
        if let Some(sum) = self.bytes_at::<2>(at) {
            let updated = update(sum.map(|byte| !byte), &change.old, &change.new);
            self.overwrite(at, updated.map(|byte| !byte));
        }
    }

    /// Updates the CRC of an SCTP packet after a change of the port at `at`. The rest of the packet is not read.
    pub(super) fn update_crc(&mut self, at: usize, change: &Change) {
        let transport = usize::from(self.layout.transport);
        if self.partial == Some((self.start + transport, SCTP_CHECKSUM)) {
            return;
        }
        if let Some(crc) = self.bytes_at(transport + SCTP_CHECKSUM) {
            let following = (self.layout.end as usize).saturating_sub(at + 2);
            let updated = crc32c_update(crc, &change.old[..2], &change.new[..2], following);
            self.overwrite(transport + SCTP_CHECKSUM, updated);
        }
    }
}
