//! One packet under reassembly.

use super::Reassembled;
use super::fragment::{DESTINATION, FRAGMENT, Fragment, HOP_BY_HOP, MAX_EXTENSIONS, ROUTING};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use wire::checksum::protocol;
use wire::{FRAGMENT_HEADER, IPV6_HEADER, rewrite_ipv4};

/// Code of ICMPv6 Parameter Problem: the first fragment has no complete header chain (RFC 8200 section 4.5).
const INCOMPLETE_CHAIN: u8 = 3;
/// ECN field: congestion experienced.
const CE: u8 = 3;

/// Reason why a fragment is not added.
pub(super) enum Fault {
    /// Only the fragment is discarded.
    Fragment(Reassembled),
    /// The packet is discarded.
    Packet,
    /// An equal fragment is held.
    Duplicate,
}

/// Bytes of a fragment; those of the first one begin with its headers.
struct Piece {
    start: usize,
    end: usize,
    bytes: Box<[u8]>,
}

impl Piece {
    fn payload(&self) -> &[u8] {
        self.bytes.get(self.bytes.len() - (self.end - self.start)..).unwrap_or_default()
    }
}

/// Headers of the first fragment.
#[derive(Clone, Copy)]
struct Headers {
    is_v4: bool,
    len: usize,
    announced_at: usize,
    protocol: u8,
}

/// A packet under reassembly.
#[derive(Default)]
pub(super) struct Packet {
    /// In order of their offset, without overlap.
    pieces: Vec<Piece>,
    headers: Option<Headers>,
    /// Length of the fragmented part, known with the last fragment.
    total: Option<usize>,
    /// Bytes of the fragmented part that are held.
    held: usize,
    /// A bit for each value of the ECN field that fragments had.
    ecn: u8,
}

impl Packet {
    /// Bytes that count towards the limit.
    pub(super) fn cost(&self) -> usize {
        self.held + self.headers.map_or(0, |headers| headers.len)
    }

    /// Adds a fragment. Returns whether the packet is complete.
    pub(super) fn add(
        &mut self,
        fragment: &Fragment<'_>,
        copy: impl FnOnce(&mut [u8]),
        max_fragments: usize,
    ) -> Result<bool, Fault> {
        let at = self.pieces.partition_point(|piece| piece.start < fragment.offset);
        self.check_end(fragment)?;
        if self.is_duplicate(at, fragment) {
            return Err(Fault::Duplicate);
        }
        if self.overlaps(at, fragment) || self.pieces.len() >= max_fragments {
            return Err(Fault::Packet);
        }
        let bytes = read(fragment, copy)?;
        if fragment.offset == 0 {
            self.headers = Some(Headers {
                is_v4: fragment.is_v4(),
                len: fragment.headers.len(),
                announced_at: fragment.announced_at,
                protocol: fragment.protocol,
            });
        }
        if !fragment.more {
            self.total = Some(fragment.end());
        }
        self.pieces.insert(at, Piece { start: fragment.offset, end: fragment.end(), bytes });
        self.held += fragment.len;
        self.ecn |= 1 << fragment.ecn();
        Ok(self.total == Some(self.held))
    }

    /// An equal copy is dropped without consequence, as RFC 8200 section 4.5 allows.
    fn is_duplicate(&self, at: usize, fragment: &Fragment<'_>) -> bool {
        self.pieces.get(at).is_some_and(|piece| (piece.start, piece.end) == (fragment.offset, fragment.end()))
    }

    fn overlaps(&self, at: usize, fragment: &Fragment<'_>) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.pieces.get(before));
        before.is_some_and(|piece| piece.end > fragment.offset)
            || self.pieces.get(at).is_some_and(|piece| piece.start < fragment.end())
    }

    /// All fragments must agree on the end of the packet.
    fn check_end(&self, fragment: &Fragment<'_>) -> Result<(), Fault> {
        let end = fragment.end();
        let agrees = match self.total {
            Some(total) if fragment.more => end < total,
            Some(total) => end == total,
            None if fragment.more => true,
            None => self.pieces.last().is_none_or(|last| last.end <= fragment.offset),
        };
        if agrees { Ok(()) } else { Err(Fault::Packet) }
    }

