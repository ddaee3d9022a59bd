//! pcapng files (draft-ietf-opsawg-pcapng): sections in either byte order, any number of interfaces, each with its own
//! clock. Blocks without packets are skipped.

use super::error::Fault;
use super::recording::{Collected, ETHERNET};
use super::window::Window;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode, PcapError as ParserError,
    SimplePacketBlock, nom,
};
use std::io::Read;

/// Type of a section header block, the same in either byte order.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Byte-order magic, after the length of a section header, in the section's byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Type of the packet block, obsolete since 2009.
const OLD_PACKET: u32 = 2;
/// Minimum block length in bytes: an empty block.
const MIN_BLOCK: usize = 12;
/// Maximum block length: 16 MiB. The parser builds a list of a block's options, which needs eight times as much memory.
const MAX_BLOCK: usize = 1 << 24;
/// Maximum number of interfaces per section: each uses memory until the section ends.
const MAX_INTERFACES: usize = 1 << 16;
const NANOSECONDS: i128 = 1_000_000_000;

/// An interface of the current section.
struct Interface {
    link: i32,
    /// Maximum number of bytes captured per packet; 0 for no limit.
    snap: usize,
    clock: Clock,
}

/// Time stamp format of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// `if_tsresol`
    resolution: u8,
    /// Offset in seconds.
    offset: i64,
}

impl Clock {
    /// Nanoseconds since the Unix epoch.
    fn nanoseconds(self, high: u32, low: u32) -> i128 {
        let ticks = i128::from(high) << 32 | i128::from(low);
        let exponent = u32::from(self.resolution & 0x7f);
        let passed = match (self.resolution & 0x80 != 0, exponent) {
            // The resolution is so fine that all 64-bit tick counts are below one nanosecond.
            (true, 95..) | (false, 29..) => 0,
            (true, _) => (ticks * NANOSECONDS) >> exponent,
            (false, 0..=9) => ticks * 10_i128.pow(9 - exponent),
            (false, _) => ticks / 10_i128.pow(exponent - 9),
        };
        passed + i128::from(self.offset) * NANOSECONDS
    }
}

/// The current section.
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

/// Finds the packets of a pcapng file.
pub(super) fn validate<R: Read>(window: &mut Window<R>, found: &mut Collected) -> Result<(), Fault> {
    let mut section = Section { big_endian: false, interfaces: Vec::new() };
    loop {
        window.fill_to(MIN_BLOCK)?;
        if window.rest().is_empty() {
            return Ok(());
        }
        let offset = window.offset();
        let broken = |reason| Fault::Broken { offset, reason };
        match section.block_len(window.rest()) {
            // The parser cannot handle it.
            Some(len) if len < MIN_BLOCK => return Err(broken("a block below the minimum length")),
            Some(len) if len > MAX_BLOCK => return Err(broken("a block of more than 16 MiB")),
            claimed => window.fill_to(claimed.unwrap_or_default())?,
        }
        let rest = window.rest();
        let parse =
            if section.big_endian { pcap_parser::parse_block_be } else { pcap_parser::parse_block_le };
        let used = match parse(rest) {
            Ok((behind, block)) if behind.len() < rest.len() => {
                section.take(offset, &block, found)?;
                rest.len() - behind.len()
            }
            Err(nom::Err::Incomplete(_)) if section.is_cut(rest) => {
                found.cut = Some(offset);
                return Ok(());
            }
            Err(nom::Err::Error(ParserError::HeaderNotRecognized)) => {
                return Err(broken("a section with an unknown byte order"));
            }
            _ => return Err(broken("a block with contradicting lengths")),
        };
        window.take(used);
    }
}

