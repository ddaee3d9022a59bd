//! Implementation of the fuzz targets.
//!
//! Each module decodes arbitrary bytes as a script and runs it against one crate; `driver` is shared by the modules for
//! rings. A module depends only on its crate, because ordinary tests include the same files to replay the corpora on a
//! stable toolchain (`replay_corpus.rs` in `dataplane/ring/tests`, `dataplane/port/tests` and `dataplane/wire/tests`).

pub mod device;
pub mod driver;
pub mod frames;
pub mod neighbors;
pub mod queues;
pub mod race;
