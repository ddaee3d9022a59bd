//! Writes a header and a frame to one guest buffer, for the loops that send plain packets.

use crate::transmit::Form;
use crate::{Burst, OFFLOAD_HEADER};
use mem::copy::Kernel;
use mem::{GuestMemory, VolatileSlice};

/// Bytes of a virtio-net header without and with `num_buffers`.
pub(super) const SHORT_HEADER: usize = 10;
pub(super) const LONG_HEADER: usize = 12;

/// A virtio-net header (VIRTIO 1.2 section 5.1.6) of one buffer. A 10-byte header consists of its first ten bytes.
#[inline(always)]
fn header(words: [u8; OFFLOAD_HEADER]) -> [u8; 12] {
    let mut header = [0; 12];
    header[..OFFLOAD_HEADER].copy_from_slice(&words);
    header[OFFLOAD_HEADER] = 1;
    header
}

/// Writes header and packet `i` to one piece that holds both. `OFFLOADS`: whether offloads may be left. `LAYOUT`:
/// [`Burst::layout`] or `ANY`. `_map` is the map with which `to` was translated.
///
/// The header is compared first: if it has a line of its own and is already correct, the line is only read and stays
/// in both caches.
#[inline(always)]
pub(super) fn plain<K: Kernel, const HEADER: usize, const OFFLOADS: bool, const LAYOUT: u8>(
    _map: &GuestMemory,
    form: Form,
    to: VolatileSlice,
    (burst, i, len): (&Burst, usize, usize),
) {
    let words = if OFFLOADS { form.fields(burst.offload(i), burst.head(i)) } else { [0; OFFLOAD_HEADER] };
    let header = header(words);
    // SAFETY: `to` is inside the map held by the caller and its length is that of header and frame.
    unsafe {
        to.put_if_different(0, header.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first)));
        if HEADER == LONG_HEADER {
            to.put_if_different(8, header.last_chunk().map_or(0, |last| u32::from_ne_bytes(*last)));
        } else {
            to.put_if_different(8, u16::from_ne_bytes([header[8], header[9]]));
        }
        burst.write_to::<K, LAYOUT>((i, len), to.split_at(HEADER).1);
    }
}
