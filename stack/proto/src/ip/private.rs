//! Frames in private memory.

use super::PrivateFrame;
use crate::{Frame, Payload, Slice};
use alloc::vec::Vec;
use core::ops::Range;
use wire::checksum::Sum;

impl<P: Payload> PrivateFrame<P> {
    /// `is_checksum_valid` if the transport checksum need not be verified.
    pub(crate) fn new(bytes: Vec<u8>, is_checksum_valid: bool) -> Self {
        Self { bytes, is_checksum_valid, payload: core::marker::PhantomData }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl<P: Payload> Frame for PrivateFrame<P> {
    type Payload = P;

    fn head(&self) -> &[u8] {
        &self.bytes
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn is_checksum_valid(&self) -> bool {
        self.is_checksum_valid
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        self.bytes.get(range).map_or(0, |bytes| Sum::of(bytes).total())
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        if let Some(bytes) = self.bytes.get(at..at + to.len()) {
            to.copy_from_slice(bytes);
        }
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<P>> {
        Some(Slice::new(P::copy_of(self.bytes.get(range)?)))
    }
}
