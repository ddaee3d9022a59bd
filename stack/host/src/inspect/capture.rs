//! Capture of selected packets in the loop of a host.

use mem::copy::{Kernel, chosen};
use port::Burst;
use port::pcap::CaptureFeed;
use stack::Endpoint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::Layers;
use wire::checksum::protocol;

/// Packets of a capture. Fragments after the first have no ports and are not captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFilter {
    /// Segments of one TCP connection.
    Connection {
        /// End of this host.
        local: Endpoint,
        /// End of the peer.
        remote: Endpoint,
    },
    /// Packets with this port at the end of this host, of TCP and UDP.
    Port(u16),
}

/// Direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl CaptureFilter {
    /// Whether a frame with this head belongs to the capture.
    fn has(&self, head: &[u8], way: Way) -> bool {
        let Some(layers) = Layers::of(head) else { return false };
        let Some(&[a, b, c, d]) = layers.ports(head) else { return false };
        let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let addresses = layers.addresses(head);
        let (source, target) = addresses.split_at(addresses.len() / 2);
        let [source, target] = [(source, ports[0]), (target, ports[1])];
        let (own, peer) = if way == Way::In { (target, source) } else { (source, target) };
        let is =
            |end: &Endpoint, (address, port): (&[u8], u16)| end.port == port && end.address.wire() == address;
        match self {
            Self::Port(port) => own.1 == *port,
            Self::Connection { local, remote } => {
                layers.protocol == protocol::TCP && is(local, own) && is(remote, peer)
            }
        }
    }
}

/// A capture in progress, in the loop of one host.
pub(crate) struct Capture {
    pub(crate) filter: CaptureFilter,
    pub(crate) feed: CaptureFeed,
    /// Packets that all hosts may still add.
    pub(crate) left: Arc<AtomicU64>,
    /// Zero of the host's clock in nanoseconds since the Unix epoch.
    pub(crate) epoch: u64,
}

impl Capture {
    /// Adds received packets of a burst with loaded heads.
    #[cold]
    pub(crate) fn received<K: Kernel>(&mut self, burst: &Burst, indices: &[u8]) {
        for i in indices.iter().map(|i| usize::from(*i)) {
            if self.takes(burst, i, Way::In) {
                self.feed.received::<K>(burst, i, self.epoch);
            }
        }
        self.feed.notify();
    }

    /// Adds packets that a port has taken.
    #[cold]
    pub(crate) fn sent(&mut self, burst: &Burst, indices: &[u8]) {
        for i in indices.iter().map(|i| usize::from(*i)) {
            if self.takes(burst, i, Way::Out) {
                mem::with_kernel!(chosen(), K => self.feed.sent::<K>(burst, i, self.epoch));
            }
        }
        self.feed.notify();
    }

    /// Whether packet `i` is added.
    fn takes(&self, burst: &Burst, i: usize, way: Way) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.filter.has(burst.head(i), way)
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::Address;

    /// A frame of TCP or UDP from 10.0.0.1:1000 to 10.0.0.2:7.
    fn frame(protocol: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x03, 0xe8, 0, 7]);
        frame.extend([0; 16]);
        frame
    }

    fn end(last: u8, port: u16) -> Endpoint {
        Endpoint::new(Address::v4([10, 0, 0, last]), port)
    }

    #[test]
    fn a_connection_has_its_segments_in_both_directions() {
        let (tcp, udp) = (frame(6), frame(17));
        let own = CaptureFilter::Connection { local: end(2, 7), remote: end(1, 1000) };
        assert!(own.has(&tcp, Way::In) && !own.has(&tcp, Way::Out) && !own.has(&udp, Way::In));
        let of_peer = CaptureFilter::Connection { local: end(1, 1000), remote: end(2, 7) };
        assert!(of_peer.has(&tcp, Way::Out) && !of_peer.has(&tcp, Way::In));
        for (local, remote) in
            [(end(2, 8), end(1, 1000)), (end(3, 7), end(1, 1000)), (end(2, 7), end(1, 1001))]
        {
            assert!(!CaptureFilter::Connection { local, remote }.has(&tcp, Way::In));
        }
    }

    #[test]
    fn a_port_has_packets_of_both_protocols() {
        for protocol in [6, 17] {
            let frame = frame(protocol);
            assert!(
                CaptureFilter::Port(7).has(&frame, Way::In)
                    && CaptureFilter::Port(1000).has(&frame, Way::Out)
            );
            assert!(!CaptureFilter::Port(7).has(&frame, Way::Out));
        }
        assert!(!CaptureFilter::Port(7).has(&frame(1), Way::In) && !CaptureFilter::Port(0).has(&[], Way::In));
    }
}
