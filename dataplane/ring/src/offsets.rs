//! Field offsets and flags of rings, common to both sides.

/// Split rings (VIRTIO 1.2 sections 2.7.6 and 2.7.8): available and used ring have the same header.
pub(crate) mod split {
    /// Offset of the flags.
    pub(crate) const FLAGS: usize = 0;
    /// Offset of the index.
    pub(crate) const INDEX: usize = 2;
    /// Offset of the first entry.
    pub(crate) const RING: usize = 4;
    /// Available ring flag: the driver needs no notification (call).
    pub(crate) const NO_INTERRUPT: u16 = 1;
    /// Used ring flag: the device needs no notification (kick).
    pub(crate) const NO_NOTIFY: u16 = 1;
    /// Size of a used element (ID and length), in bytes.
    pub(crate) const ELEMENT: usize = 8;
}

/// Event suppression of packed rings (VIRTIO 1.2 section 2.8.10).
pub(crate) mod packed {
    /// Notifications enabled.
    pub(crate) const EVENT_ENABLE: u16 = 0;
    /// Notifications disabled.
    pub(crate) const EVENT_DISABLE: u16 = 1;
    /// Notify when the given position is passed.
    pub(crate) const EVENT_DESC: u16 = 2;

    /// Position with wrap counter, and flags. Both sides access them as one word only: atomic accesses of different
    /// sizes to the same bytes must not race.
    #[inline(always)]
    pub(crate) fn event(place: u16, flags: u16) -> u32 {
        u32::from(place) | u32::from(flags) << 16
    }
}
