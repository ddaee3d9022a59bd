//! Runner of scripts: calls and inbound packets at their time, and outbound packets compared with the script.

use super::calls::{Outcome, SERVICE, Sockets, congestion};
use super::flow::{Flow, differences};
use super::host::Host;
use super::parse::parse;
use super::syntax::{Action, Call, Event, IcmpSpec, PacketSpec, Script, When};
use crate::packet::icmp_error;
use crate::segment::{Segment, flag};
use stack::{Config, Endpoint};
use std::collections::BTreeMap;
use std::time::Duration;

/// Port of a peer that connects, if a script does not name one.
const PEER: u16 = 40_000;
/// Difference from the time of a script that is accepted, in microseconds.
const TOLERANCE: u64 = 4_000;

type Error = (usize, String);

/// Runs a script. An error names the line, and the expected and the actual packet or result.
pub(crate) fn run(text: &str) -> Result<(), Error> {
    let script = parse(text)?;
    let mut runner = Runner::new(&script).map_err(|error| (1, error))?;
    for event in &script.events {
        runner.event(event).map_err(|error| (event.line, error))?;
    }
    let last = script.events.last().map_or(0, |event| event.line);
    runner.finish().map_err(|error| (last, error))
}

/// A call that returns later.
struct Blocked {
    until: u64,
    call: Call,
    line: usize,
}

struct Runner {
    host: Host,
    sockets: Sockets,
    /// Connections by local and remote port.
    flows: BTreeMap<(u16, u16), Flow>,
    /// Ports of packets without port numbers.
    default: (u16, u16),
    blocked: Vec<Blocked>,
    /// Last Fast Open cookie that the stack sent.
    cookie: Vec<u8>,
    /// Time of the last event, in microseconds.
    last: u64,
    tolerance: u64,
}

impl Runner {
    fn new(script: &Script) -> Result<Self, String> {
        let mut config = Config::new(*b"secret of a test");
        script.settings.iter().try_for_each(|(name, value)| set(&mut config, name, value))?;
        let (mut is_v6, mut mtu, mut tolerance) = (false, 1500, TOLERANCE);
        for (name, value) in &script.options {
            let invalid = |_| format!("invalid value {value} of --{name}");
            match name.as_str() {
                "ip_version" => is_v6 = value == "ipv6",
                "mtu" => mtu = value.parse().map_err(invalid)?,
                "tolerance_usecs" => tolerance = value.parse().map_err(invalid)?,
                _ => return Err(format!("unknown option --{name}")),
            }
        }
        let sockets = Sockets::new(config.tcp);
        let host = Host::new(config, is_v6, mtu);
        let (flows, blocked) = (BTreeMap::new(), Vec::new());
        Ok(Self {
            host,
            sockets,
            flows,
            default: (SERVICE, PEER),
            blocked,
            cookie: Vec::new(),
            last: 0,
            tolerance,
        })
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let (from, to) = match event.when {
            When::Absolute(at) => (at, at),
            When::Relative(at) => (self.last + at, self.last + at),
            When::AbsoluteRange(from, to) => (from, to),
            When::RelativeRange(from, to) => (self.last + from, self.last + to),
            When::Any => (0, self.last + 1_000_000_000),
        };
        if let Action::Outbound(spec) = &event.action {
            let at = self.expect(spec, from, to)?;
            self.last = if from == to { to } else { at };
        } else {
            self.advance(to)?;
            self.last = to;
        }
        match &event.action {
            Action::Outbound(_) => Ok(()),
            Action::Inbound(spec) => {
                self.inject(spec);
                Ok(())
            }
            Action::Icmp(spec) => self.icmp(spec),
            Action::Call(call) => self.call(call, event.line),
        }
    }

    /// Runs the stack to a time. It must not send anything before that the script does not name.
    fn advance(&mut self, to: u64) -> Result<(), String> {
        self.host.advance_to(to, false);
        self.sockets.take_events(&mut self.host);
        self.unexpected(to.saturating_sub(self.tolerance))?;
        self.end_blocked(to)
    }

    fn unexpected(&mut self, before: u64) -> Result<(), String> {
        match self.host.sent.front() {
            Some((at, segment)) if *at < before => {
                let (at, segment) = (*at, segment.clone());
                let segment = self.flow(&segment).outbound(&segment);
                Err(format!("unexpected packet\n    {}", notation(at, &segment)))
            }
            _ => Ok(()),
        }
    }

