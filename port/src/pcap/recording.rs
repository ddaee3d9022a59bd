//! A capture file, read whole and judged: where its packets lie in memory, and when they come.
//!
//! pcap with micro- and nanoseconds in both byte orders (draft-ietf-opsawg-pcap) and pcapng (`pcapng.rs`). The formats
//! are the `pcap-parser` crate's to read; what a packet is, which files are refused, and with which words, is decided
//! here. Whoever made the file is not trusted.

use super::pcapng;
use crate::Burst;
use mem::copy::chosen;
use mem::{Map, Region};
use pcap_parser::{LegacyPcapBlock, PcapError as ParserError, PcapHeader, nom};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The link type of frames that begin with an Ethernet header.
pub(super) const ETHERNET: i32 = 1;
/// What of pcap's field is the link type; above it stands the length of frame checksums.
const LINK_TYPE: i32 = 0x03ff_ffff;
const NANOSECONDS: u64 = 1_000_000_000;
/// Bytes of a packet that no tool exceeds (libpcap's own limit).
const MOST: u32 = 1 << 18;

/// Why a file is not played. No port was made.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The kernel did not give its bytes.
    #[error("{0} cannot be read: {1}; name a file that this user can read and that fits into memory")]
    Read(PathBuf, std::io::Error),
    /// What is there has no end that could be waited for: a pipe, a device, a folder.
    #[error("{0} is no ordinary file, and only those are played; copy what comes from it into one first")]
    NotAFile(PathBuf),
    /// No file of a known kind begins like this.
    #[error("{0} is neither pcap nor pcapng, so there is nothing to play; {1}")]
    Unknown(PathBuf, &'static str),
    /// Its packets are of something else.
    #[error(
        "{path}: packet {packet}, at byte {offset}, has link type {link}, not Ethernet, so nothing is played; keep \
         only Ethernet's packets, or capture on an Ethernet interface"
    )]
    Link {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        packet: usize,
        /// Where it begins.
        offset: usize,
        /// See <https://www.tcpdump.org/linktypes.html>.
        link: i32,
    },
    /// It contradicts its format.
    #[error(
        "{path} is broken at byte {offset}, behind {packets} packets: {reason}; nothing is played; mend it \
         (`editcap` copies what can be read) or capture again"
    )]
    Broken {
        /// Which file.
        path: PathBuf,
        /// Where.
        offset: usize,
        /// Whole packets before.
        packets: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// It has a header and nothing else.
    #[error("{0} has no whole packet, so there is nothing to play; name a file with packets")]
    Empty(PathBuf),
}

/// What is wrong, without the file's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Unknown(&'static str),
    Link { offset: usize, link: i32 },
    Broken { offset: usize, reason: &'static str },
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Where its bytes begin.
    pub(super) offset: u64,
    /// Nanoseconds since the first packet; never less than that of the packet before.
    pub(super) time: u64,
    /// Bytes that were captured.
    pub(super) len: u32,
}

/// Packets as they are found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) packets: Vec<Packet>,
    /// How many are longer than what was captured of them.
    pub(super) snapped: usize,
    /// Where a packet begins whose end the file has not.
    pub(super) cut: Option<usize>,
    first: Option<i128>,
    last: u64,
}

impl Found {
    /// Adds a packet of `whole` bytes, of which `bytes` (a part of `file`) were captured at `time`; without a time it
    /// comes right behind the one before.
    pub(super) fn add(&mut self, file: &[u8], bytes: &[u8], whole: u32, time: Option<i128>) {
        let since = time.map_or(0, |time| time - *self.first.get_or_insert(time));
        // Merged files may go back in time; what is due is due.
        let since = since.clamp(0, i128::from(u64::MAX / 2)) as u64;
        self.last = self.last.max(since);
        self.snapped += usize::from(whole as usize > bytes.len());
        let offset = (bytes.as_ptr() as usize - file.as_ptr() as usize) as u64;
        self.packets.push(Packet { offset, time: self.last, len: bytes.len() as u32 });
    }
}

/// A capture file in memory.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    pub(super) map: Arc<Map>,
    pub(super) packets: Vec<Packet>,
    snapped: usize,
    cut: Option<usize>,
}

