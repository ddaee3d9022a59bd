//! sFlow version 5 (sflow.org, "sFlow Version 5", July 2004): datagrams with samples of packets and of counters.
//!
//! An [`Agent`] gathers samples and returns a datagram when it is full, or a second after its first sample (section 4).
//! Integers are 32 bits wide and in network order, and all data is padded to that (RFC 4506).

mod records;
#[cfg(test)]
mod tests;

pub use records::{FlowSample, InterfaceCounters, Output, Switched};

use crate::MAX_DATAGRAM;
use records::{put, put_address};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum delay of a sample.
const DELAY: Duration = Duration::from_secs(1);
const VERSION: u32 = 5;

/// A source of samples: all interfaces of a bridge.
#[derive(Debug)]
pub struct Agent {
    address: IpAddr,
    /// Tells the agents of one address apart.
    sub_id: u32,
    /// Of the next datagram.
    sequence: u32,
    /// Samples of the next datagram.
    samples: Vec<u8>,
    count: u32,
    /// When the first of them was added.
    first: Duration,
    /// Sequence numbers of the next flow sample and counter sample, by interface.
    sources: BTreeMap<u32, [u32; 2]>,
    datagrams: Vec<Vec<u8>>,
}

impl Agent {
    /// An agent without samples. The pair of `address` and `sub_id` is unique among all agents.
    pub fn new(address: IpAddr, sub_id: u32) -> Self {
        Self {
            address,
            sub_id,
            sequence: 1,
            samples: Vec::new(),
            count: 0,
            first: Duration::ZERO,
            sources: BTreeMap::new(),
            datagrams: Vec::new(),
        }
    }

    /// Address of the agent.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Adds the sample of a packet. `uptime` is the time since the agent started, here and in the other functions.
    pub fn add_flow(&mut self, sample: &FlowSample<'_>, uptime: Duration) {
        let sequence = self.next_of(sample.interface, 0);
        self.add(&sample.encode(sequence), uptime);
    }

    /// Adds the counters of an interface.
    pub fn add_counters(&mut self, counters: &InterfaceCounters, uptime: Duration) {
        let sequence = self.next_of(counters.interface, 1);
        self.add(&counters.encode(sequence), uptime);
    }

    /// Forgets an interface. Its sequence numbers start again if it returns.
    pub fn remove(&mut self, interface: u32) {
        self.sources.remove(&interface);
    }

    /// Ends the datagram if it is due. Returns the time of the next call; `None` if no sample waits.
    pub fn tick(&mut self, uptime: Duration) -> Option<Duration> {
        if self.count > 0 && uptime >= self.first + DELAY {
            self.flush(uptime);
        }
        (self.count > 0).then(|| self.first + DELAY)
    }

    /// Ends the datagram, if it has samples.
    pub fn flush(&mut self, uptime: Duration) {
        if self.count == 0 {
            return;
        }
        let mut datagram = Vec::with_capacity(MAX_DATAGRAM);
        put(&mut datagram, &[VERSION]);
        put_address(&mut datagram, self.address);
        // The time is modulo 2^32 ms.
        put(&mut datagram, &[self.sub_id, self.sequence, uptime.as_millis() as u32, self.count]);
        datagram.append(&mut self.samples);
        self.datagrams.push(datagram);
        (self.sequence, self.count) = (self.sequence.wrapping_add(1), 0);
    }

    /// Takes the datagrams to send, oldest first.
    pub fn take_datagrams(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.datagrams)
    }

    fn next_of(&mut self, interface: u32, kind: usize) -> u32 {
        let next = &mut self.sources.entry(interface).or_insert([1; 2])[kind];
        let sequence = *next;
        *next = next.wrapping_add(1);
        sequence
    }

    fn add(&mut self, sample: &[u8], uptime: Duration) {
        let header = if self.address.is_ipv4() { 28 } else { 40 };
        if header + self.samples.len() + sample.len() > MAX_DATAGRAM {
            self.flush(uptime);
        }
        if self.count == 0 {
            self.first = uptime;
        }
        self.samples.extend_from_slice(sample);
        self.count += 1;
    }
}
