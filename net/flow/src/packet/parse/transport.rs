//! Transport headers and Neighbor Discovery.

use super::Parser;
use crate::field::Field;
use wire::checksum::protocol;
use wire::{NdKind, SCTP_HEADER, Sctp, TCP_HEADER, UDP_HEADER};

/// Shortest ICMP and ICMPv6 message.
const ICMP_HEADER: usize = 8;
/// Type, code, checksum, flags and target address of a neighbor solicitation or advertisement.
const NEIGHBOR_HEADER: usize = 24;
/// Length of a link-layer address option of Ethernet, and unit of the length of options.
const OPTION: usize = 8;
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

impl Parser<'_> {
    /// Reads the header at `at` of a packet that is no later fragment. `VERSION` is that of IP.
    #[inline(always)]
    pub(super) fn transport<const VERSION: u8>(&mut self, at: usize, protocol: u8) -> Option<()> {
        let size = (self.layout.end as usize).saturating_sub(at);
        match (protocol, VERSION) {
            (protocol::TCP, _) if size >= TCP_HEADER => self.tcp(at, size),
            (protocol::UDP, _) if size >= UDP_HEADER => {
                let ports = self.bytes::<UDP_HEADER>(at)?;
                self.ports(at, [ports[0], ports[1], ports[2], ports[3]])
            }
            (protocol::SCTP, _) if size >= SCTP_HEADER => {
                let view = Sctp::new(self.head.get(at..)?)?;
                self.key.put(Field::SctpSrc, view.source_port().into());
                self.key.put(Field::SctpDst, view.destination_port().into());
                self.found(at)
            }
            (protocol::ICMP, 4) if size >= ICMP_HEADER => self.icmp(at).map(drop),
            (protocol::ICMPV6, 6) if size >= ICMP_HEADER => self.icmpv6(at, size),
            (protocol::TCP | protocol::UDP | protocol::SCTP | protocol::ICMP | protocol::ICMPV6, _) => {
                Some(())
            }
            _ => self.found(at),
        }
    }

    #[inline(always)]
    fn found(&mut self, at: usize) -> Option<()> {
        self.layout.transport = at as u16;
        Some(())
    }

    /// Fields of ports have the same place for all protocols.
    #[inline(always)]
    fn ports(&mut self, at: usize, [s0, s1, d0, d1]: [u8; 4]) -> Option<()> {
        self.key.put(Field::UdpSrc, u16::from_be_bytes([s0, s1]).into());
        self.key.put(Field::UdpDst, u16::from_be_bytes([d0, d1]).into());
        self.found(at)
    }

    #[inline]
    fn tcp(&mut self, at: usize, size: usize) -> Option<()> {
        let header = self.bytes::<TCP_HEADER>(at)?;
        if !(TCP_HEADER..=size).contains(&(usize::from(header[12] >> 4) * 4)) {
            return Some(());
        }
        self.key.put(Field::TcpFlags, u64::from(u16::from_be_bytes([header[12], header[13]]) & 0xfff));
        self.ports(at, [header[0], header[1], header[2], header[3]])
    }

    /// Returns type and code.
    fn icmp(&mut self, at: usize) -> Option<[u8; 2]> {
        let header = self.bytes::<ICMP_HEADER>(at)?;
        self.key.put(Field::IcmpType, header[0].into());
        self.key.put(Field::IcmpCode, header[1].into());
        self.found(at)?;
        Some([header[0], header[1]])
    }

    fn icmpv6(&mut self, at: usize, size: usize) -> Option<()> {
        let [kind, code] = self.icmp(at)?;
        let neighbor = [Some(NdKind::NeighborSolicitation), Some(NdKind::NeighborAdvertisement)];
        if code != 0 || !neighbor.contains(&NdKind::of(kind)) || size < NEIGHBOR_HEADER {
            return Some(());
        }
        let target = self.bytes::<16>(at + 8)?;
        self.key.set(Field::NdTarget, u128::from_be_bytes(target));
        self.layout.target = (at + 8) as u16;
        self.neighbor_options(at + NEIGHBOR_HEADER)
    }

    /// Reads link-layer address options, up to the first that is malformed. A repeated one makes the whole message
    /// invalid, so that none of its fields is set.
    fn neighbor_options(&mut self, mut at: usize) -> Option<()> {
        while at + OPTION <= self.layout.end as usize {
            let option = self.bytes::<OPTION>(at)?;
            let len = usize::from(option[1]) * OPTION;
            if len == 0 || at + len > self.layout.end as usize {
                break;
            }
            if matches!(option[0], SOURCE_ADDRESS | TARGET_ADDRESS)
                && len == OPTION
                && !self.address(at, option)
            {
                self.key.set(Field::NdTarget, 0);
                self.key.set(Field::NdSll, 0);
                self.key.set(Field::NdTll, 0);
                (self.layout.target, self.layout.source_address, self.layout.target_address) = (0, 0, 0);
                break;
            }
            at += len;
        }
        Some(())
    }

    /// Notes the address of an option at `at`. Returns `false` if it is the second of its kind.
    fn address(&mut self, at: usize, option: [u8; OPTION]) -> bool {
        let (place, field) = match option[0] {
            SOURCE_ADDRESS => (&mut self.layout.source_address, Field::NdSll),
            _ => (&mut self.layout.target_address, Field::NdTll),
        };
        if *place != 0 {
            return false;
        }
        *place = at as u16 + 2;
        self.key.put(field, u64::from_be_bytes(option) & 0xffff_ffff_ffff);
        true
    }
}
