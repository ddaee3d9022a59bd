//! Why a capture is not played.

use super::{MOST_BYTES, MOST_PACKETS, MOST_SHORT};
use std::collections::TryReserveError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file is not played. No port was made.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The kernel did not give its bytes.
    #[error("{0} cannot be read: {1}; name a file that this user can read and that fits into memory")]
    Read(PathBuf, io::Error),
    /// What is there has no end that could be waited for: a pipe, a device, a folder.
    #[error("{0} is no ordinary file, and only those are played; copy what comes from it into one first")]
    NotAFile(PathBuf),
    /// It has more than [`MOST_BYTES`].
    #[error(
        "{0} has {1} bytes, more than the limit of {MOST_BYTES} (1 GiB); cut it into parts, such as with \
         `editcap -c 1000000`"
    )]
    Large(PathBuf, u64),
    /// It has more than [`MOST_PACKETS`].
    #[error(
        "{0} has more packets than the limit of {MOST_PACKETS}; cut it into parts, such as with \
         `editcap -c 1000000`"
    )]
    Many(PathBuf),
    /// It has more than [`MOST_SHORT`] packets that cannot be played.
    #[error(
        "{path} has more than {MOST_SHORT} packets shorter than an Ethernet header, the last at byte {offset}; keep \
         only complete headers, such as with `tshark -Y \"frame.cap_len >= 14\"`"
    )]
    Short {
        /// Which file.
        path: PathBuf,
        /// Where the last of them begins.
        offset: usize,
    },
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
    /// The error of the file at `path`, which has `packets` whole packets before the fault.
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
