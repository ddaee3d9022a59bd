//! Bounds on memory and work for one message. A peer can exceed none of them.

/// Length of the longest message: its length has 16 bits (OpenFlow 1.3.5, 7.1).
pub const MESSAGE: usize = 0xffff;

/// Bytes that a [`crate::Framing`] holds at most: one message that is not complete, and bytes after it.
pub const FRAMING: usize = 2 * (MESSAGE + 1);

/// Depth of actions within actions (`clone`, `ct`).
pub const NESTING: u8 = 8;

/// Bytes of a rejected message that an error message contains (7.4.4).
pub const ERROR_DATA: usize = 64;
