//! Where the fields of a ring lie and what their flags mean; the same for both sides.

/// Split rings (VIRTIO 1.2 sections 2.7.6 and 2.7.8): available and used ring begin alike.
pub(crate) mod split {
    /// Offset of the flags.
    pub(crate) const FLAGS: usize = 0;
    /// Offset of the index.
    pub(crate) const INDEX: usize = 2;
    /// Offset of the first entry.
    pub(crate) const RING: usize = 4;
    /// Available flags: the driver wants no call.
    pub(crate) const NO_INTERRUPT: u16 = 1;
    /// Used flags: the device wants no kick.
    pub(crate) const NO_NOTIFY: u16 = 1;
    /// Bytes of one used element: id and length.
    pub(crate) const ELEMENT: usize = 8;
}

/// Event suppression of packed rings (VIRTIO 1.2 section 2.8.10).
pub(crate) mod packed {
    /// Offset of the flags, behind place and wrap counter.
    pub(crate) const EVENT_FLAGS: usize = 2;
    /// Tell me of everything.
    pub(crate) const EVENT_ENABLE: u16 = 0;
    /// Tell me of nothing.
    pub(crate) const EVENT_DISABLE: u16 = 1;
    /// Tell me when you pass a place.
    pub(crate) const EVENT_DESC: u16 = 2;
}
