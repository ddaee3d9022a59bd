//! Bounds on the memory and work of a session. A peer can exceed none of them.

use std::time::Duration;

/// Bytes that wait for a session at which it is not read, and asynchronous messages are discarded.
pub const OUTPUT: usize = 1 << 20;
/// Bytes that wait for a session at which its flow monitors pause.
pub const MONITORED: usize = 1 << 19;
/// Flows that a session with paused monitors keeps at most; it ends when there are more.
pub const HELD: usize = 1 << 17;
/// Monitors of a session.
pub const MONITORS: usize = 64;
/// Bundles of a session.
pub const BUNDLES: usize = 16;
/// Messages in the bundles of a session.
pub const BUNDLE_MESSAGES: usize = 200_000;
/// Bytes in the bundles of a session.
pub const BUNDLE_BYTES: usize = 32 << 20;
/// Time after which a bundle without messages is discarded.
pub const BUNDLE_IDLE: Duration = Duration::from_secs(10);
/// Bytes of a request of several messages.
pub const PARTS: usize = 2 << 20;
/// Changes of flows that become one version of the tables.
pub const BATCH: usize = 256;
/// Entries of an answer that are encoded at once. The output exceeds [`OUTPUT`] by at most these.
pub const CHUNK: usize = 64;
/// Time until the versions are agreed on.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Probes without an answer after which a session ends.
pub const PROBES: u32 = 3;
/// Time without a message after which a session ends whose output is full.
pub const STALLED: Duration = Duration::from_mins(1);
