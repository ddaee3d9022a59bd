//! Payload of the stack: counted handles of immutable bytes, wherever they are.

use crate::summed::Summed;
use mem::copy::{chosen, copy_private};
use mem::{SharedRange, VolatileSlice};
use port::Retained;
use stack::Payload;
use std::ops::Range;
use std::sync::Arc;

/// Private bytes that are reused when their last handle but one is dropped ([`crate::BufferPool`]).
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) bytes: Box<[u8]>,
    /// Bytes in use.
    pub(crate) len: usize,
}

/// Counted handle of immutable bytes. A clone shares the bytes.
#[derive(Clone, Debug)]
pub struct Buffer(Kind);

#[derive(Clone)]
enum Kind {
    Private(Arc<Chunk>),
    /// A packet in the memory of the port that received it; a peer may be able to change it.
    Lent(Retained),
    /// Memory that another party writes as well.
    Foreign(SharedRange),
    Shared(Arc<[u8]>),
    Summed(Arc<Summed>),
    Owned(Arc<dyn AsRef<[u8]> + Send + Sync>),
    Static(&'static [u8]),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Private(_) => "Private",
            Self::Lent(_) => "Lent",
            Self::Foreign(_) => "Foreign",
            Self::Shared(_) => "Shared",
            Self::Summed(_) => "Summed",
            Self::Owned(_) => "Owned",
            Self::Static(_) => "Static",
        };
        f.write_str(kind)
    }
}

impl Buffer {
    /// A handle of bytes in memory of any kind. `as_ref` must return the same bytes each time; the owner is dropped
    /// with the last handle.
    pub fn owned(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Kind::Owned(Arc::new(bytes)))
    }

    pub(crate) fn pooled(chunk: Arc<Chunk>) -> Self {
        Self(Kind::Private(chunk))
    }

    /// A range of `bytes` with stored sums, for data that is sent many times. Reads the bytes once.
    pub fn summed(bytes: Arc<[u8]>, range: Range<usize>) -> Self {
        Self(Kind::Summed(Arc::new(Summed::new(bytes, range))))
    }

    /// The bytes as a slice; `None` if a peer may change them.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Private(chunk) => chunk.bytes.get(..chunk.len),
            Kind::Lent(_) | Kind::Foreign(_) => None,
            Kind::Shared(bytes) => Some(bytes),
            Kind::Summed(summed) => Some(summed.bytes()),
            Kind::Owned(owner) => Some((**owner).as_ref()),
            Kind::Static(bytes) => Some(bytes),
        }
    }

    /// Passes the segments of a range to `each`, in order. They are valid as long as this handle or a clone.
    #[inline]
    pub(crate) fn segments(&self, range: Range<usize>, mut each: impl FnMut(VolatileSlice)) {
        if let Some(bytes) = self.bytes() {
            return bytes.get(range).into_iter().map(VolatileSlice::of_private).for_each(each);
        }
        if let Kind::Foreign(bytes) = &self.0 {
            return bytes.seg().slice(range.start, range.len()).into_iter().for_each(each);
        }
        let Kind::Lent(packet) = &self.0 else { return };
        let (mut skip, mut left) = (range.start, range.len());
        for seg in packet.segs() {
            let piece = seg.split_at(skip).1.split_at(left).0;
            skip = skip.saturating_sub(seg.len());
            left -= piece.len();
            if !piece.is_empty() {
                each(piece);
            }
        }
    }
}

impl From<Retained> for Buffer {
    fn from(packet: Retained) -> Self {
        Self(Kind::Lent(packet))
    }
}

impl From<SharedRange> for Buffer {
    fn from(bytes: SharedRange) -> Self {
        Self(Kind::Foreign(bytes))
    }
}

impl From<Arc<[u8]>> for Buffer {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Kind::Shared(bytes))
    }
}

impl From<&'static [u8]> for Buffer {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Kind::Static(bytes))
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Kind::Private(Arc::new(Chunk { len: bytes.len(), bytes: bytes.into() })))
    }
}

impl Payload for Buffer {
    fn copy_of(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.0 {
            Kind::Private(chunk) => chunk.len,
            Kind::Lent(packet) => packet.len(),
            Kind::Foreign(bytes) => bytes.len(),
            Kind::Shared(bytes) => bytes.len(),
            Kind::Summed(summed) => summed.bytes().len(),
            Kind::Owned(owner) => (**owner).as_ref().len(),
            Kind::Static(bytes) => bytes.len(),
        }
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        match (&self.0, self.bytes()) {
            (Kind::Lent(packet), _) => packet.sum(range),
            (Kind::Summed(summed), _) => summed.sum(range),
            (Kind::Foreign(bytes), _) => bytes.sum(range),
            (_, bytes) => bytes.and_then(|bytes| bytes.get(range)).map_or(0, mem::sum::private_words),
        }
    }

    #[inline]
    fn copy_to(&self, at: usize, to: &mut [u8]) {
        if let Kind::Lent(packet) = &self.0 {
            mem::with_kernel!(chosen(), K => { packet.copy_behind::<K>(at, to); });
        } else if let Kind::Foreign(bytes) = &self.0 {
            bytes.read(at, to);
        } else if let Some(from) = self.bytes().and_then(|bytes| bytes.get(at..at + to.len())) {
            copy_private(to, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_bytes_reads_the_same() {
        static BYTES: [u8; 300] = [7; 300];
        let region = Arc::new(mem::Region::of_bytes(BYTES.to_vec().into()).unwrap());
        let foreign = mem::SharedRange::new(&region, 0, 300).unwrap();
        let all: [Buffer; 5] = [
            BYTES[..].into(),
            Arc::<[u8]>::from(&BYTES[..]).into(),
            BYTES.to_vec().into(),
            Buffer::owned(BYTES.to_vec()),
            foreign.into(),
        ];
        for buffer in all {
            let (mut to, mut segments) = ([0; 100], 0);
            buffer.copy_to(200, &mut to);
            buffer.segments(10..60, |seg| segments += seg.len());
            assert_eq!((to, segments, buffer.len()), ([7; 100], 50, 300));
            let expected = wire::checksum::Sum::of(&BYTES[3..104]).total();
            assert_eq!(wire::checksum::fold(buffer.sum(3..104)), wire::checksum::fold(expected));
        }
    }
}
