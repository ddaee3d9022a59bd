//! A small sender, receiver and network that drive [`Recovery`] in tests.

use super::*;
use crate::tcp::CongestionAlgorithm;
use alloc::vec::Vec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// First sequence number: numbers wrap during a test.
const FIRST: Seq = Seq(u32::MAX - 50_000);

/// Conditions of the network and of both ends. Times are in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    pub(super) algorithm: CongestionAlgorithm,
    pub(super) seed: u64,
    pub(super) bytes: u32,
    pub(super) mss: u16,
    /// Longest range of one transmission, in segments.
    pub(super) burst: u32,
    pub(super) delay: u64,
    /// Random additional delay of a packet, which reorders.
    pub(super) jitter: u64,
    /// Losses and duplications of 1000 packets, in both directions.
    pub(super) loss: u64,
    pub(super) duplication: u64,
    /// Bytes per second of the bottleneck, and bytes of its queue; 0 for no bottleneck.
    pub(super) rate: u64,
    pub(super) queue: u64,
    /// Length of the queue in bytes from which packets are marked (RFC 3168); 0 for no marks.
    pub(super) mark: u64,
    /// Interval of sending times whose packets arrive only at its end: from, to.
    pub(super) outage: (u64, u64),
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    /// Window that the receiver announces, in bytes.
    pub(super) window: u32,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            algorithm: CongestionAlgorithm::Cubic,
            seed: 1,
            bytes: 1_000_000,
            mss: 1_000,
            burst: 4,
            delay: 10_000,
            jitter: 0,
            loss: 0,
            duplication: 0,
            rate: 0,
            queue: 0,
            mark: 0,
            outage: (0, 0),
            sack: true,
            timestamps: true,
            window: 1 << 20,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Packet {
    Data { start: u32, end: u32, stamp: u64, is_marked: bool, has_cwr: bool },
    Ack { ack: u32, sack: Vec<(u32, u32)>, duplicate: Option<(u32, u32)>, echo: u64, has_ece: bool },
}

/// Received ranges, relative to [`FIRST`].
#[derive(Default)]
struct Receiver {
    ack: u32,
    /// Out-of-order ranges, most recently changed first.
    ranges: Vec<(u32, u32)>,
    echo: u64,
    /// Whether a mark is reported until the sender answers it.
    has_ece: bool,
}

impl Receiver {
    fn receive(&mut self, start: u32, end: u32, stamp: u64, sack: bool) -> Packet {
        let is_known =
            |start: u32, end: u32| end <= self.ack || self.ranges.iter().any(|r| r.0 <= start && end <= r.1);
        let duplicate = (sack && is_known(start, end)).then_some((start, end));
        if start <= self.ack {
            self.echo = self.echo.max(stamp);
        }
        if end > self.ack {
            let mut new = (start.max(self.ack), end);
            self.ranges.retain(|range| {
                let joins = range.0 <= new.1 && new.0 <= range.1;
                if joins {
                    new = (new.0.min(range.0), new.1.max(range.1));
                }
                !joins
            });
            if new.0 <= self.ack { self.ack = new.1 } else { self.ranges.insert(0, new) }
        }
        let sack = if sack { self.ranges.iter().copied().take(3).collect() } else { Vec::new() };
        Packet::Ack { ack: self.ack, sack, duplicate, echo: self.echo, has_ece: self.has_ece }
    }
}

/// A transfer in progress.
pub(super) struct Transfer {
    conditions: Conditions,
    pub(super) recovery: Recovery,
    pub(super) pool: SentPool,
    receiver: Receiver,
    queue: BinaryHeap<Reverse<(u64, u64, bool, Packet)>>,
    /// Microseconds.
    pub(super) now: u64,
    random: u64,
    order: u64,
    una: u32,
    nxt: u32,
    /// Time from which the bottleneck is idle.
    idle_at: u64,
    /// Time of the first retransmission of the data in flight.
    retransmitted_at: Option<u64>,
    /// Data packets to drop: ordinal numbers of transmissions.
    pub(super) drops: Vec<u64>,
    transmissions: u64,
    /// Whether the next new segment answers a mark.
    has_cwr: bool,
    pub(super) reductions: u32,
    pub(super) retransmitted: u64,
    pub(super) timeouts: u32,
    pub(super) probes: u32,
    pub(super) undone: u32,
    /// Data packets that did not arrive.
    pub(super) dropped: u32,
}

