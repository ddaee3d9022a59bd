//! Packets that are passed between this layer and the transport protocols.

use super::{Deferred, InterfaceId, PathId};
use crate::{Address, Endpoint, Slice};
use alloc::vec::Vec;

/// A transport packet for this host, in a received frame. Header and lengths are valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) interface: InterfaceId,
    pub(crate) source: Address,
    pub(crate) destination: Address,
    /// Protocol number (IANA).
    pub(crate) protocol: u8,
    /// Offset of the transport header from the start of the frame.
    pub(crate) transport: usize,
    /// End of the transport payload from the start of the frame; padding may follow.
    pub(crate) end: usize,
    /// ECN field (RFC 3168): the low two bits of the traffic class.
    pub(crate) ecn: u8,
    /// Whether it was sent to a multicast or broadcast address of the link or the network.
    pub(crate) is_group: bool,
}

/// An ICMP error about a packet of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransportError {
    pub(crate) kind: ErrorKind,
    /// Protocol, addresses and ports of the packet that was sent.
    pub(crate) protocol: u8,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    /// The four bytes after the ports: the sequence number for TCP.
    pub(crate) sequence: u32,
}

/// Kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Network or host unreachable, time exceeded: may be temporary (RFC 1122 section 4.2.3.9, RFC 5461).
    Unreachable,
    /// Port or protocol unreachable.
    Refused,
    /// The path MTU is at most this; already recorded for the path.
    TooBig(u16),
}

/// A packet of the stack itself: replies, datagrams, and the first packets of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<P> {
    pub(crate) path: PathId,
    pub(crate) protocol: u8,
    pub(crate) ecn: u8,
    /// IPv6 flow label (RFC 6437), 20 bits; 0 for packets of no flow.
    pub(crate) flow: u32,
    pub(crate) hop_limit: u8,
    /// Transport header, complete with its checksum over header and payload unless that is deferred.
    pub(crate) header: Header,
    pub(crate) payload: Vec<Slice<P>>,
    /// Whether the packet may be fragmented if it is longer than the path MTU; otherwise it is dropped.
    pub(crate) may_fragment: bool,
    pub(crate) deferred: Deferred,
}

/// A transport header of up to 64 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) bytes: [u8; 64],
    pub(crate) len: u8,
}

impl Header {
    /// Copies a header of at most 64 bytes; a longer one is cut.
    pub(crate) fn new(header: &[u8]) -> Self {
        let (mut bytes, len) = ([0; 64], header.len().min(64));
        bytes[..len].copy_from_slice(&header[..len]);
        Self { bytes, len: len as u8 }
    }
}
