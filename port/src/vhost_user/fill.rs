//! Writing a header and a frame into a guest's buffers.
//!
//! Every function takes the map that the pieces were translated with, so that it is alive while they are written.

use super::stock::Several;
use crate::Frame;
use mem::copy::Kernel;
use mem::{Map, Seg};

/// Bytes 8 to 11 of a header: `csum_offset` 0, `num_buffers` 1.
const ONE_BUFFER: u32 = u32::from_le_bytes([0, 0, 1, 0]);

/// A virtio-net header (VIRTIO 1.2 section 5.1.6): no offload, `num_buffers` as given. A header of 10 bytes is
/// its first ten.
const fn header(num_buffers: u16) -> [u8; 12] {
    let n = num_buffers.to_le_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n[0], n[1]]
}

/// Writes header and frame into one piece that holds both.
///
/// The header is compared first: where it has a line of its own and already says what it must, that line is only
/// read and stays in both caches.
#[inline(always)]
pub(super) fn plain<K: Kernel>(_map: &Map, header_len: usize, to: Seg, frame: &Frame<'_>) {
    let (_, body) = to.split_at(header_len);
    // SAFETY: `to` lies in the map that the caller holds and was cut to header plus frame.
    unsafe {
        to.put_if_different(0, 0u64);
        if header_len == 12 {
            to.put_if_different(8, ONE_BUFFER);
        } else {
            to.put_if_different(8, 0u16);
        }
        frame.write_to::<K>(body);
    }
}

/// Writes header and frame over several pieces that together hold both.
#[cold]
pub(super) fn several<K: Kernel>(_map: &Map, header_len: usize, to: &Several, frame: &Frame<'_>) {
    let header = header(to.count());
    let mut left = &header[..header_len];
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
