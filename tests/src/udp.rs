//! A stream of numbered UDP datagrams to an echo, which shows what was lost, repeated or reordered on its way, and how
//! long nothing came back.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::netns::Netns;

/// Time for the last datagrams to come back.
const DRAIN: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(100);
/// Size of a number in bytes. An echo may join datagrams.
const NUMBER: usize = 8;

/// A running stream.
pub struct Numbered {
    stop: Sender<()>,
    sender: JoinHandle<u64>,
    end: Sender<()>,
    receiver: JoinHandle<Vec<(Instant, u64)>>,
}

/// What came back of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Of them, those that did not come back.
    pub lost: u64,
    /// Came back more than once.
    pub repeated: u64,
    /// Came back after a later one.
    pub reordered: u64,
    /// Longest time between two that came back.
    pub gap: Duration,
}

impl Numbered {
    /// Starts to send a number in each `interval` from a namespace to an echo at `to`.
    pub fn start(netns: &Netns, to: SocketAddr, interval: Duration) -> Numbered {
        netns.enter(move || {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a free port");
            socket.connect(to).expect("a route to the echo");
            socket.set_read_timeout(Some(POLL)).expect("a time limit");
            let sending = socket.try_clone().expect("a second handle");
            let (stop, stopped) = mpsc::channel();
            let (end, ended) = mpsc::channel();
            let sender = std::thread::spawn(move || send(&sending, interval, &stopped));
            let receiver = std::thread::spawn(move || receive(&socket, &ended));
            Numbered { stop, sender, end, receiver }
        })
    }

    /// Ends the stream.
    pub fn stop(self) -> Outcome {
        drop(self.stop);
        let sent = self.sender.join().expect("the sender ends");
        std::thread::sleep(DRAIN);
        drop(self.end);
        outcome(sent, &self.receiver.join().expect("the receiver ends"))
    }
}

fn send(socket: &UdpSocket, interval: Duration, stopped: &Receiver<()>) -> u64 {
    let mut sent = 0_u64;
    while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        // A datagram that cannot be sent counts as lost.
        let _ = socket.send(&sent.to_le_bytes());
        sent += 1;
    }
    sent
}

fn receive(socket: &UdpSocket, ended: &Receiver<()>) -> Vec<(Instant, u64)> {
    let (mut received, mut bytes) = (Vec::new(), vec![0; 65_536]);
    while ended.try_recv() == Err(TryRecvError::Empty) {
        // An error is the end of the time limit, or that the echo does not run: both lose datagrams.
        let len = socket.recv(&mut bytes).unwrap_or(0);
        let (now, (numbers, _)) = (Instant::now(), bytes[..len].as_chunks::<NUMBER>());
        received.extend(numbers.iter().map(|number| (now, u64::from_le_bytes(*number))));
    }
    received
}

fn outcome(sent: u64, received: &[(Instant, u64)]) -> Outcome {
    let distinct: BTreeSet<u64> = received.iter().map(|(_, number)| *number).collect();
    let (mut last, mut reordered) = (None, 0);
    for (_, number) in received {
        reordered += u64::from(last > Some(*number));
        last = last.max(Some(*number));
    }
    Outcome {
        sent,
        lost: sent.saturating_sub(distinct.len() as u64),
        repeated: (received.len() - distinct.len()) as u64,
        reordered,
        gap: received.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or(Duration::MAX),
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { sent, lost, repeated, reordered, gap } = self;
        write!(f, "{lost} of {sent} datagrams lost, {repeated} repeated, {reordered} reordered; ")?;
        write!(f, "longest gap {} ms", gap.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_repeated_and_reordered_numbers_are_counted() {
        let start = Instant::now();
        let at = |ms, number| (start + Duration::from_millis(ms), number);
        let received = [at(0, 0), at(5, 2), at(6, 1), at(7, 2), at(17, 4)];
        let (sent, gap) = (6, Duration::from_millis(10));
        assert_eq!(outcome(sent, &received), Outcome { sent, lost: 2, repeated: 1, reordered: 1, gap });
    }
}
