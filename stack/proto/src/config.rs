//! Settings of a stack, and every limit of what peers can make it hold.

use core::time::Duration;

/// Settings of a stack.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits.
    pub limits: Limits,
    /// TCP defaults of new connections.
    pub tcp: crate::tcp::Options,
    /// Secret from which initial sequence numbers, cookies and hash keys are derived; random for each run.
    pub secret: [u8; 16],
    /// Which ephemeral ports belong to this stack.
    pub affinity: crate::Affinity,
}

impl Config {
    /// Default settings with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        let (limits, tcp) = (Limits::default(), crate::tcp::Options::default());
        Self { limits, tcp, secret, affinity: crate::Affinity::default() }
    }
}

/// Bytes as which a received or queued piece of payload counts at least, because it occupies a buffer: a peer that
/// sends single bytes must not hold more memory than one that sends full segments.
pub(crate) const MIN_BUFFER: u32 = 256;

/// Bytes of send space that one call of [`crate::Stack::send`] with `len` bytes takes.
#[must_use]
pub const fn send_cost(len: usize) -> usize {
    if len > 0 && len < MIN_BUFFER as usize { MIN_BUFFER as usize } else { len }
}

/// Bytes that the buffers of a connection may occupy, in receive buffers. Announced windows count payload, so that a
/// sender of short segments may exceed one receive buffer; only those below 64 bytes on average exceed this.
pub(crate) const BUFFER_EXCESS: u32 = 4;

/// Limits of a stack, so that its memory and the work that peers can cause are bounded. Bounds that a protocol fixes
/// are constants where they are used.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections, in any state except TIME-WAIT.
    pub connections: u32,
    /// Connections in SYN-RECEIVED. More SYNs are answered with cookies.
    pub half_open: u32,
    /// Connections in TIME-WAIT (about 100 bytes each, with the table). The oldest ends when a new one needs its entry.
    pub time_wait: u32,
    /// Receive buffer of a connection in bytes: in order and not consumed, and out of order.
    pub receive_buffer: u32,
    /// Out-of-order ranges of one connection.
    pub out_of_order_ranges: u16,
    /// Out-of-order bytes of all connections; a piece of payload counts as 256 at least.
    pub out_of_order_bytes: u32,
    /// Send buffer of a connection in bytes; a piece of payload counts as 256 at least.
    pub send_buffer: u32,
    /// Challenge ACKs per second of the whole stack (RFC 5961 section 7). The limit of each second is a random number
    /// from half of it on, so that a third party cannot count the challenges of another connection.
    pub challenge_acks: u32,
    /// Time of a connection after it has answered a segment without data outside its window, in which it answers no
    /// other: two ends that disagree about their numbers would exchange acknowledgements without end.
    pub challenge_interval: Duration,
    /// Fast Open cookies of servers that are remembered.
    pub fast_open_cookies: u32,
    /// Resets and ICMP errors per second of the whole stack.
    pub errors: u32,
    /// Neighbour cache entries.
    pub neighbours: u32,
    /// Packets that wait for one neighbour's address. SYNs do not count: their connections wait.
    pub neighbour_queue: u32,
    /// Paths: destinations with their route, neighbour and path MTU.
    pub paths: u32,
    /// Datagrams under reassembly.
    pub reassemblies: u32,
    /// Fragments of one datagram.
    pub fragments: u16,
    /// Bytes held for reassembly.
    pub reassembly_bytes: u32,
    /// Time after which an incomplete datagram is discarded (RFC 8200 section 4.5).
    pub reassembly_time: Duration,
    /// Replies and datagrams waiting for room on a link.
    pub outbox: u32,
    /// Sockets of UDP.
    pub udp_sockets: u32,
    /// Events of one UDP socket that the application has not polled.
    pub udp_queue: u32,
    /// Multicast groups joined by sockets. Those of own addresses are not counted.
    pub groups: u32,
    /// IPv6 prefixes of one interface learnt from routers.
    pub prefixes: u32,
    /// IPv6 default routers of one interface.
    pub routers: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            half_open: 4_096,
            time_wait: 32_768,
            receive_buffer: 1 << 20,
            out_of_order_ranges: 64,
            out_of_order_bytes: 64 << 20,
            send_buffer: 4 << 20,
            challenge_acks: 1_000,
            challenge_interval: Duration::from_millis(500),
            fast_open_cookies: 256,
            errors: 1_000,
            neighbours: 1_024,
            neighbour_queue: 16,
            paths: 4_096,
            reassemblies: 64,
            fragments: 64,
            reassembly_bytes: 4 << 20,
            reassembly_time: Duration::from_secs(30),
            outbox: 256,
            udp_sockets: 1_024,
            udp_queue: 256,
            groups: 64,
            prefixes: 16,
            routers: 8,
        }
    }
}
