//! Collectors: UDP sockets that never wait.

use crate::dataplane::export_report::CollectorReport;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use tracing::warn;

/// A collector, and what was sent to it.
pub(super) struct Collector {
    socket: Option<UdpSocket>,
    report: CollectorReport,
    /// Whether an error was logged; further ones are counted only.
    is_logged: bool,
}

impl Collector {
    pub(super) fn new(address: SocketAddr) -> Self {
        let report = CollectorReport { address, datagrams: 0, bytes: 0, dropped: 0, errors: 0, error: None };
        let mut collector = Self { socket: None, report, is_logged: false };
        if let Err(error) = collector.open() {
            collector.failed(&error);
        }
        collector
    }

    pub(super) fn report(&self) -> CollectorReport {
        self.report.clone()
    }

    /// Address from which the collector is reached, if there is a route.
    pub(super) fn local(&self) -> Option<IpAddr> {
        Some(self.socket.as_ref()?.local_addr().ok()?.ip())
    }

    /// Sends a datagram, or counts it.
    pub(super) fn send(&mut self, datagram: &[u8]) {
        // The kernel may report an ICMP error about an earlier datagram in place of sending this one.
        for _ in 0..2 {
            match self.open().and_then(|socket| socket.send(datagram)) {
                Ok(_) => {
                    self.report.datagrams += 1;
                    self.report.bytes += datagram.len() as u64;
                    return;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.report.dropped += 1;
                    return;
                }
                Err(error) => {
                    self.failed(&error);
                    if error.kind() != ErrorKind::ConnectionRefused {
                        return;
                    }
                }
            }
        }
    }

    /// The socket. A new one is opened if there is no route to the collector, which may change.
    fn open(&mut self) -> io::Result<&UdpSocket> {
        if self.socket.is_none() {
            let any: IpAddr = match self.report.address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_nonblocking(true)?;
            socket.connect(self.report.address)?;
            self.socket = Some(socket);
        }
        self.socket.as_ref().ok_or_else(|| ErrorKind::NotConnected.into())
    }

    fn failed(&mut self, error: &io::Error) {
        self.report.errors += 1;
        self.report.error = Some(error.to_string());
        if !std::mem::replace(&mut self.is_logged, true) {
            warn!(collector = %self.report.address, %error, "not reached; further errors are counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_and_errors_are_counted() {
        let receiver = UdpSocket::bind("[::1]:0").unwrap();
        let address = receiver.local_addr().unwrap();
        let mut collector = Collector::new(address);
        assert_eq!(collector.local(), Some(Ipv6Addr::LOCALHOST.into()));
        collector.send(&[7; 100]);
        let mut bytes = [0; 200];
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 100);
        drop(receiver);
        // An ICMP error about the second one is reported with the third one, which is sent.
        (0..2).for_each(|_| collector.send(&[7; 100]));
        let report = collector.report();
        assert_eq!((report.datagrams, report.bytes, report.dropped, report.errors), (3, 300, 0, 1));
        assert!(report.error.is_some() && collector.is_logged);
    }
}