impl Transfer {
    pub(super) fn new(conditions: Conditions) -> Self {
        let options =
            Options { congestion: conditions.algorithm, sack: conditions.sack, ..Options::default() };
        Self {
            recovery: Recovery::new(&options, conditions.mss, Time(0)),
            pool: SentPool::new(),
            receiver: Receiver::default(),
            queue: BinaryHeap::new(),
            now: 1_000_000,
            random: conditions.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            order: 0,
            una: 0,
            nxt: 0,
            idle_at: 0,
            retransmitted_at: None,
            drops: Vec::new(),
            transmissions: 0,
            has_cwr: false,
            reductions: 0,
            retransmitted: 0,
            timeouts: 0,
            probes: 0,
            undone: 0,
            dropped: 0,
            conditions,
        }
    }

    fn time(&self) -> Time {
        Time(self.now * 1_000)
    }

    /// Random number below `bound`; 0 if that is 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if bound == 0 { 0 } else { (self.random >> 11) % bound }
    }

    /// Conditions, which can change during a transfer.
    pub(super) fn conditions(&mut self) -> &mut Conditions {
        &mut self.conditions
    }

    pub(super) const fn is_done(&self) -> bool {
        self.una == self.conditions.bytes
    }

    pub(super) const fn acknowledged(&self) -> u32 {
        self.una
    }

    fn put(&mut self, is_data: bool, mut packet: Packet, size: u64) {
        self.transmissions += u64::from(is_data);
        let conditions = self.conditions.clone();
        let is_dropped = is_data && self.drops.contains(&self.transmissions);
        if is_dropped || self.below(1_000) < conditions.loss {
            self.dropped += u32::from(is_data);
            return;
        }
        let mut at = self.now + conditions.delay;
        if (conditions.outage.0..conditions.outage.1).contains(&self.now) {
            at = conditions.outage.1 + conditions.delay;
        }
        if is_data && conditions.rate > 0 {
            let start = self.idle_at.max(self.now);
            if (start - self.now) * conditions.rate / 1_000_000 + size > conditions.queue {
                self.dropped += 1;
                return;
            }
            let queued = (start - self.now) * conditions.rate / 1_000_000;
            if let Packet::Data { is_marked, .. } = &mut packet {
                *is_marked = conditions.mark > 0 && queued > conditions.mark;
            }
            self.idle_at = start + size * 1_000_000 / conditions.rate;
            at = self.idle_at + conditions.delay;
        }
        let copies = 1 + u64::from(self.below(1_000) < conditions.duplication);
        for _ in 0..copies {
            let jitter = self.below(conditions.jitter);
            self.order += 1;
            self.queue.push(Reverse((at + jitter, self.order, is_data, packet.clone())));
        }
    }

    fn send(&mut self, range: &Range<u32>, is_new: bool) {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + u32::from(self.conditions.mss));
            let has_cwr = is_new && core::mem::take(&mut self.has_cwr);
            let data = Packet::Data { start, end, stamp: self.now, is_marked: false, has_cwr };
            self.put(true, data, u64::from(end - start) + 60);
            start = end;
        }
    }

    fn retransmit(&mut self, range: Range<Seq>) {
        let time = self.time();
        self.retransmitted_at.get_or_insert(self.now);
        let relative = range.start.since(FIRST)..range.end.since(FIRST);
        self.retransmitted += u64::from(relative.end - relative.start);
        self.recovery.on_retransmitted(&mut self.pool, range, time);
        self.send(&relative, false);
    }

    fn send_new(&mut self, max: u32) -> bool {
        let room = self.conditions.window.saturating_sub(self.nxt - self.una);
        let bytes = max.min(self.conditions.bytes - self.nxt).min(room);
        if bytes == 0 {
            return false;
        }
        let (range, time) = (self.nxt..self.nxt + bytes, self.time());
        self.nxt = range.end;
        self.recovery.on_sent(&mut self.pool, FIRST + range.start..FIRST + range.end, time);
        self.send(&range, true);
        true
    }

    /// Sends what is allowed.
    pub(super) fn transmit(&mut self) {
        let mss = u32::from(self.conditions.mss);
        loop {
            let allowance = self.recovery.allowance(self.nxt - self.una);
            let burst = (allowance / mss).min(self.conditions.burst) * mss;
            if burst == 0 || self.recovery.paced_until() > self.time() {
                return;
            }
            if let Some(range) = self.recovery.next_lost(&mut self.pool, burst) {
                self.retransmit(range);
            } else if !self.send_new(burst) {
                return;
            }
            self.check();
        }
    }

    fn acknowledge(
        &mut self,
        ack: u32,
        sack: &[(u32, u32)],
        duplicate: Option<(u32, u32)>,
        echo: u64,
        has_ece: bool,
    ) {
        if ack < self.una || self.una == self.nxt {
            return;
        }
        let sack: Vec<_> =
            sack.iter().filter(|r| r.1 > ack).map(|r| (FIRST + r.0.max(ack), FIRST + r.1)).collect();
        let timestamps = self.conditions.timestamps;
        let ack = Ack {
            una: FIRST + self.una,
            ack: FIRST + ack,
            nxt: FIRST + self.nxt,
            sack: &sack,
            duplicate: duplicate.map(|r| (FIRST + r.0, FIRST + r.1)),
            timestamp_rtt: timestamps.then_some((self.now - echo) as u32),
            echoes_original: timestamps.then_some(self.retransmitted_at.is_some_and(|at| echo < at)),
            is_update: false,
            has_ece,
            is_app_limited: self.nxt == self.conditions.bytes,
            now: self.time(),
        };
        let acked = self.recovery.on_ack(&mut self.pool, &ack);
        self.undone += u32::from(acked.is_undone);
        self.reductions += u32::from(acked.is_reduced_by_ece);
        self.has_cwr |= acked.is_reduced_by_ece;
        assert_eq!(acked.has_lost, self.recovery.board.lost() > 0);
        self.una = ack.ack.since(FIRST);
        if self.una == self.nxt {
            self.retransmitted_at = None;
        }
    }

    fn on_timer(&mut self) {
        let time = self.time();
        match self.recovery.on_timer(&mut self.pool, time) {
            LossTimer::Probe => {
                self.probes += 1;
                if !self.send_new(u32::from(self.conditions.mss)) {
                    let start = self.una.max(self.nxt.saturating_sub(u32::from(self.conditions.mss)));
                    self.retransmit(FIRST + start..FIRST + self.nxt);
                }
            }
            LossTimer::Timeout => self.timeouts += 1,
            LossTimer::None | LossTimer::Reordering => {}
        }
    }

    /// Time of the next event in microseconds.
    fn next_at(&self) -> u64 {
        let mut at = self.recovery.deadline().0.div_ceil(1_000);
        let paced = self.recovery.paced_until();
        if paced > self.time() {
            at = at.min(paced.0.div_ceil(1_000));
        }
        self.queue.peek().map_or(at, |next| next.0.0.min(at))
    }

    /// Handles the next event, and sends what is allowed.
    pub(super) fn step(&mut self) {
        let at = self.next_at();
        assert!(
            at < u64::MAX / 1_000,
            "nothing is due, but {} of {} bytes arrived",
            self.una,
            self.conditions.bytes
        );
        self.now = self.now.max(at);
        while let Some(Reverse((time, ..))) = self.queue.peek()
            && *time <= self.now
            && let Some(Reverse((_, _, _, packet))) = self.queue.pop()
        {
            match packet {
                Packet::Data { start, end, stamp, is_marked, has_cwr } => {
                    self.receiver.has_ece = is_marked || self.receiver.has_ece && !has_cwr;
                    let ack = self.receiver.receive(start, end, stamp, self.conditions.sack);
                    self.put(false, ack, 60);
                }
                Packet::Ack { ack, sack, duplicate, echo, has_ece } => {
                    self.acknowledge(ack, &sack, duplicate, echo, has_ece);
                }
            }
            self.check();
        }
        if self.recovery.deadline() <= self.time() {
            self.on_timer();
        }
        self.check();
        self.transmit();
        self.check();
    }

    /// Handles the next event, or starts.
    pub(super) fn step_first(&mut self) {
        if self.nxt == 0 { self.transmit() } else { self.step() }
    }

    /// Runs until a time in microseconds or the end, and returns the window then.
    pub(super) fn run_until(&mut self, time: u64) -> u32 {
        if self.nxt == 0 {
            self.transmit();
        }
        while !self.is_done() && self.next_at() <= time {
            self.step();
        }
        self.now = self.now.max(time);
        self.recovery.window().0
    }

    /// Bytes in flight, as the sender counts them.
    pub(super) fn flight(&self) -> u32 {
        self.nxt - self.una
    }

    /// Runs until everything is acknowledged.
    pub(super) fn run(&mut self) {
        self.transmit();
        for _ in 0..3_000_000 {
            if self.is_done() {
                assert_eq!(self.pool.entries.len(), 0);
                return;
            }
            self.step();
        }
        panic!("{} of {} bytes are acknowledged: {:?}", self.una, self.conditions.bytes, self.conditions);
    }

    /// Compares the scoreboard with its entries, and checks timers and allowance.
    fn check(&self) {
        // A walk over a long scoreboard costs more than the event before it.
        if self.flight() < 100 * u32::from(self.conditions.mss) || self.order.is_multiple_of(64) {
            self.recovery.board.check(&self.pool, FIRST + self.una..FIRST + self.nxt);
        }
        assert_eq!(self.recovery.deadline().is_never(), self.una == self.nxt);
        let (window, threshold) = self.recovery.window();
        let bound = window.max(threshold.min(window * 2)) + u32::from(self.conditions.mss);
        assert!(self.recovery.allowance(self.nxt - self.una) <= bound);
    }
}
