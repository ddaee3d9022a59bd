//! Flow tables, groups and meters as a snapshot, and the changes that lead to the next one.
//!
//! [`Tables`] is persistent: a clone shares everything, and a change copies what is on its path. Control changes its
//! own [`Tables`] through [`Control`] and publishes an `Arc` of them; workers read published snapshots only, so that a
//! change is visible completely or not at all. Nothing here locks, waits, starts a thread or reads a clock.

mod apply;
mod control;
mod error;
mod flow;
mod group;
mod groups;
mod learn;
mod log;
mod meter;
mod options;
pub(crate) mod radix;
mod rate;
mod saved;
mod snapshot;
mod table;
#[cfg(test)]
#[expect(clippy::large_types_passed_by_value, reason = "short tests")]
mod tests;
mod validate;
mod work;

pub use apply::{Changes, Removed, RemovedReason};
pub use control::{Control, Modification, ModificationError};
pub use error::{ActionError, FlowModError, GroupModError, InstructionError, MeterModError};
pub use flow::{Entry, Flow};
pub(crate) use flow::{IN_ENTRY, Values};
pub(crate) use group::SLOTS;
pub use group::{Group, GroupCounter};
pub use learn::{LearnedFlow, Parent, Reduction};
pub(crate) use learn::{Learning, WRITE_RESULT};
pub use log::Change;
pub(crate) use meter::CONTROLLER;
pub use meter::{Meter, Metering};
pub(crate) use radix::WARMED;
pub use saved::{RestoreError, SavedFlow, SavedTables};
pub use snapshot::Tables;
pub use table::TableConfig;

/// Limits of what a controller can make the switch keep or compute.
pub mod limits {
    /// Groups of a switch.
    pub const GROUPS: usize = 65_536;
    /// Buckets of a group.
    pub const BUCKETS: usize = 256;
    /// Bytes of all groups of a switch.
    pub const GROUP_BYTES: usize = 64 << 20;
    /// Groups on a chain of groups.
    pub const CHAIN: usize = 16;
    /// Meters of a switch.
    pub const METERS: usize = 65_536;
    /// Bands of a meter.
    pub const BANDS: usize = 16;
    /// Different limits of `learn` actions of a switch.
    pub const LEARN_LIMITS: usize = 1024;
    /// Depth of `clone` in `clone`.
    pub const CLONES: usize = 16;
    /// Flows of a table without another limit.
    pub const FLOWS: usize = 4_000_000;
    /// Changes that a snapshot remembers for caches.
    pub const LOGGED_CHANGES: usize = 1024;
    /// Versions that a snapshot remembers for caches.
    pub const LOGGED_VERSIONS: usize = 64;
    /// Work of a bundle before its last change, in units of [`super::Tables::effort`]. As one change may need as much
    /// as the tables have flows, a bundle needs at most this and one change more.
    pub const WORK: usize = 1 << 22;
    /// Flows that one call of [`super::Control::expire`] looks at.
    pub const EXPIRED: usize = 1024;
}
