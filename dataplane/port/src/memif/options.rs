//! Options of a memif port and their validation.

use super::message::MAX_SECRET;
use crate::Remedy;
use crate::memory::MAX_MEMORY;
use crate::socket::ListenError;
use std::borrow::Cow;

/// Maximum ring size (`MEMIF_MAX_LOG2_RING_SIZE`).
pub const MAX_RING_SIZE: u16 = 1 << MAX_LOG2;
/// Minimum ring size of this project's ports: two bursts.
pub const MIN_RING_SIZE: u16 = 128;
/// Maximum queue pairs of one port.
pub const MAX_QUEUE_PAIRS: u16 = 128;
pub(super) const MAX_LOG2: u8 = 14;
/// Buffer sizes that a client may choose.
const BUFFER_SIZES: std::ops::RangeInclusive<u32> = 128..=65_536;

/// Secret required from clients: 1 to 24 bytes without zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; MAX_SECRET]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Creates a secret; `None` if a message cannot carry it.
    pub fn new(words: &str) -> Option<Self> {
        let fits = (1..=MAX_SECRET).contains(&words.len()) && !words.contains('\0');
        fits.then(|| {
            let mut bytes = [0; MAX_SECRET];
            bytes[..words.len()].copy_from_slice(words.as_bytes());
            Self(bytes)
        })
    }

    /// As encoded in a message.
    pub(super) fn bytes(self) -> [u8; MAX_SECRET] {
        self.0
    }

    /// Compares in constant time, independent of the number of equal bytes.
    pub(super) fn is(self, other: [u8; MAX_SECRET]) -> bool {
        self.0.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

/// Options of a memif port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Interface number behind the socket; must be equal at both ends.
    pub id: u32,
    /// Secret that a client must send.
    pub secret: Option<Secret>,
    /// Queue pairs, 1 to 128. Server: maximum that a client may create. Client: number requested; the server's limit
    /// applies.
    pub queue_pairs: u16,
    /// Entries per ring, a power of two, [`MIN_RING_SIZE`] to [`MAX_RING_SIZE`]. Server: maximum that a client may
    /// use. Client: size requested.
    pub ring_size: u16,
    /// Buffer size in bytes, 128 to 65536. Used by a client only; a longer frame spans several buffers.
    pub buffer_size: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { id: 0, secret: None, queue_pairs: 1, ring_size: 1024, buffer_size: 2048 }
    }
}

/// Why a port could not be created. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum MemifError {
    /// The socket could not be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Number of queue pairs out of range.
    #[error("invalid number of queue pairs {0}")]
    QueuePairs(u16),
    /// Ring size out of range.
    #[error("invalid ring size {0}")]
    RingSize(u16),
    /// Buffer size out of range.
    #[error("invalid buffer size {0}")]
    BufferSize(u32),
    /// No descriptor could be created.
    #[error("cannot create an event descriptor: {0}")]
    Descriptor(#[from] rustix::io::Errno),
    /// Every value is in range, but the total memory is not.
    #[error("rings and buffers need {0} bytes, above the limit of {MAX_MEMORY} per port")]
    Memory(u64),
}

impl Remedy for MemifError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Listen(error) => return error.remedy(),
            Self::QueuePairs(..) => format!("write 1 to {MAX_QUEUE_PAIRS}").into(),
            Self::RingSize(..) => {
                format!("write a power of two from {MIN_RING_SIZE} to {MAX_RING_SIZE}").into()
            }
            Self::BufferSize(..) => "write 128 to 65536".into(),
            Self::Memory(..) => "use fewer queue pairs, shorter rings or smaller buffers".into(),
            Self::Descriptor(..) => return None,
        })
    }
}

impl Options {
    /// Returns an error if a value is out of range.
    pub fn check(&self) -> Result<(), MemifError> {
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            return Err(MemifError::QueuePairs(self.queue_pairs));
        }
        if !(MIN_RING_SIZE..=MAX_RING_SIZE).contains(&self.ring_size) || !self.ring_size.is_power_of_two() {
            return Err(MemifError::RingSize(self.ring_size));
        }
        if !BUFFER_SIZES.contains(&self.buffer_size) {
            return Err(MemifError::BufferSize(self.buffer_size));
        }
        let memory = self.memory();
        if memory > MAX_MEMORY { Err(MemifError::Memory(memory)) } else { Ok(()) }
    }

    /// Bytes of memory shared per connection of a client.
    pub fn memory(&self) -> u64 {
        super::device::bytes(self.queue_pairs, self.queue_pairs, self.log2(), self.buffer_size)
    }

    pub(super) fn log2(&self) -> u8 {
        self.ring_size.trailing_zeros() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Options)) -> Result<(), MemifError> {
        let mut options = Options::default();
        change(&mut options);
        options.check()
    }

    #[test]
    fn out_of_range_options_are_rejected_with_the_range() {
        assert!(with(|_| ()).is_ok());
        for size in [0, 64, 1000, 32768] {
            assert!(matches!(with(|o| o.ring_size = size), Err(MemifError::RingSize(s)) if s == size));
        }
        for size in [0, 127, 65_537] {
            assert!(matches!(with(|o| o.buffer_size = size), Err(MemifError::BufferSize(s)) if s == size));
        }
        assert!(with(|o| o.queue_pairs = 0).is_err() && with(|o| o.queue_pairs = 129).is_err());
        let large = with(|o| (o.queue_pairs, o.ring_size, o.buffer_size) = (128, MAX_RING_SIZE, 65_536));
        assert!(large.unwrap_err().in_one_line().contains("use fewer queue pairs"));
    }

    #[test]
    fn secrets_fit_a_message_and_are_not_printed() {
        assert!(Secret::new("").is_none() && Secret::new("a\0b").is_none());
        assert!(Secret::new(&"x".repeat(25)).is_none());
        let secret = Secret::new(&"x".repeat(24)).unwrap();
        assert!(secret.is([b'x'; 24]) && !secret.is([b'y'; 24]));
        assert!(!Secret::new("x").unwrap().is([b'x'; 24]));
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
