//! What the switch promises whatever a front end says: its own port ends with a named reason or goes on, the next
//! guest is served there, and guests that exchange frames meanwhile notice nothing.
//!
//! A binary of its own, because it counts what the whole process has open and mapped; its scenarios run one at a time.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]
#![allow(
    dead_code,
    reason = "guests and switch are those of the stories about workers, which use more of them"
)]

#[path = "../workers/calm.rs"]
mod calm;
mod changes;
#[path = "../workers/guest.rs"]
mod guest;
mod hangs;
#[path = "../workers/memory.rs"]
mod memory;
#[path = "../workers/rig.rs"]
mod rig;
mod scripts;
mod stage;
