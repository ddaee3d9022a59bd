//! Helpers of the end-to-end tests: real front ends and back ends (DPDK's testpmd, Open vSwitch, Linux guests in
//! QEMU) around the `linerate` binary, each in its own process, which ends with the test.
//!
//! An end-to-end test uses linerate as a user does: by a configuration file, the command line and its JSON output.
//! Nothing here may use the product's crates, wait without a limit, or ignore a missing tool: a test
//! that lacks one is skipped with the reason ([`need`]).

pub mod binary;
pub mod browser;
pub mod c;
pub mod capture;
pub mod container;
pub mod data;
pub mod faults;
pub mod guest;
pub mod initramfs;
pub mod iperf;
pub mod kernel;
pub mod need;
pub mod netns;
pub mod noise;
pub mod ovs;
pub mod process;
pub mod scope;
pub mod sharkd;
pub mod stack_server;
pub mod switch;
pub mod tcp;
pub mod testpmd;
pub mod tun;
pub mod udp;
pub mod vm;
pub mod wait;

use tempfile::TempDir;

/// A folder for the sockets, files and logs of one end-to-end test; deleted on drop.
pub fn folder() -> TempDir {
    TempDir::with_prefix("linerate-").unwrap_or_else(|error| panic!("no temporary folder: {error}"))
}
