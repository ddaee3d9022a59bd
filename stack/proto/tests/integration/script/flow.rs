//! Translation between the numbers of a script and those of one connection.
//!
//! The initial sequence number of the stack is secret, so the first SYN it sends decides the offset of its numbers, and
//! the first timestamp that a script names decides that of its timestamps.

use super::syntax::{EcnSpec, OptionSpec, PacketSpec};
use crate::app::byte;
use crate::segment::{Segment, TcpOption, flag};
use stack::Endpoint;

/// Initial sequence number of the peer, near the end of the numbers so that they wrap.
const REMOTE_ISN: u32 = 0xffff_fc00;
/// Streams of both sides.
pub(super) const LOCAL: u64 = 1;
pub(super) const REMOTE: u64 = 2;
/// Difference of timestamps, in their ticks of a millisecond, that is accepted.
const TIMESTAMP_TOLERANCE: u32 = 5;

/// A connection of a script.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    local_isn: Option<u32>,
    /// Whether the stack may choose another initial sequence number.
    is_fresh: bool,
    /// Script's sequence number of the peer's last SYN.
    remote_syn: Option<u32>,
    /// Offset of the stack's timestamps.
    timestamp: Option<u32>,
}

impl Flow {
    pub(super) fn new(local: Endpoint, remote: Endpoint) -> Self {
        Self { local, remote, local_isn: None, is_fresh: true, remote_syn: None, timestamp: None }
    }

    /// A segment from the peer. `cookie` stands for the cookie `*`.
    pub(super) fn inbound(&mut self, spec: &PacketSpec, cookie: &[u8]) -> Segment {
        let has_syn = spec.flags & flag::SYN != 0;
        if has_syn && spec.flags & flag::ACK == 0 && self.remote_syn != Some(spec.seq) {
            // Another incarnation of the connection, if the stack answers with a SYN.
            self.is_fresh = true;
            self.remote_syn = Some(spec.seq);
        }
        let start = stream_offset(spec.seq, has_syn);
        Segment {
            source: self.remote,
            destination: self.local,
            ecn: if let EcnSpec::Is(ecn) = spec.ecn { ecn } else { 0 },
            flags: spec.flags,
            seq: spec.seq.wrapping_add(REMOTE_ISN),
            ack: spec.ack.flatten().unwrap_or(0).wrapping_add(self.local_isn.unwrap_or(0)),
            window: spec.window.unwrap_or(u16::MAX),
            urgent: spec.urgent,
            options: spec
                .options
                .iter()
                .flatten()
                .map(|option| self.inbound_option(option, cookie))
                .collect(),
            payload: (0..spec.len.into()).map(|at| byte(REMOTE, start.wrapping_add(at))).collect(),
        }
    }

    fn inbound_option(&self, option: &OptionSpec, cookie: &[u8]) -> TcpOption {
        let isn = self.local_isn.unwrap_or(0);
        match option {
            OptionSpec::Is(TcpOption::Sack(blocks)) => {
                let blocks = blocks.iter().map(|(a, b)| (a.wrapping_add(isn), b.wrapping_add(isn)));
                TcpOption::Sack(blocks.collect())
            }
            OptionSpec::Is(TcpOption::Timestamps(value, echo)) => {
                let offset = if *echo == 0 { 0 } else { self.timestamp.unwrap_or(0) };
                TcpOption::Timestamps(*value, echo.wrapping_add(offset))
            }
            OptionSpec::Is(option) => option.clone(),
            OptionSpec::Timestamps { value, .. } => TcpOption::Timestamps(value.unwrap_or(0), 0),
            OptionSpec::AnyCookie => TcpOption::FastOpen(cookie.to_vec()),
        }
    }

    /// Sequence number of the stack for a number of the script.
    pub(super) fn local_seq(&self, seq: u32) -> u32 {
        seq.wrapping_add(self.local_isn.unwrap_or(0))
    }

    /// Records the stack's initial sequence number.
    pub(super) fn learn(&mut self, segment: &Segment) {
        if segment.has(flag::SYN) && self.is_fresh {
            if self.local_isn.replace(segment.seq) != Some(segment.seq) {
                self.timestamp = None;
            }
            self.is_fresh = false;
        }
    }

    /// A segment from the stack, with the numbers of the script.
    pub(super) fn outbound(&mut self, segment: &Segment) -> Segment {
        self.learn(segment);
        let mut relative = segment.clone();
        relative.seq = segment.seq.wrapping_sub(self.local_isn.unwrap_or(0));
        relative.ack =
            if segment.has(flag::ACK) { segment.ack.wrapping_sub(REMOTE_ISN) } else { segment.ack };
        for option in &mut relative.options {
            match option {
                TcpOption::Sack(blocks) => blocks.iter_mut().for_each(|(start, end)| {
                    (*start, *end) = (start.wrapping_sub(REMOTE_ISN), end.wrapping_sub(REMOTE_ISN));
                }),
                TcpOption::Timestamps(value, _) => *value = value.wrapping_sub(self.timestamp.unwrap_or(0)),
                _ => {}
            }
        }
        relative
    }

    /// Records the offset of timestamps from the first value that a script names.
    pub(super) fn learn_timestamp(&mut self, spec: &PacketSpec, segment: &Segment) {
        let named = spec.options.iter().flatten().find_map(|option| match option {
            OptionSpec::Is(TcpOption::Timestamps(value, _))
            | OptionSpec::Timestamps { value: Some(value), .. } => Some(*value),
            _ => None,
        });
        if let (Some(named), Some((actual, _)), None) = (named, segment.timestamps(), self.timestamp) {
            self.timestamp = Some(actual.wrapping_sub(named));
        }
    }
}

