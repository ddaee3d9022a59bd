//! Header before a frame in a slot.

use crate::{Capabilities, OFFLOAD_HEADER, Offload};

/// Maximum length of the header before a frame.
pub(super) const MAX_HEADER: usize = 12;

/// Kind of virtio-net header (VIRTIO 1.2 section 5.1.6) before a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum HeaderKind {
    /// No header.
    #[default]
    Nothing,
    /// Header of a device for a driver with these capabilities, with the number of buffers.
    Driver(Capabilities),
    /// Header of a driver, which does not claim validated checksums (section 5.1.6.2.1).
    Device,
}

/// Header before a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Length in bytes: 0, 10, or 12 if the header ends with the number of buffers.
    pub(crate) header_len: usize,
    pub(crate) kind: HeaderKind,
}

impl Form {
    /// The header's offload fields for a packet with this head.
    #[inline(always)]
    pub(crate) fn fields(self, offload: Offload, head: &[u8]) -> [u8; OFFLOAD_HEADER] {
        if offload == Offload::NONE { [0; OFFLOAD_HEADER] } else { self.fields_of_offload(offload, head) }
    }

    #[inline(never)]
    fn fields_of_offload(self, offload: Offload, head: &[u8]) -> [u8; OFFLOAD_HEADER] {
        match self.kind {
            HeaderKind::Driver(capabilities) => offload.for_receiver(capabilities).header(head),
            HeaderKind::Device if offload.is_work() => offload.header(head),
            _ => [0; OFFLOAD_HEADER],
        }
    }

    /// Header of a frame in `buffers` buffers.
    #[inline(always)]
    pub(super) fn header(self, words: [u8; OFFLOAD_HEADER], buffers: usize) -> [u8; MAX_HEADER] {
        let mut header = [0; MAX_HEADER];
        header[..OFFLOAD_HEADER].copy_from_slice(&words);
        if matches!(self.kind, HeaderKind::Driver(_)) {
            header[OFFLOAD_HEADER..].copy_from_slice(&(buffers as u16).to_le_bytes());
        }
        header
    }
}