impl Recording {
    /// Reads and judges a file, as long as it is now. It may be changed or removed afterwards. Blocks for as long as
    /// the disk takes.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        let path = path.as_ref();
        let failed = |error| PcapError::Read(path.to_owned(), error);
        // Opening must not wait, whatever it is; a pipe's would.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(PcapError::NotAFile(path.to_owned()));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(found.len() as usize).map_err(|error| failed(error.into()))?;
        file.take(found.len()).read_to_end(&mut bytes).map_err(failed)?;
        Self::of_bytes(path, bytes)
    }

    /// Judges what a file of this name holds.
    pub(super) fn of_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, PcapError> {
        let mut found = Found::default();
        judge(&bytes, &mut found).map_err(|fault| fault.of(path, found.packets.len()))?;
        if found.packets.is_empty() {
            return Err(PcapError::Empty(path.to_owned()));
        }
        // A file with a packet has bytes, and one region overlaps with none.
        let empty = || PcapError::Empty(path.to_owned());
        let region = Region::of_bytes(bytes.into()).map_err(|_| empty())?;
        let map = Map::new(vec![Arc::new(region)]).map_err(|_| empty())?;
        let Found { packets, snapped, cut, .. } = found;
        Ok(Self { path: path.to_owned(), map: Arc::new(map), packets, snapped, cut })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Packets in it.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Its packets as they were captured, in order, each copied out.
    pub fn frames(&self) -> impl Iterator<Item = Vec<u8>> {
        let region = self.map.regions().first();
        let mut burst = Burst::new();
        self.packets.iter().filter_map(move |packet| {
            let seg = region?.seg(packet.offset, packet.len)?;
            burst.begin(0);
            burst.pin(&self.map);
            burst.push_kept(seg);
            let mut bytes = vec![0; packet.len as usize];
            mem::with_kernel!(chosen(), K => burst.frame(0).copy_to::<K>(&mut bytes));
            Some(bytes)
        })
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.map.regions().iter().map(|region| region.spec().len).sum()
    }

    /// Nanoseconds from the first packet to the last.
    pub fn duration(&self) -> u64 {
        self.packets.last().map_or(0, |packet| packet.time)
    }

    /// What whoever plays it should know: packets that are shorter than they were, an end that is missing.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.snapped > 0 {
            notes.push(format!("{} packets were captured only in part and are played so", self.snapped));
        }
        if let Some(offset) = self.cut {
            notes.push(format!("the file ends within the packet at byte {offset}, which is left out"));
        }
        notes
    }
}

impl Fault {
    fn of(self, path: &Path, packets: usize) -> PcapError {
        let path = path.to_owned();
        match self {
            Fault::Unknown(remedy) => PcapError::Unknown(path, remedy),
            Fault::Link { offset, link } => PcapError::Link { path, packet: packets + 1, offset, link },
            Fault::Broken { offset, reason } => PcapError::Broken { path, offset, packets, reason },
        }
    }
}

/// Finds the packets of a file, whatever its format.
pub(super) fn judge(file: &[u8], found: &mut Found) -> Result<(), Fault> {
    match file.first_chunk() {
        Some(&pcapng::SECTION) => pcapng::judge(file, found),
        // gzip, zstd, xz, bzip2
        Some(
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] | [0xfd, b'7', b'z', b'X'] | [b'B', b'Z', b'h', _],
        ) => Err(Fault::Unknown("it is compressed: decompress it first")),
        _ => judge_pcap(file, found),
    }
}

fn judge_pcap(file: &[u8], found: &mut Found) -> Result<(), Fault> {
    let remedy = "name a capture, as tcpdump, tshark or this program write them";
    let (mut rest, header) = pcap_parser::parse_pcap_header(file).map_err(|_| Fault::Unknown(remedy))?;
    let link = header.network.0 & LINK_TYPE;
    let unit = if header.is_nanosecond_precision() { 1 } else { 1_000 };
    while !rest.is_empty() {
        let offset = file.len() - rest.len();
        let (behind, packet) = match parser(&header)(rest) {
            Ok(parsed) => parsed,
            Err(nom::Err::Incomplete(_)) if !is_absurd(rest, &header) => {
                found.cut = Some(offset);
                return Ok(());
            }
            Err(_) => return Err(Fault::Broken { offset, reason: "a packet of an impossible length" }),
        };
        if link != ETHERNET {
            return Err(Fault::Link { offset, link });
        }
        let time = u64::from(packet.ts_sec) * NANOSECONDS + u64::from(packet.ts_usec) * unit;
        found.add(file, packet.data, packet.origlen, Some(time.into()));
        rest = behind;
    }
    Ok(())
}

type Parsed<'a> = nom::IResult<&'a [u8], LegacyPcapBlock<'a>, ParserError<&'a [u8]>>;

fn parser(header: &PcapHeader) -> for<'a> fn(&'a [u8]) -> Parsed<'a> {
    match (header.is_modified_format(), header.is_bigendian()) {
        (true, _) => pcap_parser::parse_pcap_frame_modified,
        (false, true) => pcap_parser::parse_pcap_frame_be,
        (false, false) => pcap_parser::parse_pcap_frame,
    }
}

/// Whether the packet in front claims more bytes than any tool keeps: then the file is broken and not cut short.
fn is_absurd(rest: &[u8], header: &PcapHeader) -> bool {
    let Some(&bytes) = rest.get(8..).and_then(|rest| rest.first_chunk()) else { return false };
    let len = if header.is_bigendian() { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    len > MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ordinary_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [&*pipe, dir.path(), Path::new("/dev/zero")] {
            let error = Recording::read(path).unwrap_err();
            assert!(matches!(error, PcapError::NotAFile(_)), "{error}");
        }
    }
}