/// Offset in its stream of the first byte of a segment.
fn stream_offset(seq: u32, has_syn: bool) -> u64 {
    if has_syn { 0 } else { u64::from(seq).wrapping_sub(1) }
}

/// Compares a segment with the script. Returns the fields that differ.
pub(super) fn differences(spec: &PacketSpec, segment: &Segment) -> Vec<&'static str> {
    let ack = match (spec.ack, segment.has(flag::ACK)) {
        (Some(Some(ack)), true) => ack == segment.ack,
        (Some(None), has) => has,
        (None, has) => !has,
        (Some(Some(_)), false) => false,
    };
    let ecn = match spec.ecn {
        EcnSpec::Any => true,
        EcnSpec::Is(ecn) => segment.ecn == ecn,
        EcnSpec::Capable => matches!(segment.ecn, 1 | 2),
    };
    let window = spec.window.is_none_or(|window| window == segment.window);
    let options = spec.options.as_ref().is_none_or(|options| same_options(options, &segment.options));
    let start = stream_offset(segment.seq, segment.has(flag::SYN));
    let payload = (0..).zip(&segment.payload).all(|(at, got)| *got == byte(LOCAL, start.wrapping_add(at)));
    // A FIN implies PSH (RFC 9293 section 3.10.7.4).
    let flags = (spec.flags ^ segment.flags) & !if segment.has(flag::FIN) { flag::PSH } else { 0 };
    let fields = [
        ("ECN", ecn),
        ("flags", flags == 0),
        ("sequence number", spec.seq == segment.seq),
        ("length", usize::from(spec.len) == segment.payload.len()),
        ("acknowledgement", ack),
        ("window", window),
        ("urgent pointer", spec.urgent == segment.urgent),
        ("options", options),
        ("payload", payload),
    ];
    fields.iter().filter(|(_, is_same)| !is_same).map(|(name, _)| *name).collect()
}

/// Whether both have the same options, apart from padding and order.
fn same_options(spec: &[OptionSpec], actual: &[TcpOption]) -> bool {
    let is_padding = |option: &TcpOption| matches!(option, TcpOption::Nop | TcpOption::Eol);
    let named: Vec<_> =
        spec.iter().filter(|spec| !matches!(spec, OptionSpec::Is(option) if is_padding(option))).collect();
    let actual: Vec<_> = actual.iter().filter(|option| !is_padding(option)).collect();
    named.len() == actual.len()
        && named.iter().all(|spec| actual.iter().any(|actual| same_option(spec, actual)))
}

fn same_option(spec: &OptionSpec, actual: &TcpOption) -> bool {
    let near = |a: u32, b: u32| a.abs_diff(b) <= TIMESTAMP_TOLERANCE;
    match (spec, actual) {
        (OptionSpec::Is(TcpOption::Timestamps(value, echo)), TcpOption::Timestamps(v, e)) => {
            near(*value, *v) && echo == e
        }
        (OptionSpec::Timestamps { value, echo }, TcpOption::Timestamps(v, e)) => {
            value.is_none_or(|value| near(value, *v)) && echo.is_none_or(|echo| echo == *e)
        }
        (OptionSpec::Is(spec), actual) => spec == actual,
        (OptionSpec::AnyCookie, TcpOption::FastOpen(cookie)) => !cookie.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse::parse;
    use crate::script::syntax::Action;
    use stack::Address;

    fn spec(text: &str) -> PacketSpec {
        match parse(&format!("+0 > {text}")).unwrap().events.remove(0).action {
            Action::Outbound(packet) => packet,
            action => panic!("{action:?}"),
        }
    }

    #[test]
    fn numbers_are_relative_to_the_first_syn() {
        let end = |last, port| Endpoint::new(Address::v4([10, 0, 0, last]), port);
        let mut flow = Flow::new(end(1, 8080), end(2, 40000));
        let syn = flow.inbound(&spec("S 0:0(0) <mss 1000,TS val 7 ecr 0>"), &[]);
        assert_eq!((syn.seq, syn.ack, syn.payload.len()), (REMOTE_ISN, 0, 0));
        let options = vec![TcpOption::Mss(1460), TcpOption::Timestamps(5000, 7)];
        let ack = REMOTE_ISN.wrapping_add(1);
        let answer = Segment { seq: 99, ack, flags: flag::SYN | flag::ACK, options, ..syn };
        let expected = spec("S. 0:0(0) ack 1 <TS val 100 ecr 7,nop,nop,mss 1460>");
        flow.learn(&answer);
        flow.learn_timestamp(&expected, &answer);
        let answer = flow.outbound(&answer);
        assert_eq!(differences(&expected, &answer), Vec::<&str>::new());
        let other = spec("S. 0:0(0) ack 2 win 7 <mss 1460>");
        assert_eq!(differences(&other, &answer), ["acknowledgement", "window", "options"]);
        let data = flow.inbound(&spec(". 1:11(10) ack 1 <TS val 8 ecr 100,sack 5:6>"), &[]);
        let options = [TcpOption::Timestamps(8, 5000), TcpOption::Sack(vec![(104, 105)])];
        assert_eq!((data.ack, data.options), (100, options.to_vec()));
        assert_eq!(data.payload[3], byte(REMOTE, 3));
    }
}