    /// The complete packet behind the bytes `link`. Returns `None` if it is too long, or if the ECN fields contradict each other (RFC 3168
    /// section 5.3).
    pub(super) fn finish(&self, link: &[u8]) -> Option<Vec<u8>> {
        let (headers, total) = (self.headers?, self.total?);
        let first = self.pieces.first()?.bytes.get(..headers.len)?;
        let kept = if headers.is_v4 { headers.len } else { headers.len.checked_sub(FRAGMENT_HEADER)? };
        let mut frame = Vec::with_capacity(link.len() + kept + total);
        frame.extend_from_slice(link);
        frame.extend_from_slice(first.get(..kept)?);
        for piece in &self.pieces {
            frame.extend_from_slice(piece.payload());
        }
        let packet = frame.get_mut(link.len()..)?;
        let is_ce = self.is_congested()?;
        let finished =
            if headers.is_v4 { finish_v4(packet, is_ce) } else { finish_v6(packet, headers, is_ce) };
        finished?;
        Some(frame)
    }

    /// Whether a fragment experienced congestion. Returns `None` if only some were capable of ECN.
    fn is_congested(&self) -> Option<bool> {
        match self.ecn {
            1 => Some(false),
            mixed if mixed & 1 != 0 => None,
            capable => Some(capable & 1 << CE != 0),
        }
    }

    /// The first fragment as it was received.
    pub(super) fn into_first(self) -> Option<Vec<u8>> {
        self.headers?;
        self.pieces.into_iter().next().map(|piece| piece.bytes.into_vec())
    }
}

/// Copies a fragment, the first one with its headers.
fn read(fragment: &Fragment<'_>, copy: impl FnOnce(&mut [u8])) -> Result<Box<[u8]>, Fault> {
    if fragment.offset != 0 {
        let mut bytes = vec![0; fragment.len];
        copy(&mut bytes);
        return Ok(bytes.into());
    }
    let mut bytes = vec![0; fragment.headers.len() + fragment.len];
    let (headers, payload) = bytes.split_at_mut(fragment.headers.len());
    headers.copy_from_slice(fragment.headers);
    copy(payload);
    if !has_transport_header(fragment, payload) {
        return Err(Fault::Fragment(fragment.refuse(INCOMPLETE_CHAIN, 0)));
    }
    Ok(bytes.into())
}

/// Whether the first fragment has the whole header of TCP, UDP or ICMP, behind any extension headers (RFC 7112;
/// "tiny fragments", RFC 1858).
fn has_transport_header(fragment: &Fragment<'_>, payload: &[u8]) -> bool {
    let (mut protocol, mut rest) = (fragment.protocol, payload);
    for _ in 0..MAX_EXTENSIONS {
        match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION if !fragment.is_v4() => {
                let [next, len, ..] = *rest else { return false };
                let Some(after) = rest.get(8 + usize::from(len) * 8..) else { return false };
                (protocol, rest) = (next, after);
            }
            FRAGMENT if !fragment.is_v4() => return false,
            _ => return rest.len() >= transport_header(protocol),
        }
    }
    false
}

/// Minimum length of a transport header in bytes.
const fn transport_header(protocol: u8) -> usize {
    const ICMP: u8 = 1;
    const ICMPV6: u8 = 58;
    match protocol {
        protocol::TCP => 20,
        protocol::UDP | ICMP | ICMPV6 => 8,
        _ => 0,
    }
}

fn finish_v4(packet: &mut [u8], is_ce: bool) -> Option<()> {
    let total_len = u16::try_from(packet.len()).ok()?;
    let [_, tos, _, _, id_high, id_low, flags, offset, ..] = packet else { return None };
    let identification = u16::from_be_bytes([*id_high, *id_low]);
    (*flags, *offset) = (0, 0);
    *tos |= if is_ce { CE } else { 0 };
    rewrite_ipv4(packet, total_len, identification);
    Some(())
}

fn finish_v6(packet: &mut [u8], headers: Headers, is_ce: bool) -> Option<()> {
    let payload_len = u16::try_from(packet.len().checked_sub(IPV6_HEADER)?).ok()?;
    packet.get_mut(4..6)?.copy_from_slice(&payload_len.to_be_bytes());
    *packet.get_mut(1)? |= if is_ce { CE << 4 } else { 0 };
    *packet.get_mut(headers.announced_at)? = headers.protocol;
    Some(())
}
