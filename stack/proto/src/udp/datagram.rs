//! Datagrams to send.

use super::{Sum, UDP_HEADER, UdpError, UdpOptions, protocol};
use crate::ip::{Deferred, Header, Outgoing, PathId};
use crate::{Address, Endpoint, Payload, Slice};
use alloc::vec::Vec;
use wire::{IPV4_HEADER, udp_header};

/// Sum of the pseudo header of a datagram with `len` bytes of header and payload.
pub(super) fn pseudo(source: Address, destination: Address, len: u32) -> Sum {
    let mut sum = Sum::pseudo(source.wire(), protocol::UDP, len);
    sum.add(destination.wire());
    sum
}

/// Maximum payload of a datagram in bytes, with or without fragmentation: limited by the length fields of IP and UDP.
const fn longest(to: Address) -> u16 {
    let ip = if to.is_v4() { IPV4_HEADER } else { 0 };
    u16::MAX - (ip + UDP_HEADER) as u16
}

/// A datagram, ready for the IP layer. Its checksum is left to the link. With `segment`, the payload is that of several
/// datagrams with so many bytes each.
pub(crate) fn datagram<P: Payload>(
    path: PathId,
    from: Endpoint,
    to: Endpoint,
    options: UdpOptions,
    payload: Vec<Slice<P>>,
    segment: u16,
) -> Result<Outgoing<P>, UdpError> {
    let len = payload.iter().fold(0_usize, |len, slice| len.saturating_add(slice.len()));
    if len > usize::from(longest(to.address)) {
        return Err(UdpError::TooLong(longest(to.address)));
    }
    let len = (UDP_HEADER + len) as u16;
    let sum = pseudo(from.address, to.address, len.into());
    let is_group = to.address.is_multicast();
    Ok(Outgoing {
        path,
        protocol: protocol::UDP,
        ecn: options.ecn & 3,
        flow: 0,
        hop_limit: if is_group { options.group_hop_limit } else { options.hop_limit },
        header: header(udp_header(from.port, to.port, len, sum.partial())),
        payload,
        may_fragment: options.may_fragment && segment == 0,
        deferred: Deferred { is_partial: true, segment },
    })
}

fn header(fields: [u8; UDP_HEADER]) -> Header {
    let mut bytes = [0; 64];
    bytes[..UDP_HEADER].copy_from_slice(&fields);
    Header { bytes, len: UDP_HEADER as u8 }
}