    /// The flow of a segment from the stack.
    fn flow(&mut self, segment: &Segment) -> &mut Flow {
        let ports = (segment.source.port, segment.destination.port);
        self.flow_of(ports)
    }

    fn flow_of(&mut self, (local, remote): (u16, u16)) -> &mut Flow {
        let ends = (Endpoint::new(self.host.local, local), Endpoint::new(self.host.remote, remote));
        self.flows.entry((local, remote)).or_insert_with(|| Flow::new(ends.0, ends.1))
    }

    /// Waits for the next packet and compares it. Returns its time.
    fn expect(&mut self, spec: &PacketSpec, from: u64, to: u64) -> Result<u64, String> {
        let expected = |times: &str| format!("expected packet\n    {times} > {spec}");
        let times = When::AbsoluteRange(from, to).to_string();
        let times = if from == to { When::Absolute(from).to_string() } else { times };
        if self.host.sent.is_empty() {
            self.host.advance_to(to + self.tolerance, true);
        }
        self.sockets.take_events(&mut self.host);
        let Some((at, segment)) = self.host.sent.pop_front() else {
            return Err(format!("{}\n  but none was sent until {}", expected(&times), When::Absolute(to)));
        };
        let flow = self.flow(&segment);
        flow.learn(&segment);
        flow.learn_timestamp(spec, &segment);
        let relative = flow.outbound(&segment);
        if let Some(cookie) = segment.cookie() {
            self.cookie = cookie.to_vec();
        }
        let ports = (segment.source.port, segment.destination.port);
        let is_other = ports != spec.ports.unwrap_or(self.default);
        let is_late = at + self.tolerance < from || at > to + self.tolerance;
        let mut differences = differences(spec, &relative);
        differences.extend(is_other.then_some("ports"));
        differences.extend(is_late.then_some("time"));
        if differences.is_empty() {
            return Ok(at);
        }
        let names = differences.join(", ");
        Err(format!(
            "{}\n  actual packet, which differs in {names}\n    {}",
            expected(&times),
            notation(at, &relative)
        ))
    }

    fn inject(&mut self, spec: &PacketSpec) {
        // The ports of an inbound packet start with the peer's.
        let ports = spec.ports.map_or(self.default, |(remote, local)| (local, remote));
        self.learn();
        let cookie = self.cookie.clone();
        let segment = self.flow_of(ports).inbound(spec, &cookie);
        self.host.inject(&segment);
        self.sockets.take_events(&mut self.host);
    }

    /// Records initial sequence numbers from packets that the script has not named yet.
    fn learn(&mut self) {
        let sent: Vec<_> = self.host.sent.iter().map(|(_, segment)| segment.clone()).collect();
        for segment in sent {
            self.flow(&segment).learn(&segment);
        }
    }

    fn icmp(&mut self, spec: &IcmpSpec) -> Result<(), String> {
        let is_v4 = self.host.local.is_v4();
        let kind = icmp_kind(spec, is_v4)?;
        let flow = self.flow_of(self.default);
        let quoted = Segment {
            source: flow.local,
            destination: flow.remote,
            ecn: 0,
            flags: flag::ACK,
            seq: flow.local_seq(spec.seq),
            ack: 0,
            window: 0,
            urgent: 0,
            options: Vec::new(),
            payload: Vec::new(),
        };
        let error = icmp_error(&Host::frame(&quoted), self.host.remote, kind, spec.mtu.unwrap_or(0).into());
        self.host.receive(&error);
        self.host.pump();
        self.sockets.take_events(&mut self.host);
        Ok(())
    }

    fn call(&mut self, call: &Call, line: usize) -> Result<(), String> {
        let until = call.end.map(|end| match end {
            When::Relative(micros) => self.last + micros,
            When::Absolute(micros) => micros,
            _ => self.last,
        });
        let is_connect = matches!(call.name.as_str(), "connect" | "sendto");
        if let Some(until) = until {
            self.blocked.push(Blocked { until, call: call.clone(), line });
            if !is_connect {
                return Ok(());
            }
        }
        let outcome = self.run_call(call)?;
        if is_connect && let Some((local, remote)) = self.sockets.endpoints(&self.host, descriptor(call)) {
            self.default = (local.port, remote.port);
        }
        if until.is_some() { Ok(()) } else { check(call, outcome) }
    }

