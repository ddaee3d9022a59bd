//! End-to-end tests: the `linerate` binary with real front ends, back ends, guests and interfaces.
//!
//! One program, so that it is linked once. `cargo xtask test` runs its tests one at a time, because they share the CPUs,
//! huge pages and names of interfaces. Tests in a module `every` repeat others over more rings, models or bytes; only
//! `cargo xtask test --all` runs them.

mod bench;
mod files;
mod generator;
mod guest_namespace;
mod hostile;
mod interfaces;
mod kernel_offloads;
mod lab;
mod memif;
mod models;
mod ovs;
mod qemu_guests;
mod snippets;
mod stream;
mod tap;
mod testpmd_guest;
mod testpmd_switch;
mod virtio_user_offloads;
mod virtio_user_switch;
mod workers;
