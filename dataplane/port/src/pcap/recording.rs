//! A validated capture file: packets in memory, with their times.
//!
//! Formats: pcap (`legacy.rs`) and pcapng (`pcapng.rs`), parsed by the `pcap-parser` crate. This module defines
//! packets, limits and errors. The file is read in chunks (`window.rs`), and only packet data is kept. The file is
//! untrusted: `mod.rs` defines limits on bytes and packets.

use super::error::{Fault, PcapError};
use super::window::{CHUNK, Window};
use super::{MAX_BYTES, MAX_PACKETS, MAX_SHORT, MIN_FRAME, legacy, pcapng};
use crate::Burst;
use mem::copy::chosen;
use mem::{GuestMemory, Region};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Link type of Ethernet frames.
pub(super) const ETHERNET: i32 = 1;

/// A packet of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Offset of its bytes in [`Recording::map`].
    pub(super) offset: u64,
    /// Nanoseconds since the first packet; never decreases.
    pub(super) time: u64,
    /// Captured length in bytes.
    pub(super) len: u32,
}

/// Limits of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) packets: usize,
    /// Packets shorter than an Ethernet header. They are not played, so a file of only such packets must be rejected
    /// early.
    pub(super) short: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: MAX_PACKETS, short: MAX_SHORT }
    }
}

/// Packets found so far.
#[derive(Default)]
pub(super) struct Collected {
    limits: Limits,
    /// Packet data, contiguous.
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Vec<Packet>,
    /// Number of packets longer than their captured part.
    pub(super) snapped: usize,
    /// Offset of a packet that is truncated by the end of the file.
    pub(super) cut: Option<usize>,
    short: usize,
    first: Option<i128>,
    last: u64,
}

impl Collected {
    /// An empty result with these limits.
    pub(super) fn within(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a packet of length `whole`, of which `bytes` were captured at `time`, from a record at file offset
    /// `offset`. Without a time, it has the time of the packet before.
    pub(super) fn add(
        &mut self,
        offset: usize,
        bytes: &[u8],
        whole: u32,
        time: Option<i128>,
    ) -> Result<(), Fault> {
        self.short += usize::from(bytes.len() < MIN_FRAME);
        if self.short > self.limits.short {
            return Err(Fault::Short { offset });
        }
        if self.packets.len() == self.limits.packets {
            return Err(Fault::Many);
        }
        let since = time.map_or(0, |time| time - *self.first.get_or_insert(time));
        // Times in merged files may decrease; such packets are due at once.
        let since = since.clamp(0, i128::from(u64::MAX / 2)) as u64;
        self.last = self.last.max(since);
        self.snapped += usize::from(whole as usize > bytes.len());
        self.bytes.try_reserve(bytes.len())?;
        self.packets.try_reserve(1)?;
        let offset = self.bytes.len() as u64;
        self.packets.push(Packet { offset, time: self.last, len: bytes.len() as u32 });
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// A capture file in memory.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    pub(super) map: Arc<GuestMemory>,
    pub(super) packets: Vec<Packet>,
    snapped: usize,
    cut: Option<usize>,
}

impl Recording {
    /// Reads and validates a file up to its current length. It may be changed or removed afterwards. Blocks on disk
    /// reads.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        let path = path.as_ref();
        let failed = |error| PcapError::Read(path.to_owned(), error);
        // Non-blocking, because opening a pipe would block.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(PcapError::NotAFile(path.to_owned()));
        }
        if found.len() > MAX_BYTES {
            return Err(PcapError::Large(path.to_owned(), found.len()));
        }
        Self::of(path, file.take(found.len()), Limits::default())
    }

    /// Validates the content of a file with this name. A rejected file is read only up to its fault.
    pub(super) fn of(path: &Path, file: impl Read, limits: Limits) -> Result<Self, PcapError> {
        let mut found = Collected::within(limits);
        let mut window = Window::new(file, CHUNK);
        validate(&mut window, &mut found).map_err(|fault| fault.of(path, found.packets.len()))?;
        drop(window);
        let Collected { bytes, mut packets, snapped, cut, .. } = found;
        packets.shrink_to_fit();
        // A region of zero bytes is an error; a single region cannot overlap.
        let empty = || PcapError::Empty(path.to_owned());
        let region = Region::of_bytes(bytes.into()).map_err(|_| empty())?;
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|_| empty())?;
        Ok(Self { path: path.to_owned(), map: Arc::new(map), packets, snapped, cut })
    }

    /// Path that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of packets.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Copies of its packets as captured, in order.
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

    /// Memory used, in bytes.
    pub fn bytes(&self) -> u64 {
        self.map.regions().iter().map(|region| region.spec().len).sum()
    }

    /// Nanoseconds from the first packet to the last.
    pub fn duration(&self) -> u64 {
        self.packets.last().map_or(0, |packet| packet.time)
    }

    /// Warnings for the user: truncated packets, a truncated end.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.snapped > 0 {
            notes.push(format!(
                "{} packets were truncated when captured and are played truncated",
                self.snapped
            ));
        }
        if let Some(offset) = self.cut {
            notes.push(format!("the file ends within the packet at byte {offset}, which is skipped"));
        }
        notes
    }
}

