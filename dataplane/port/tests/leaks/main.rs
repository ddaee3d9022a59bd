//! Connections that end at any stage leave nothing behind. A program of its own with a single test, because it counts
//! what the whole process holds.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../integration/common/mod.rs"]
mod common;
#[path = "../integration/hand/mod.rs"]
mod hand;
mod memif;
mod stream;
mod vhost_user;
mod virtio_user;

#[test]
fn peers_leave_no_resources() {
    memif::memif_peers_leave_no_resources();
    stream::stream_peers_leave_no_resources();
    vhost_user::vhost_user_front_ends_leave_no_resources();
    virtio_user::virtio_user_back_ends_leave_no_resources();
}