impl Section {
    /// Length of the next block according to its header. Returns `None` if the file ends before that, or at a section
    /// with an unknown byte order.
    fn block_len(&self, rest: &[u8]) -> Option<usize> {
        let &bytes = rest.get(4..)?.first_chunk()?;
        let big_endian = if rest.starts_with(&SECTION) {
            match u32::from_be_bytes(*rest.get(8..)?.first_chunk()?) {
                BYTE_ORDER => true,
                order if order.swap_bytes() == BYTE_ORDER => false,
                _ => return None,
            }
        } else {
            self.big_endian
        };
        Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize)
    }

    /// Whether the next block extends beyond the end of the file; `rest` is the remainder of the file.
    fn is_cut(&self, rest: &[u8]) -> bool {
        self.block_len(rest).is_none_or(|len| len > rest.len())
    }

    fn take(&mut self, offset: usize, block: &Block<'_>, found: &mut Collected) -> Result<(), Fault> {
        match block {
            Block::SectionHeader(header) => {
                *self = Section { big_endian: header.big_endian(), interfaces: Vec::new() };
            }
            Block::InterfaceDescription(_) if self.interfaces.len() == MAX_INTERFACES => {
                return Err(Fault::Broken { offset, reason: "more than 65536 interfaces in one section" });
            }
            Block::InterfaceDescription(block) => self.interfaces.push(interface(block, self.big_endian)),
            Block::EnhancedPacket(block) => return self.enhanced(offset, block, found),
            Block::SimplePacket(block) => return self.simple(offset, block, found),
            // The parser reads the type as little-endian in any section.
            Block::Unknown(block) if [OLD_PACKET, OLD_PACKET.swap_bytes()].contains(&block.block_type) => {
                return Err(Fault::Broken { offset, reason: "an obsolete packet block" });
            }
            _ => {}
        }
        Ok(())
    }

    fn interface(&self, id: u32, offset: usize) -> Result<&Interface, Fault> {
        let reason = "a packet of an undefined interface";
        let interface = self.interfaces.get(id as usize).ok_or(Fault::Broken { offset, reason })?;
        match interface.link {
            ETHERNET => Ok(interface),
            link => Err(Fault::Link { offset, link }),
        }
    }

    fn enhanced(
        &self,
        offset: usize,
        block: &EnhancedPacketBlock<'_>,
        found: &mut Collected,
    ) -> Result<(), Fault> {
        let interface = self.interface(block.if_id, offset)?;
        let time = interface.clock.nanoseconds(block.ts_high, block.ts_low);
        let reason = "a packet longer than its block";
        let bytes = block.data.get(..block.caplen as usize).ok_or(Fault::Broken { offset, reason })?;
        found.add(offset, bytes, block.origlen, Some(time))
    }

    /// A packet of the first interface, without a time stamp.
    fn simple(
        &self,
        offset: usize,
        block: &SimplePacketBlock<'_>,
        found: &mut Collected,
    ) -> Result<(), Fault> {
        let interface = self.interface(0, offset)?;
        let snap = if interface.snap == 0 { usize::MAX } else { interface.snap };
        let bytes = &block.data[..block.data.len().min(block.origlen as usize).min(snap)];
        found.add(offset, bytes, block.origlen, None)
    }
}

fn interface(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
    let value = |code| block.options.iter().find(|option| option.code == code).map(|option| &*option.value);
    let resolution = value(OptionCode::IfTsresol).and_then(|value| value.first().copied()).unwrap_or(6);
    let offset = value(OptionCode::IfTsoffset).and_then(|value| value.first_chunk().copied());
    let read = if big_endian { i64::from_be_bytes } else { i64::from_le_bytes };
    let clock = Clock { resolution, offset: offset.map_or(0, read) };
    Interface { link: block.linktype.0, snap: block.snaplen as usize, clock }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_below_the_minimum_length_is_rejected_in_both_byte_orders() {
        for big_endian in [false, true] {
            let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
            let header = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28].map(word).concat();
            for len in [0, 4, 8, 11] {
                let file = [&header, &[word(0x1234_5678), word(len)].concat()[..], &[0; 24]].concat();
                let refused = validate(&mut Window::new(&*file, 1), &mut Collected::default());
                let Err(Fault::Broken { offset, reason }) = refused else { panic!("{len}: {refused:?}") };
                assert_eq!((offset, reason), (28, "a block below the minimum length"));
            }
        }
    }

    fn section() -> Vec<u8> {
        [0x0a0d_0d0a, 28, BYTE_ORDER, 1, u32::MAX, u32::MAX, 28].map(u32::to_le_bytes).concat()
    }

    fn refused(file: &[u8]) -> (usize, &'static str) {
        match validate(&mut Window::new(file, 1 << 20), &mut Collected::default()) {
            Err(Fault::Broken { offset, reason }) => (offset, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn block_above_the_maximum_length_is_not_read() {
        let block = |len: u32| [section(), [0x1234_5678, len].map(u32::to_le_bytes).concat()].concat();
        assert_eq!(refused(&block(MAX_BLOCK as u32 + 4)), (28, "a block of more than 16 MiB"));
        let mut found = Collected::default();
        validate(&mut Window::new(&*block(MAX_BLOCK as u32), 1 << 20), &mut found).unwrap();
        assert_eq!(found.cut, Some(28));
    }

    #[test]
    fn interfaces_per_section_are_limited() {
        let interface = [1_u32, 20, 1, 0, 20].map(u32::to_le_bytes).concat();
        let file = |n: usize| [section(), interface.repeat(n)].concat();
        validate(&mut Window::new(&*file(MAX_INTERFACES), 1 << 20), &mut Collected::default()).unwrap();
        let (offset, reason) = refused(&file(MAX_INTERFACES + 1));
        assert_eq!((offset, reason), (28 + 20 * MAX_INTERFACES, "more than 65536 interfaces in one section"));
    }

    #[test]
    fn clock_resolution_and_offset_are_applied() {
        let at = |resolution, offset, ticks: u64| {
            Clock { resolution, offset }.nanoseconds((ticks >> 32) as u32, ticks as u32)
        };
        assert_eq!(at(6, 0, 1_500_000), 1_500_000_000);
        assert_eq!(at(9, 0, u64::MAX), i128::from(u64::MAX));
        assert_eq!(at(12, 0, 5_000), 5);
        assert_eq!(at(0x8a, 0, 1536), 1_500_000_000);
        assert_eq!(at(0, -2, 5), 3_000_000_000);
        assert_eq!(at(0xff, 0, u64::MAX), 0);
        assert_eq!(at(0x7f, 1, u64::MAX), NANOSECONDS);
    }
}
