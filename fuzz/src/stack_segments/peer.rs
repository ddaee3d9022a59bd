//! The peer of one connection: its segments, and the numbers that both sides use.

use super::super::app::byte;
use super::super::segment::{Segment, TcpOption, flag};
use super::Script;
use stack::Endpoint;

/// A pair of endpoints, and what both sides have sent.
pub(super) struct Flow {
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    /// Next sequence number of the peer, and of the stack.
    pub(super) next: u32,
    pub(super) stack_next: u32,
    /// Initial sequence numbers that each side has announced.
    pub(super) remote_isn: Vec<u32>,
    pub(super) local_isn: Vec<u32>,
    /// Last timestamps of both sides.
    pub(super) value: u32,
    pub(super) echo: u32,
}

impl Flow {
    /// Sequence number after a segment.
    pub(super) fn end(flags: u8, seq: u32, len: u32) -> u32 {
        let controls = u32::from(flags & flag::SYN != 0) + u32::from(flags & flag::FIN != 0);
        seq.wrapping_add(len).wrapping_add(controls)
    }

    pub(super) fn timestamps(&mut self, step: u32) -> Vec<TcpOption> {
        self.value = self.value.wrapping_add(step);
        vec![TcpOption::Timestamps(self.value, self.echo)]
    }

    pub(super) fn options(&mut self, script: &mut Script<'_>) -> Vec<TcpOption> {
        let bits = script.byte();
        let has = |bit: u8| bits >> bit & 1 == 1;
        let mut options = if has(0) { Vec::new() } else { self.timestamps(delta(script)) };
        if has(1) {
            let start = self.stack_next.wrapping_add(delta(script));
            options.push(TcpOption::Sack(vec![(start, start.wrapping_add(script.word().into()))]));
        }
        if has(2) {
            options.push(TcpOption::Mss(script.word()));
        }
        if has(3) {
            options.push(TcpOption::WindowScale(script.byte()));
        }
        if has(4) {
            options.push(TcpOption::SackOk);
        }
        if has(5) {
            let len = usize::from(script.byte() % 12);
            options.push(TcpOption::FastOpen(script.0.iter().copied().take(len).collect()));
        }
        if has(6) {
            options.push(TcpOption::Other(script.byte().max(2), vec![script.byte()]));
        }
        options
    }

    /// A segment of the peer; its bytes depend on their sequence number only.
    pub(super) fn build(
        &self,
        number: usize,
        (flags, seq, ack): (u8, u32, u32),
        (window, urgent): (u16, u16),
        options: Vec<TcpOption>,
        len: u32,
    ) -> Segment {
        let start = seq.wrapping_add(u32::from(flags & flag::SYN != 0));
        Segment {
            source: self.remote,
            destination: self.local,
            ecn: (urgent & 3) as u8,
            flags,
            seq,
            ack,
            window,
            urgent,
            options,
            payload: (0..len).map(|at| peer_byte(number, start.wrapping_add(at))).collect(),
        }
    }
}

pub(super) fn peer_byte(flow: usize, seq: u32) -> u8 {
    byte(1000 + flow as u64, seq.into())
}

/// A difference from the expected number, often none.
pub(super) fn delta(script: &mut Script<'_>) -> u32 {
    match script.byte() {
        0..=127 => 0,
        128 => 1,
        129 => u32::MAX,
        130 => 1 << 31,
        131 => (1 << 31) - 1,
        132..=159 => u32::from(script.word()),
        160..=187 => u32::from(script.word()).wrapping_neg(),
        188..=199 => (u32::from(script.word()) << 16) | u32::from(script.word()),
        small => u32::from(small).wrapping_sub(228),
    }
}
