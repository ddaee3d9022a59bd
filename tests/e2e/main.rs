//! End-to-end tests: the `linerate` binary with real front ends, back ends, guests and interfaces.
//!
//! All tests are one program, so that it is linked once. `cargo xtask test` runs three at a time: most of
//! their time is waiting, so each must pass while others use the same CPUs, and names of files, interfaces and
//! namespaces are its own. Tests in a module `every` repeat others over more rings, models or
//! bytes; only `cargo xtask test --all` runs them.

mod access;
mod apply;
mod bench;
mod bond_trees;
mod bonds;
mod c_abi;
mod capture;
mod circulation;
mod confinement;
mod doctor;
mod events;
mod export;
mod faults;
mod files;
mod flows;
mod flows_ct;
mod flows_helpers;
mod generator;
mod grants;
mod guest_namespace;
mod hostile;
mod http;
mod import;
mod interfaces;
mod keep_ports;
mod kernel_offloads;
mod kv;
mod lab;
mod libvirt_hook;
mod links;
mod load;
mod memif;
mod metrics;
mod migration;
mod mirrors;
mod models;
mod multicast;
mod openflow;
mod ovs;
mod packet_actions;
mod preload;
mod programs;
mod proxy;
mod qemu_guests;
mod qos;
mod qos_kernel;
mod remote;
mod snippets;
mod snooping;
mod soak;
mod stack;
mod stack_addresses;
mod stack_cores;
mod stack_files;
mod stack_impaired;
mod stack_links;
mod stack_peers;
mod stack_show;
mod stream;
mod tap;
mod testpmd_guest;
mod testpmd_switch;
mod trace_live;
mod tunnels;
mod upgrade;
mod upgrade_ports;
mod upgrade_state;
mod virtio_user_offloads;
mod virtio_user_switch;
mod web;
mod workers;
