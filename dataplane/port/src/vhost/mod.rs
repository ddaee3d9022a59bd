//! vhost-user protocol code shared by the back end (`vhost_user`) and the front end (`virtio_user`).
//!
//! `message` is the wire format; `wire` assembles messages from a socket; [`Features`] are the negotiated feature bits.
//! This module does not access rings and has no state beyond one message.

mod features;
pub mod message;
pub(crate) mod wire;

pub use features::Features;
