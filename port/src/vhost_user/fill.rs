//! Writing a header and a frame into a guest's buffers.
//!
//! Every function takes the map that the pieces were translated with, so that it is alive while they are written.

use super::stock::Several;
use crate::{Burst, Capabilities, Frame, OFFLOAD_HEADER};
use mem::copy::Kernel;
use mem::{Map, Seg};

/// Bytes of a virtio-net header without and with `num_buffers`.
pub(super) const SHORT_HEADER: usize = 10;
pub(super) const LONG_HEADER: usize = 12;

/// Where frames go: how long their headers are, and what the guest does itself.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) header_len: usize,
    pub(super) capabilities: Capabilities,
}

impl Form {
    /// What the header says of work that is left.
    #[inline(always)]
    fn words(self, frame: &Frame<'_>) -> [u8; OFFLOAD_HEADER] {
        frame.offload.told_to(self.capabilities).header(frame.head)
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

/// Writes header and packet `i` into one piece that holds both. `OFFLOADS`: whether there may be work left. `SHORT`:
/// whether the burst [is short](Burst::is_short).
///
/// The header is compared first: where it has a line of its own and already says what it must, that line is only
/// read and stays in both caches.
#[inline(always)]
pub(super) fn plain<K: Kernel, const HEADER: usize, const OFFLOADS: bool, const SHORT: bool>(
    _map: &Map,
    form: Form,
    to: Seg,
    (burst, i): (&Burst, usize),
) {
    let words = if OFFLOADS { form.words(&burst.frame(i)) } else { [0; OFFLOAD_HEADER] };
    let header = header(words, 1);
    // SAFETY: `to` lies in the map that the caller holds and was cut to header plus frame.
    unsafe {
        to.put_if_different(0, header.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first)));
        if HEADER == LONG_HEADER {
            to.put_if_different(8, header.last_chunk().map_or(0, |last| u32::from_ne_bytes(*last)));
        } else {
            to.put_if_different(8, u16::from_ne_bytes([header[8], header[9]]));
        }
        burst.write_to::<K, SHORT>(i, to.split_at(HEADER).1);
    }
}

/// As [`plain`], for whatever header and work.
#[inline(never)]
pub(super) fn any_plain<K: Kernel>(map: &Map, form: Form, to: Seg, packet: (&Burst, usize)) {
    match form.header_len {
        SHORT_HEADER => plain::<K, SHORT_HEADER, true, false>(map, form, to, packet),
        _ => plain::<K, LONG_HEADER, true, false>(map, form, to, packet),
    }
}

/// Writes header and frame over several pieces that together hold both.
#[cold]
pub(super) fn several<K: Kernel>(_map: &Map, form: Form, to: &Several, frame: &Frame<'_>) {
    let header = header(form.words(frame), to.count());
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
