//! Layout of a burst's packets, a parameter of the functions that write them.

/// Each packet is completely in its head, directly after the headroom.
pub(crate) const WHOLE: u8 = 0;
/// Heads start directly after the headroom, and each packet has at most one segment after its head.
pub(crate) const IN_PLACE: u8 = 1;
/// Any layout.
pub(crate) const ANY: u8 = 2;
