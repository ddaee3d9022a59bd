//! What the fuzz targets do with their bytes.
//!
//! Each module turns any byte string into a script that it plays against one room of the project; `driver` is what
//! those that play rings have in common. The modules
//! depend on that room alone, because the ordinary tests include the same files to replay the corpora on a stable
//! toolchain (`replay_corpus.rs` in `dataplane/ring/tests`, `dataplane/port/tests` and `dataplane/wire/tests`).

pub mod device;
pub mod driver;
pub mod frames;
pub mod neighbors;
pub mod queues;
pub mod race;
