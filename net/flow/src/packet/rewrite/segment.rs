//! TCP segments of control connections: sequence numbers, and the text of a message.

use super::fields::Place;
use super::sums::{Change, Covered};
use super::{ActionError, Rewriter, WINDOW};
use crate::field::Field;
use conntrack::Text;
use wire::Tcp;
use wire::checksum::{Sum, protocol};

/// Offsets in the TCP header.
const SEQUENCE: usize = 4;
const ACKNOWLEDGEMENT: usize = 8;
const CHECKSUM: usize = 16;
const OPTIONS: usize = 20;
/// Kinds of options (RFC 9293 section 3.1, RFC 2018).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const SACK: u8 = 5;

/// A complete segment.
#[derive(Clone, Copy)]
struct Segment {
    network: usize,
    transport: usize,
    payload: usize,
    end: usize,
    is_v4: bool,
}

impl Rewriter {
    /// Sets sequence and acknowledgement number. Selective acknowledgements, whose numbers would be wrong, become
    /// no-operations: a receiver may give none (RFC 2018 section 8).
    pub(super) fn move_numbers(
        &mut self,
        sequence: u32,
        acknowledgement: Option<u32>,
    ) -> Result<(), ActionError> {
        let at = usize::from(self.layout().transport);
        let header = self.tcp_header(at).ok_or(ActionError::NoHeader("complete TCP header"))?;
        let mut set = |offset, number: u32| {
            let place = Place { covered: Covered::Transport, ..Place::plain(at + offset, 4, 0) };
            self.store(&place, number.into(), u32::MAX.into())
        };
        set(SEQUENCE, sequence)?;
        if let Some(number) = acknowledgement {
            set(ACKNOWLEDGEMENT, number)?;
        }
        self.remove_sack(at, header)
    }

    /// Length of the TCP header at `at`, if all of it is in the head.
    fn tcp_header(&self, at: usize) -> Option<usize> {
        let segment = self.head().get(at..).filter(|_| at > 0)?;
        let len = Tcp::new(segment)?.header_len();
        (len <= segment.len()).then_some(len)
    }

    fn remove_sack(&mut self, at: usize, header: usize) -> Result<(), ActionError> {
        let mut options = [0; 64];
        let options = &mut options[..header - OPTIONS];
        options.copy_from_slice(&self.head()[at + OPTIONS..at + header]);
        erase_sack(options);
        for (word, place) in options.as_chunks::<2>().0.iter().zip((at + OPTIONS..).step_by(2)) {
            let place = Place { covered: Covered::Transport, ..Place::plain(place, 2, 0) };
            self.store(&place, u16::from_be_bytes(*word).into(), 0xffff)?;
        }
        Ok(())
    }

    /// Replaces a text of the payload. A segment whose checksum is wrong stays as it is.
    ///
    /// # Errors
    /// If the segment is not complete in the head, or becomes too long.
    pub(super) fn replace_text(&mut self, text: &Text) -> Result<(), ActionError> {
        let segment = self.segment().ok_or(ActionError::NoHeader("complete TCP segment"))?;
        let (at, old) = (segment.payload + usize::from(text.at), usize::from(text.len));
        if at + old > segment.end {
            return Err(ActionError::NoHeader("complete TCP segment"));
        }
        let is_partial = self.partial == Some((self.start + segment.transport, CHECKSUM));
        if !is_partial && self.sum(segment).finish() != [0, 0] {
            return Ok(());
        }
        let new = text.to_string();
        let new = new.as_bytes();
        let (same, more) = new.split_at(new.len().min(old));
        self.overwrite_bytes(at, same);
        self.resize(at + same.len(), old - same.len(), more)?;
        let len = (segment.end - segment.transport) - old + new.len();
        self.set_lengths(segment, is_partial, len)
    }

    fn segment(&mut self) -> Option<Segment> {
        let layout = *self.layout();
        let (network, transport, end) = (layout.network.into(), layout.transport.into(), layout.end as usize);
        let is_v4 = self.key().get(Field::EthType) == 0x0800;
        let payload = transport + self.tcp_header(transport)?;
        let is_whole = (payload..=self.head().len()).contains(&end) && !layout.is_routed;
        is_whole.then_some(Segment { network, transport, payload, end, is_v4 })
    }

    /// Sum of the segment and its pseudo header.
    fn sum(&self, Segment { network, transport, end, is_v4, .. }: Segment) -> Sum {
        let (head, addresses) = (self.head(), if is_v4 { 12..20 } else { 8..40 });
        let addresses = &head[network + addresses.start..network + addresses.end];
        let mut sum = Sum::pseudo(addresses, protocol::TCP, (end - transport) as u32);
        sum.add(&head[transport..end]);
        sum
    }

    fn overwrite_bytes(&mut self, at: usize, new: &[u8]) {
        let place = self.start + at;
        self.bytes[place..place + new.len()].copy_from_slice(new);
        self.changed.include(at, place + new.len());
    }

    /// Replaces `old` bytes at `at` by others. Everything before them moves.
    fn resize(&mut self, at: usize, old: usize, new: &[u8]) -> Result<(), ActionError> {
        let start = (self.start + old).checked_sub(new.len()).ok_or(ActionError::TooLong)?;
        self.bytes.copy_within(self.start..self.start + at, start);
        let moved = start.wrapping_sub(self.start);
        self.partial = self.partial.map(|(place, offset)| (place.wrapping_add(moved), offset));
        (self.start, self.len, self.is_stale) = (start, self.len - old + new.len(), true);
        self.overwrite_bytes(at, new);
        self.headers.include(at, start + at + new.len());
        Ok(())
    }

    /// Sets the length fields and the checksum of a segment that has `len` bytes now.
    fn set_lengths(&mut self, segment: Segment, is_partial: bool, len: usize) -> Result<(), ActionError> {
        let Segment { network, transport, is_v4, .. } = segment;
        let place = if is_v4 {
            Place { header: network, ..Place::plain(network + 2, 2, 0) }
        } else {
            Place::plain(network + 4, 2, 0)
        };
        let upper = transport + len - network - if is_v4 { 0 } else { wire::IPV6_HEADER };
        self.store(&place, upper as u128, 0xffff)?;
        if is_partial {
            let old = window_of(segment.end - transport);
            self.update_partial(transport + CHECKSUM, &Change { old, new: window_of(len) });
            return Ok(());
        }
        self.overwrite(transport + CHECKSUM, [0, 0]);
        let sum = self.sum(Segment { end: transport + len, ..segment }).finish();
        self.overwrite(transport + CHECKSUM, sum);
        Ok(())
    }
}

/// A length as the pseudo header has it, for a change of a sum.
fn window_of(len: usize) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    window[..2].copy_from_slice(&(len as u16).to_be_bytes());
    window
}

/// Replaces selective acknowledgements among options by no-operations. Stops at an option that is cut off.
fn erase_sack(options: &mut [u8]) {
    let mut at = 0;
    while let Some(kind) = options.get(at).filter(|kind| **kind != END) {
        if *kind == NO_OPERATION {
            at += 1;
            continue;
        }
        let is_sack = *kind == SACK;
        let len = options.get(at + 1).map_or(0, |len| usize::from(*len));
        let Some(option) = options.get_mut(at..at + len).filter(|option| option.len() >= 2) else { return };
        if is_sack {
            option.fill(NO_OPERATION);
        }
        at += len;
    }
}
