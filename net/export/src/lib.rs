//! Export of what a switch forwards: packet sampling (`sample`), sFlow version 5 (`sflow`) and IPFIX (`ipfix`).
//!
//! Workers sample packets around any pipeline and queue copies of their headers. A control thread takes the copies,
//! encodes them, and sends the datagrams that the encoders return. Nothing here opens a socket, reads a clock or waits;
//! the encoders get the time with each call. Queues, datagrams and flow caches are bounded.

#![forbid(unsafe_code)]

pub mod ipfix;
pub mod sample;
pub mod sflow;

/// Maximum length of a datagram, in bytes of UDP payload: it fits into an Ethernet frame, also with a tunnel's headers.
pub const MAX_DATAGRAM: usize = 1400;
