//! The tools that measure the data plane.
//!
//! So far there is one: [`guest`], a virtio-user guest of our own, so that any vhost-user switch, ours or another,
//! can be fed and measured without a virtual machine. A tool here may read clocks and start threads; it must never
//! be needed by the product.

pub mod cache;
pub mod guest;
