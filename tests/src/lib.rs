//! What the end-to-end tests share: real front ends and back ends (DPDK's testpmd, Open vSwitch, Linux guests in
//! QEMU) around the
//! `linerate` binary, each in a process of its own that dies with the end-to-end test.
//!
//! An end-to-end test speaks to linerate as a user does: a configuration file, the command line and its JSON. Nothing here
//! may look into the product's crates, wait without a limit, or decide that a missing tool is a success: what a
//! end-to-end test needs and does not find is a panic that names the remedy.

pub mod binary;
pub mod guest;
pub mod initramfs;
pub mod iperf;
pub mod kernel;
pub mod netns;
pub mod noise;
pub mod ovs;
pub mod process;
pub mod switch;
pub mod testpmd;
pub mod tun;
pub mod vm;
pub mod wait;

use tempfile::TempDir;

/// A folder for the sockets, files and logs of one end-to-end test; gone when it is dropped.
pub fn folder() -> TempDir {
    TempDir::with_prefix("linerate-").unwrap_or_else(|error| panic!("no temporary folder: {error}"))
}

/// The remedy that every missing tool is reported with.
pub const REMEDY: &str = "run the stories by `cargo xtask test`, which installs what they need";
