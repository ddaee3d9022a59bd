//! For any front-end behaviour: the affected port ends with a specific reason or continues, the next guest is served
//! there, and traffic between other guests is not affected.
//!
//! A separate binary, because it counts the descriptors and mappings of the whole process; scenarios run one at a time.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]
#![allow(dead_code, reason = "guests and switch are those of the tests of workers, which use more of them")]

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
#[path = "../workers/scope.rs"]
mod scope;
mod scripts;
mod stage;
