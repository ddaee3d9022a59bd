//! Ports with LLDP: what they send and when (9.2.5, 9.2.8), and their neighbours.

use crate::frame::Lldpdu;
use crate::table::{Change, Neighbor, Table};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::MacAddress;

/// `msgTxInterval`
const INTERVAL: Duration = Duration::from_secs(30);
/// `msgFastTx`, and the time in which a port may send one more frame (`txCreditMax`).
const FAST_INTERVAL: Duration = Duration::from_secs(1);
/// `txFastInit`: frames after a new neighbour.
const FAST_FRAMES: u8 = 4;
/// `txCreditMax`: frames at once.
const MAX_CREDIT: u8 = 5;
/// Time to live of what is sent: `msgTxInterval` times `msgTxHold`, and a second (9.2.5.22).
const TIME_TO_LIVE: u16 = 30 * 4 + 1;

/// Counters of a port (clause 11, `statsRx` and `statsTx`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Received LLDPDUs.
    pub received: u64,
    /// Received frames that are not valid LLDPDUs.
    pub invalid: u64,
    /// Received LLDPDUs of neighbours for which there was no room.
    pub refused: u64,
    /// Neighbours whose time to live has passed.
    pub aged: u64,
    /// Sent LLDPDUs.
    pub sent: u64,
}

/// The ports of a system.
pub struct Agent {
    source: MacAddress,
    ports: BTreeMap<u16, Port>,
    frames: Vec<(u16, Box<[u8]>)>,
}

struct Port {
    own: Lldpdu,
    is_up: bool,
    neighbors: Table,
    counts: PortCounts,
    /// When the next frame is due.
    due: Duration,
    /// Remaining frames of a fast start.
    fast: u8,
    credit: u8,
    /// When the credit was last raised.
    credited: Duration,
}

impl Agent {
    /// A system without ports, which sends from `source`.
    pub fn new(source: MacAddress) -> Self {
        Self { source, ports: BTreeMap::new(), frames: Vec::new() }
    }

    /// Adds a port, whose link is down, or replaces it. It sends `own`, except for the time to live.
    pub fn add_port(&mut self, number: u16, own: Lldpdu) {
        let port = Port {
            own,
            is_up: false,
            neighbors: Table::default(),
            counts: PortCounts::default(),
            due: Duration::ZERO,
            fast: 0,
            credit: 0,
            credited: Duration::ZERO,
        };
        self.ports.insert(number, port);
    }

    /// Removes a port, and tells its neighbours, which remove it too.
    pub fn remove_port(&mut self, number: u16) {
        if let Some(mut port) = self.ports.remove(&number)
            && port.is_up
        {
            self.frames.push((number, port.frame(0, self.source)));
        }
    }

    /// Sets whether the link of a port is up. A port without link has no neighbours.
    pub fn set_link(&mut self, number: u16, is_up: bool, now: Duration) {
        let Some(port) = self.ports.get_mut(&number).filter(|port| port.is_up != is_up) else { return };
        port.is_up = is_up;
        port.neighbors.clear();
        (port.due, port.fast) = (now, FAST_FRAMES);
        (port.credit, port.credited) = (MAX_CREDIT, now);
    }

    /// Handles a frame that was received on a port.
    pub fn receive(&mut self, number: u16, frame: &[u8], now: Duration) {
        let Some(port) = self.ports.get_mut(&number).filter(|port| port.is_up) else { return };
        let Ok(lldpdu) = Lldpdu::decode(frame) else {
            port.counts.invalid += 1;
            return;
        };
        port.counts.received += 1;
        match port.neighbors.receive(lldpdu, now) {
            // The neighbour learns of this port soon.
            Change::New => (port.fast, port.due) = (FAST_FRAMES, now),
            Change::Refused => port.counts.refused += 1,
            Change::Updated | Change::Removed => {}
        }
    }

    /// Runs the timers up to `now`. Returns the time of the next call; `None` if no timer runs.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        for (number, port) in self.ports.iter_mut().filter(|(_, port)| port.is_up) {
            port.counts.aged += port.neighbors.expire(now) as u64;
            if port.is_due(now) {
                self.frames.push((*number, port.frame(TIME_TO_LIVE, self.source)));
            }
        }
        let up = self.ports.values().filter(|port| port.is_up);
        up.flat_map(|port| [Some(port.due), port.neighbors.deadline()]).flatten().min()
    }

    /// Takes the frames to send since the last call, each with its port.
    pub fn take_frames(&mut self) -> Vec<(u16, Box<[u8]>)> {
        std::mem::take(&mut self.frames)
    }

    /// Neighbours of all ports, each with its port.
    pub fn neighbors(&self) -> impl Iterator<Item = (u16, &Neighbor)> {
        self.ports.iter().flat_map(|(number, port)| port.neighbors.iter().map(move |known| (*number, known)))
    }

    /// Counters of a port; `None` if there is none.
    pub fn counts(&self, number: u16) -> Option<PortCounts> {
        self.ports.get(&number).map(|port| port.counts)
    }
}

impl Port {
    /// Whether a frame is due and allowed now; it is then considered as sent.
    fn is_due(&mut self, now: Duration) -> bool {
        let seconds = now.saturating_sub(self.credited).as_secs();
        self.credited += Duration::from_secs(seconds);
        self.credit = self.credit.saturating_add(u8::try_from(seconds).unwrap_or(MAX_CREDIT)).min(MAX_CREDIT);
        if now < self.due {
            return false;
        }
        if self.credit == 0 {
            self.due = self.credited + FAST_INTERVAL;
            return false;
        }
        self.credit -= 1;
        self.fast = self.fast.saturating_sub(1);
        self.due = now + if self.fast > 0 { FAST_INTERVAL } else { INTERVAL };
        true
    }

    fn frame(&mut self, ttl: u16, source: MacAddress) -> Box<[u8]> {
        self.own.ttl = ttl;
        self.counts.sent += 1;
        self.own.encode(source).into()
    }
}
