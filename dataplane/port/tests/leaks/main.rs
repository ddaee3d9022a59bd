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
fn nothing_is_left_of_any_peer() {
    memif::nothing_is_left_of_peers_that_came_and_went_or_of_any_script();
    stream::nothing_is_left_of_a_thousand_peers();
    vhost_user::nothing_is_left_of_a_thousand_front_ends_or_of_any_message();
    virtio_user::a_back_end_dies_and_returns_a_hundred_times();
}
