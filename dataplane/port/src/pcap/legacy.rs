//! pcap files (draft-ietf-opsawg-pcap): micro- and nanoseconds in both byte orders, and the "modified" format with
//! longer record headers.

use super::error::Fault;
use super::recording::{Collected, ETHERNET};
use super::window::Window;
use pcap_parser::{LegacyPcapBlock, PcapError as ParserError, PcapHeader, nom};
use std::io::Read;

/// Mask of the link type in pcap's field; the upper bits describe the FCS length.
const LINK_TYPE: i32 = 0x03ff_ffff;
const NANOSECONDS: u64 = 1_000_000_000;
/// Size of the file header, in bytes.
const HEADER: usize = 24;
/// Maximum packet size in bytes (libpcap's limit).
const MAX_PACKET: u32 = 1 << 18;
/// Maximum record size in bytes: the header of the modified format, and a packet.
const MAX_RECORD: usize = 24 + MAX_PACKET as usize;

/// Finds the packets of a pcap file.
pub(super) fn validate<R: Read>(window: &mut Window<R>, found: &mut Collected) -> Result<(), Fault> {
    let header = header(window)?;
    let link = header.network.0 & LINK_TYPE;
    let unit = if header.is_nanosecond_precision() { 1 } else { 1_000 };
    loop {
        // The window holds each accepted record completely, unless the file ends within it.
        window.fill_to(MAX_RECORD)?;
        let (rest, offset) = (window.rest(), window.offset());
        let broken = || Fault::Broken { offset, reason: "a packet of invalid length" };
        if rest.is_empty() {
            return Ok(());
        }
        if is_absurd(rest, &header) {
            return Err(broken());
        }
        let (behind, packet) = match parser(&header)(rest) {
            Ok(parsed) => parsed,
            Err(nom::Err::Incomplete(_)) => {
                found.cut = Some(offset);
                return Ok(());
            }
            Err(_) => return Err(broken()),
        };
        if link != ETHERNET {
            return Err(Fault::Link { offset, link });
        }
        let time = u64::from(packet.ts_sec) * NANOSECONDS + u64::from(packet.ts_usec) * unit;
        let used = rest.len() - behind.len();
        found.add(offset, packet.data, packet.origlen, Some(time.into()))?;
        window.take(used);
    }
}

fn header<R: Read>(window: &mut Window<R>) -> Result<PcapHeader, Fault> {
    window.fill_to(HEADER)?;
    let remedy = "name a capture, as tcpdump, tshark or this program write them";
    let parsed = pcap_parser::parse_pcap_header(window.rest());
    let (behind, header) = parsed.map_err(|_| Fault::Unknown(remedy))?;
    let used = window.rest().len() - behind.len();
    window.take(used);
    Ok(header)
}

type Parsed<'a> = nom::IResult<&'a [u8], LegacyPcapBlock<'a>, ParserError<&'a [u8]>>;

fn parser(header: &PcapHeader) -> for<'a> fn(&'a [u8]) -> Parsed<'a> {
    match (header.is_modified_format(), header.is_bigendian()) {
        (true, _) => pcap_parser::parse_pcap_frame_modified,
        (false, true) => pcap_parser::parse_pcap_frame_be,
        (false, false) => pcap_parser::parse_pcap_frame,
    }
}

/// Whether the next packet exceeds the maximum packet size.
fn is_absurd(rest: &[u8], header: &PcapHeader) -> bool {
    let Some(&bytes) = rest.get(8..).and_then(|rest| rest.first_chunk()) else { return false };
    let len = if header.is_bigendian() { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    len > MAX_PACKET
}
