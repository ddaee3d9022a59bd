//! Translation of addresses and ports, also those of the packet that an ICMP error quotes.
//!
//! The transport checksum in a quoted packet stays as it is: receivers do not verify it, and most quotes end before it.

use super::fields::Place;
use super::sums::Covered;
use super::{ActionError, Rewriter};
use crate::field::{Field, frag};
use conntrack::{Rewrite, Tuple};
use std::net::IpAddr;
use wire::checksum::protocol;
use wire::{ICMP_HEADER, Ipv4, Ipv6};

/// Offset of the identifier in requests and replies of ICMP.
const IDENTIFIER: usize = 4;

/// Where a quoted packet has its source address, its destination address and its transport header.
struct Quote {
    addresses: [Place; 2],
    transport: usize,
}

impl Rewriter {
    /// Gives the packet translated addresses and ports.
    ///
    /// # Errors
    /// If the head is cut off before one of them.
    pub(crate) fn translate(&mut self, rewrite: &Rewrite) -> Result<(), ActionError> {
        match rewrite {
            Rewrite::Packet(tuple) => self.set_tuple(tuple),
            Rewrite::Error { source, destination, quoted } => {
                self.set_quoted(quoted)?;
                self.set_addresses(*source, *destination)
            }
            Rewrite::Segment { tuple, sequence, acknowledgement, text } => {
                self.set_tuple(tuple)?;
                self.move_numbers(*sequence, *acknowledgement)?;
                text.as_ref().map_or(Ok(()), |text| self.replace_text(text))
            }
        }
    }

    fn set_addresses(
        &mut self,
        source: Option<IpAddr>,
        destination: Option<IpAddr>,
    ) -> Result<(), ActionError> {
        let ends = [(source, Field::Ipv4Src, Field::Ipv6Src), (destination, Field::Ipv4Dst, Field::Ipv6Dst)];
        for (address, v4, v6) in ends {
            match address {
                Some(IpAddr::V4(address)) => self.set(v4, address.to_bits().into(), v4.full())?,
                Some(IpAddr::V6(address)) => self.set(v6, address.to_bits(), v6.full())?,
                None => {}
            }
        }
        Ok(())
    }

    fn set_tuple(&mut self, tuple: &Tuple) -> Result<(), ActionError> {
        self.set_addresses(Some(tuple.source()), Some(tuple.destination()))?;
        let ports = match tuple.protocol() {
            _ if self.key().get(Field::IpFrag) & u128::from(frag::LATER) != 0 => return Ok(()),
            protocol::TCP => [Field::TcpSrc, Field::TcpDst],
            protocol::UDP => [Field::UdpSrc, Field::UdpDst],
            protocol::SCTP => [Field::SctpSrc, Field::SctpDst],
            _ if tuple.message().is_some() => return self.set_identifier(tuple.ports().0),
            _ => return Ok(()),
        };
        self.set(ports[0], tuple.ports().0.into(), 0xffff)?;
        self.set(ports[1], tuple.ports().1.into(), 0xffff)
    }

    fn set_identifier(&mut self, id: u16) -> Result<(), ActionError> {
        let at = usize::from(self.layout().transport) + IDENTIFIER;
        self.set_word(at, id)
    }

    /// Sets 16 bits that the checksum of an ICMP message covers.
    fn set_word(&mut self, at: usize, value: u16) -> Result<(), ActionError> {
        self.bytes_at::<2>(at).ok_or(ActionError::NoHeader("complete ICMP message"))?;
        let place = Place { covered: Covered::Transport, ..Place::plain(at, 2, 0) };
        self.store(&place, value.into(), 0xffff)
    }

    fn set_quoted(&mut self, tuple: &Tuple) -> Result<(), ActionError> {
        let quote = self.quote(tuple.is_v6()).ok_or(ActionError::NoHeader("complete quoted packet"))?;
        for (place, address) in quote.addresses.iter().zip([tuple.source(), tuple.destination()]) {
            let (bits, mask) = match address {
                IpAddr::V4(address) => (address.to_bits().into(), u32::MAX.into()),
                IpAddr::V6(address) => (address.to_bits(), u128::MAX),
            };
            self.store(place, bits, mask)?;
        }
        let (source, destination) = tuple.ports();
        match tuple.protocol() {
            protocol::TCP | protocol::UDP | protocol::SCTP => {
                self.set_word(quote.transport, source)?;
                self.set_word(quote.transport + 2, destination)
            }
            _ if tuple.message().is_some() => self.set_word(quote.transport + IDENTIFIER, source),
            _ => Ok(()),
        }
    }

    fn quote(&mut self, is_v6: bool) -> Option<Quote> {
        let start = usize::from(self.layout().transport) + ICMP_HEADER;
        let packet = self.head().get(start..)?;
        if is_v6 {
            let at = start + Ipv6::new(packet)?.upper_layer()?.at;
            let place = |at| Place { covered: Covered::Transport, ..Place::plain(at, 16, 0) };
            return Some(Quote { addresses: [place(start + 8), place(start + 24)], transport: at });
        }
        let at = start + Ipv4::new(packet)?.header_len();
        // The change of the quoted header's checksum makes up for that of the address in the checksum of the message.
        let place = |at| Place { header: start, ..Place::plain(at, 4, 0) };
        Some(Quote { addresses: [place(start + 12), place(start + 16)], transport: at })
    }
}