    fn run_call(&mut self, call: &Call) -> Result<Outcome, String> {
        let outcome = self.sockets.call(&mut self.host, call)?;
        self.host.pump();
        self.sockets.take_events(&mut self.host);
        Ok(outcome)
    }

    /// Ends calls that return until now.
    fn end_blocked(&mut self, now: u64) -> Result<(), String> {
        while let Some(at) = self.blocked.iter().position(|blocked| blocked.until <= now) {
            let Blocked { call, line, .. } = self.blocked.remove(at);
            let outcome = match call.name.as_str() {
                "connect" => self.sockets.connected(descriptor(&call)),
                _ => self.run_call(&call)?,
            };
            check(&call, outcome).map_err(|error| format!("call of line {line}: {error}"))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), String> {
        let end = self.blocked.iter().map(|blocked| blocked.until).max().unwrap_or(0).max(self.last);
        self.advance(end)?;
        self.unexpected(u64::MAX)
    }
}

fn descriptor(call: &Call) -> i64 {
    match call.arguments.first() {
        Some(super::syntax::Argument::Integer(fd)) => *fd,
        _ => 0,
    }
}

fn notation(at: u64, segment: &Segment) -> String {
    format!("{} > {}", When::Absolute(at), PacketSpec::of(segment))
}

fn check(call: &Call, outcome: Outcome) -> Result<(), String> {
    let is_expected = match (&call.error, outcome) {
        (None, Ok(result)) => result == call.result,
        (Some(expected), Err(error)) => expected == error,
        _ => false,
    };
    let text =
        |result: Result<i64, &str>| result.map_or_else(|error| format!("-1 {error}"), |n| n.to_string());
    let expected = text(call.error.as_deref().map_or(Ok(call.result), Err));
    let (name, actual) = (&call.name, text(outcome));
    if is_expected { Ok(()) } else { Err(format!("expected {name}() = {expected}, actual {actual}")) }
}

/// Type and code of an ICMP error in packetdrill's names.
fn icmp_kind(spec: &IcmpSpec, is_v4: bool) -> Result<(u8, u8), String> {
    let code = spec.code.as_deref().unwrap_or("");
    Ok(match (is_v4, spec.kind.as_str(), code) {
        (true, "unreachable", "net_unreachable") => (3, 0),
        (true, "unreachable", "host_unreachable") => (3, 1),
        (true, "unreachable", "protocol_unreachable") => (3, 2),
        (true, "unreachable", "port_unreachable") => (3, 3),
        (true, "unreachable", "frag_needed") => (3, 4),
        (true, "time_exceeded", _) => (11, 0),
        (true, "source_quench", _) => (4, 0),
        (false, "unreachable", "noroute") => (1, 0),
        (false, "unreachable", "port_unreachable" | "port") => (1, 4),
        (false, "packet_too_big", _) => (2, 0),
        (false, "time_exceeded", _) => (3, 0),
        (_, kind, code) => return Err(format!("unknown ICMP message {kind} {code}")),
    })
}

/// Sets a setting by the name that Linux has for it.
fn set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    let name = name.rsplit('.').next().unwrap_or(name);
    if name == "tcp_congestion_control" {
        config.tcp.congestion = congestion(value)?;
        return Ok(());
    }
    let number: u32 = value.parse().map_err(|_| format!("invalid value {value} for {name}"))?;
    let (tcp, limits) = (&mut config.tcp, &mut config.limits);
    match name {
        "tcp_ecn" => tcp.ecn = number != 0,
        "tcp_timestamps" => tcp.timestamps = number != 0,
        "tcp_sack" => tcp.sack = number != 0,
        "tcp_window_scaling" => tcp.window_scale = number != 0,
        "tcp_fastopen" => tcp.fast_open = number != 0,
        "tcp_rto_min_us" => tcp.min_rto = Duration::from_micros(number.into()),
        "tcp_fin_timeout" => tcp.time_wait = Duration::from_secs(number.into()),
        "tcp_max_syn_backlog" => limits.half_open = number,
        "tcp_challenge_ack_limit" => limits.challenge_acks = number,
        "tcp_max_tw_buckets" => limits.time_wait = number,
        "tcp_rmem" => limits.receive_buffer = number,
        "tcp_wmem" => limits.send_buffer = number,
        _ => return Err(format!("unknown setting {name}")),
    }
    Ok(())
}
