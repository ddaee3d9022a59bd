//! The port crate from outside: every port kind over real sockets, and hostile peers.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod common;
mod front_end;
mod hand;
mod handover;
mod hostile_rings;
mod isolation;
mod joined;
mod logged;
mod lost_memory;
mod many_workers;
mod memif;
mod memif_hostile;
mod offloads;
mod oracle;
mod replay_corpus;
mod reserve;
mod swap_maps;
mod virtio_user;
mod virtio_user_hostile;
mod virtio_user_offloads;
mod virtio_user_returns;