/// Finds the packets of a file of any supported format.
pub(super) fn validate<R: Read>(window: &mut Window<R>, found: &mut Collected) -> Result<(), Fault> {
    window.fill_to(4)?;
    match window.rest().first_chunk() {
        Some(&pcapng::SECTION) => pcapng::validate(window, found),
        // gzip, zstd, xz, bzip2
        Some(
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd] | [0xfd, b'7', b'z', b'X'] | [b'B', b'Z', b'h', _],
        ) => Err(Fault::Unknown("it is compressed: decompress it first")),
        _ => legacy::validate(window, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;

    #[test]
    fn special_files_are_rejected_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [&*pipe, dir.path(), Path::new("/dev/zero")] {
            let error = Recording::read(path).unwrap_err();
            assert!(matches!(error, PcapError::NotAFile(_)), "{error}");
        }
    }

    /// Header of a pcap file with Ethernet frames.
    fn header() -> Vec<u8> {
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat()
    }

    fn record(len: u32) -> Vec<u8> {
        [&[0, 0, len, len].map(u32::to_le_bytes).concat()[..], &vec![0; len as usize]].concat()
    }

    /// A sparse file with only a header, `len` bytes long.
    fn hole(folder: &Path, name: &str, len: u64) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, header()).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        path
    }

    /// Counts the bytes read from a file.
    struct Counted<R>(R, usize);

    impl<R: Read> Read for Counted<R> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let read = self.0.read(into)?;
            self.1 += read;
            Ok(read)
        }
    }

    #[test]
    fn file_above_the_size_limit_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let error = Recording::read(hole(dir.path(), "x", MAX_BYTES + 1)).unwrap_err();
        assert!(matches!(error, PcapError::Large(_, len) if len == MAX_BYTES + 1), "{error}");
    }

    #[test]
    fn empty_records_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        let path = hole(dir.path(), "x", MAX_BYTES);
        let mut file = Counted(std::fs::File::open(&path).unwrap(), 0);
        let error = Recording::of(&path, &mut file, Limits::default()).unwrap_err();
        assert!(matches!(error, PcapError::Short { offset, .. } if offset == 24 + 16 * MAX_SHORT), "{error}");
        assert!(file.1 <= 24 + 16 * MAX_SHORT + 4 * CHUNK, "{} bytes were read", file.1);
        let error = Recording::read(&path).unwrap_err().in_one_line();
        assert!(error.contains("more than 65536 packets shorter than an Ethernet header"), "{error}");
    }

    #[test]
    fn packet_count_is_limited() {
        let limits = Limits { packets: 3, short: 1 };
        let of = |lens: &[u32]| {
            let file = [header(), lens.iter().flat_map(|len| record(*len)).collect()].concat();
            Recording::of(Path::new("x"), &*file, limits).map(|recording| recording.packets())
        };
        assert_eq!(of(&[14, 13, 60]).unwrap(), 3);
        assert!(matches!(of(&[14, 14, 60, 60]), Err(PcapError::Many(_))));
        assert!(matches!(of(&[14, 13, 0]), Err(PcapError::Short { offset: 83, .. })));
    }

    #[test]
    fn memory_use_is_that_of_the_packets() {
        let (empty_block, block) = ([0_u8; 4], |kind: u32, body: &[u8]| {
            let len = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes(), &len[..], body, &len].concat()
        });
        let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        let frame = [&60_u32.to_le_bytes()[..], &[7; 60]].concat();
        let aside = block(0x4444, &vec![0; 8 << 20]);
        let file = [
            block(0x0a0d_0d0a, &section),
            block(1, &[&[1, 0, 0, 0], &empty_block[..]].concat()),
            aside.clone(),
            block(3, &frame),
            aside,
        ];
        let recording = Recording::of(Path::new("x"), &*file.concat(), Limits::default()).unwrap();
        assert_eq!((recording.packets(), recording.bytes()), (1, 60));
    }
}
