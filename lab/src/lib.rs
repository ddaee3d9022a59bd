//! The tools that measure the data plane.
//!
//! [`guest`] is a virtio-user guest of our own, so that any vhost-user switch, ours or another, can be fed and measured
//! without a virtual machine. [`cache`] is the laboratory that explains why a data path is as fast as it is, and
//! [`report`] draws what it finds. [`traffic`] makes streams of frames and says what became of them, [`mod@bench`] decides by
//! RFC 2544 which of them come next, and [`usage`] shows what the way in which a data path is used does to it. A tool here
//! may read clocks and start threads; it must never be needed by the product.

pub mod bench;
pub mod cache;
pub mod guest;
pub mod report;
pub mod traffic;
pub mod usage;
