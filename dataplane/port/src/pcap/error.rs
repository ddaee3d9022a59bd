//! Errors of capture files to be played.

use super::{MAX_BYTES, MAX_PACKETS, MAX_SHORT};
use crate::Remedy;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::io;
use std::path::{Path, PathBuf};

/// A file cannot be played. No port was created.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Read(PathBuf, io::Error),
    /// Not a regular file: a pipe, device or directory.
    #[error("{0} is not a regular file, and only regular files can be played")]
    NotAFile(PathBuf),
    /// Longer than [`MAX_BYTES`].
    #[error("{0} has {1} bytes, more than the limit of {MAX_BYTES} (1 GiB)")]
    Large(PathBuf, u64),
    /// More than [`MAX_PACKETS`] packets.
    #[error("{0} has more packets than the limit of {MAX_PACKETS}")]
    Many(PathBuf),
    /// More than [`MAX_SHORT`] packets too short to be played.
    #[error(
        "{path} has more than {MAX_SHORT} packets shorter than an Ethernet header, the last at byte {offset}"
    )]
    Short {
        /// File path.
        path: PathBuf,
        /// Offset of the last of them, in bytes.
        offset: usize,
    },
    /// Unknown file format.
    #[error("{0} is neither pcap nor pcapng")]
    Unknown(PathBuf, &'static str),
    /// A packet's link type is not Ethernet.
    #[error(
        "{path}: packet {packet}, at byte {offset}, has link type {link}, not Ethernet, so nothing is played"
    )]
    Link {
        /// File path.
        path: PathBuf,
        /// Packet number, from 1.
        packet: usize,
        /// Offset of the packet, in bytes.
        offset: usize,
        /// Link type; see <https://www.tcpdump.org/linktypes.html>.
        link: i32,
    },
    /// The file violates its format.
    #[error("{path} is broken at byte {offset}, behind {packets} packets: {reason}; nothing is played")]
    Broken {
        /// File path.
        path: PathBuf,
        /// Offset of the error, in bytes.
        offset: usize,
        /// Number of complete packets before it.
        packets: usize,
        /// Description of the error.
        reason: &'static str,
    },
    /// The file has no packets.
    #[error("{0} has no complete packet")]
    Empty(PathBuf),
}

impl Remedy for PcapError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Read(..) => "name a file that this user can read and that fits into memory".into(),
            Self::NotAFile(..) => "copy its data to a file first".into(),
            Self::Large(..) | Self::Many(..) => "cut it into parts, such as with `editcap -c 1000000`".into(),
            Self::Short { .. } => {
                "keep only complete headers, such as with `tshark -Y \"frame.cap_len >= 14\"`".into()
            }
            Self::Unknown(_, remedy) => (*remedy).into(),
            Self::Link { .. } => "keep only Ethernet's packets, or capture on an Ethernet interface".into(),
            Self::Broken { .. } => {
                "repair it (`editcap` copies all complete packets), or capture again".into()
            }
            Self::Empty(..) => "name a file with packets".into(),
        })
    }
}

/// Error without the file name.
#[derive(Debug)]
pub(super) enum Fault {
    Read(io::Error),
    Many,
    Short { offset: usize },
    Unknown(&'static str),
    Link { offset: usize, link: i32 },
    Broken { offset: usize, reason: &'static str },
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Read(error)
    }
}

impl From<TryReserveError> for Fault {
    fn from(error: TryReserveError) -> Self {
        Fault::Read(error.into())
    }
}

impl Fault {
    /// Adds the file name to the error; `packets` is the number of complete packets before it.
    pub(super) fn of(self, path: &Path, packets: usize) -> PcapError {
        let path = path.to_owned();
        match self {
            Fault::Read(error) => PcapError::Read(path, error),
            Fault::Many => PcapError::Many(path),
            Fault::Short { offset } => PcapError::Short { path, offset },
            Fault::Unknown(remedy) => PcapError::Unknown(path, remedy),
            Fault::Link { offset, link } => PcapError::Link { path, packet: packets + 1, offset, link },
            Fault::Broken { offset, reason } => PcapError::Broken { path, offset, packets, reason },
        }
    }
}
