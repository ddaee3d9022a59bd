//! The vhost-user protocol, as its two ends share it: `vhost_user` is the back end, `virtio_user` the front end.
//!
//! `message` is the wire format; `wire` gathers messages from a socket; [`Features`] is what both agree on. Nothing here
//! knows a ring or holds state beyond the bytes of one message.

mod features;
pub mod message;
pub(crate) mod wire;

pub use features::Features;
