//! Multipart messages: information in one or more parts (OpenFlow 1.3.5, 7.3.5).

pub(crate) mod features;
pub(crate) mod flow;
pub(crate) mod oxs;
mod parts;
pub(crate) mod reply;
pub(crate) mod request;
