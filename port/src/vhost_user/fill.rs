//! Writing a header and a frame into a guest's buffers.
//!
//! Every function takes the map that the pieces were translated with, so that it is alive while they are written.

use super::stock::Several;
use crate::{Capabilities, Frame, OFFLOAD_HEADER};
use mem::copy::Kernel;
use mem::{Map, Seg};

/// Where frames go: how long their headers are, and what the guest does itself.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) header_len: usize,
    pub(super) capabilities: Capabilities,
}

impl Form {
    /// What the header says of work that is left; nothing without `OFFLOADS`.
    #[inline(always)]
    fn words<const OFFLOADS: bool>(self, frame: &Frame<'_>) -> [u8; OFFLOAD_HEADER] {
        if OFFLOADS {
            frame.offload.told_to(self.capabilities).header(frame.head)
        } else {
            [0; OFFLOAD_HEADER]
        }
    }
}

/// A virtio-net header (VIRTIO 1.2 section 5.1.6): the offload's words, then `num_buffers` as given. A header of 10
/// bytes is its first ten.
#[inline(always)]
fn header(words: [u8; OFFLOAD_HEADER], num_buffers: u16) -> [u8; 12] {
    let mut header = [0; 12];
    header[..OFFLOAD_HEADER].copy_from_slice(&words);
    header[OFFLOAD_HEADER..].copy_from_slice(&num_buffers.to_le_bytes());
    header
}

/// Writes header and frame into one piece that holds both. `OFFLOADS`: whether there may be work left.
///
/// The header is compared first: where it has a line of its own and already says what it must, that line is only
/// read and stays in both caches.
#[inline(always)]
pub(super) fn plain<K: Kernel, const OFFLOADS: bool>(_map: &Map, form: Form, to: Seg, frame: &Frame<'_>) {
    let (_, body) = to.split_at(form.header_len);
    let header = header(form.words::<OFFLOADS>(frame), 1);
    // SAFETY: `to` lies in the map that the caller holds and was cut to header plus frame.
    unsafe {
        to.put_if_different(0, header.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first)));
        if form.header_len == 12 {
            to.put_if_different(8, header.last_chunk().map_or(0, |last| u32::from_ne_bytes(*last)));
        } else {
            to.put_if_different(8, u16::from_ne_bytes([header[8], header[9]]));
        }
        frame.write_to::<K>(body);
    }
}

/// Writes header and frame over several pieces that together hold both.
#[cold]
pub(super) fn several<K: Kernel>(_map: &Map, form: Form, to: &Several, frame: &Frame<'_>) {
    let header = header(form.words::<true>(frame), to.count());
    let mut left = &header[..form.header_len];
    let bodies = to.pieces.iter().map(|piece| {
        let (here, body) = piece.split_at(left.len());
        // SAFETY: the piece lies in the map that the caller holds; `here` is at most as long as `left`.
        unsafe { here.copy_in::<K>(&left[..here.len()]) };
        left = &left[here.len()..];
        body
    });
    // SAFETY: as above; the pieces were gathered until header and frame fit.
    unsafe { frame.scatter_to::<K>(bodies) };
}
