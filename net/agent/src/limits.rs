//! Bounds on the memory and work of sessions. A peer can exceed none of them. Those of groups and of the work of a
//! bundle are in [`flow::tables::limits`].

use std::time::Duration;

/// Bytes that wait for a session at which it is not read.
pub const OUTPUT: usize = 1 << 20;
/// Bytes that wait for a session at which its flow monitors pause, and other notices are discarded.
pub const NOTICES: usize = 1 << 19;
/// Bytes that wait for a session at which packets for it are discarded. As all limits of messages without a request are
/// below [`OUTPUT`], a session whose packets arrive faster than it reads them is still read.
pub const PACKETS: usize = 1 << 18;
/// Bytes that all sessions of an agent keep for bundles, answers in several parts and paused monitors. At this limit,
/// requests that need more are refused.
pub const MEMORY: usize = 256 << 20;
/// Flows that a session with paused monitors keeps at most; it ends when there are more.
pub const HELD: usize = 1 << 17;
/// Monitors of a session.
pub const MONITORS: usize = 64;
/// Monitors of all sessions, with each of which every changed flow is compared.
pub const ALL_MONITORS: usize = 256;
/// Bundles of a session.
pub const BUNDLES: usize = 16;
/// Messages in the bundles of a session.
pub const BUNDLE_MESSAGES: usize = 200_000;
/// Bytes in the bundles of a session.
pub const BUNDLE_BYTES: usize = 32 << 20;
/// Changes of ports in a bundle.
pub const BUNDLE_PORTS: usize = 256;
/// Time after which a bundle without messages is discarded.
pub const BUNDLE_IDLE: Duration = Duration::from_secs(10);
/// Bytes of a request of several messages.
pub const PARTS: usize = 2 << 20;
/// Changes of flows that become one version of the tables.
pub const BATCH: usize = 256;
/// Work of a change, in units of [`flow::tables::Tables::effort`], after which other sessions have their turn.
pub const TURN: usize = 1 << 12;
/// Entries of an answer that are encoded at once. The output exceeds [`OUTPUT`] by at most these.
pub const CHUNK: usize = 64;
/// Time from the start of a session until the versions are agreed on.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Probes without an answer after which a session ends.
pub const PROBES: u32 = 3;
/// Silence of a management client after which it is probed.
pub const MANAGEMENT_PROBE: Duration = Duration::from_mins(1);
/// Time without a message after which a session ends whose output is full.
pub const STALLED: Duration = Duration::from_mins(1);
