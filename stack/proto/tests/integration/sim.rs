//! Two stacks transfer streams over an impaired network: every byte arrives, and every connection ends.
//!
//! `LINERATE_SEED=N` runs one seed alone; with `LINERATE_TRACE=1` its segments are printed.

use super::app::{After, App, End, FIRST_PORT, Plan, SERVICE, Side};
use super::counters::outcomes;
use super::link::Port;
use super::net::{Host, Impairments, Net, Rate, Receive, Transmit};
use super::rng::Rng;
use stack::ip::InterfaceConfig;
use stack::tcp::{CongestionAlgorithm, Options};
use stack::{Address, Cidr, Closed, Config, Counters, Endpoint, Limits, LinkOffloads, Stack, Time};
use std::time::Duration;
use wire::MacAddress;

/// Limits of a run, so that it ends.
const MAX_TIME: Duration = Duration::from_hours(2);
const MAX_STEPS: u64 = 3_000_000;
/// Start of the simulated time, and of the connections: duplicate address detection has ended by then.
pub(crate) const ORIGIN: Time = Time(1_000_000_000_000);
pub(crate) const START: Time = Time(1_010_000_000_000);

/// Everything that a seed decides.
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) is_v4: bool,
    pub(crate) options: [Options; 2],
    pub(crate) limits: [Limits; 2],
    pub(crate) mtu: [u16; 2],
    pub(crate) offloads: [LinkOffloads; 2],
    pub(crate) receive: [Receive; 2],
    pub(crate) transmit: [Transmit; 2],
    pub(crate) impairments: [Impairments; 2],
    pub(crate) plans: Vec<Plan>,
    pub(crate) rng: Rng,
}

fn both<T>(rng: &mut Rng, make: impl Fn(&mut Rng) -> T) -> [T; 2] {
    [make(rng), make(rng)]
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let is_clean = rng.chance(300);
        let is_slow = rng.chance(300);
        let mut scenario = Self {
            seed,
            is_v4: rng.chance(500),
            options: both(&mut rng, options),
            limits: both(&mut rng, limits),
            mtu: both(&mut rng, |rng| rng.pick(&[1280, 1500, 1500, 9000])),
            offloads: both(&mut rng, offloads),
            receive: both(&mut rng, |rng| receive(rng, is_clean)),
            transmit: both(&mut rng, transmit),
            impairments: both(&mut rng, |rng| impairments(rng, is_clean, is_slow)),
            plans: Vec::new(),
            rng: rng.fork(),
        };
        let is_lossy = |path: &Impairments| path.loss + path.corrupt + path.reorder.0 > 20;
        let is_hard = is_slow || scenario.impairments.iter().any(is_lossy);
        scenario.plans = plans(&mut rng, is_slow, is_hard);
        if !scenario.is_v4 {
            for impairments in &mut scenario.impairments {
                impairments.mtu = impairments.mtu.map(|(at, mtu)| (at, mtu.max(1280)));
            }
        }
        if scenario.plans.iter().any(Plan::may_abort) {
            // The peer of an aborted connection may have nothing to send and miss the reset.
            for options in &mut scenario.options {
                options.keep_alive = Some(Duration::from_secs(20));
            }
        }
        scenario
    }

    fn is_clean(&self) -> bool {
        self.impairments.iter().all(Impairments::is_clean)
            && self.receive.iter().all(|receive| receive.no_buffer == 0)
    }

    pub(crate) fn addresses(&self) -> [Address; 2] {
        [1, 2].map(|last| if self.is_v4 { Address::v4([10, 9, 0, last]) } else { v6(last) })
    }

    pub(crate) fn host(&mut self, number: usize) -> Host<App> {
        let mut secret = [number as u8; 16];
        secret[..8].copy_from_slice(&self.rng.next().to_be_bytes());
        let config =
            Config { limits: self.limits[number].clone(), tcp: self.options[number], ..Config::new(secret) };
        let mut stack = Stack::new(config, ORIGIN);
        let mac = MacAddress::new([2, 0, 0, 0, 0, number as u8]);
        let interface = stack.add_interface(InterfaceConfig { mac, mtu: self.mtu[number], vlan: None });
        let addresses = self.addresses();
        let network = Cidr::new(addresses[number], if self.is_v4 { 24 } else { 64 }).unwrap();
        stack.add_address(interface, network, ORIGIN);
        let service = Endpoint::new(addresses[number], SERVICE);
        stack.listen(service, self.options[number]).expect("listens");
        let mut port = Port::new(self.mtu[number].into());
        port.offloads = self.offloads[number];
        let seeds = (self.seed, self.rng.fork());
        let app = App::new(number, (addresses, self.options[number]), seeds, &self.plans);
        Host::new(stack, interface, port, (self.receive[number].clone(), self.transmit[number].clone()), app)
    }
}

fn v6(last: u8) -> Address {
    let mut octets = [0; 16];
    (octets[0], octets[15]) = (0xfd, last);
    Address::v6(octets)
}

fn options(rng: &mut Rng) -> Options {
    let algorithms = [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic, CongestionAlgorithm::Bbr];
    Options {
        congestion: rng.pick(&algorithms),
        no_delay: rng.chance(500),
        keep_alive: rng.chance(200).then_some(Duration::from_secs(20)),
        max_segment: rng.pick(&[u16::MAX, u16::MAX, 1000, 536]),
        ecn: rng.chance(500),
        timestamps: rng.chance(700),
        sack: rng.chance(700),
        window_scale: rng.chance(700),
        user_timeout: Duration::from_mins(20),
        time_wait: Duration::from_secs(rng.pick(&[60, 120])),
        ..Options::default()
    }
}

fn limits(rng: &mut Rng) -> Limits {
    Limits {
        receive_buffer: rng.magnitude(4096..1 << 20) as u32,
        send_buffer: rng.magnitude(4096..1 << 20) as u32,
        out_of_order_ranges: rng.pick(&[1, 4, 64]),
        half_open: rng.pick(&[1, 4096]),
        outbox: rng.pick(&[4, 256]),
        ..Limits::default()
    }
}

fn offloads(rng: &mut Rng) -> LinkOffloads {
    let checksum = rng.chance(600);
    let tso = if checksum && rng.chance(700) { rng.pick(&[4000, 16_000, 65_549]) } else { 0 };
    LinkOffloads { checksum, tso4: tso, tso6: tso, uso: 0 }
}

fn receive(rng: &mut Rng, is_clean: bool) -> Receive {
    Receive {
        lro: rng.pick(&[0, 0, 8000, 65_549]),
        has_checksum_offload: rng.chance(500),
        has_short_head: rng.chance(500),
        poll: rng.micros(0..200),
        no_buffer: if !is_clean && rng.chance(200) { 20 } else { 0 },
    }
}

fn transmit(rng: &mut Rng) -> Transmit {
    Transmit { room: rng.magnitude(1..65) as usize, refill: rng.micros(1..100) }
}

fn impairments(rng: &mut Rng, is_clean: bool, is_slow: bool) -> Impairments {
    let delay = if is_slow { rng.micros(20_000..300_000) } else { rng.micros(5..5000) };
    if is_clean {
        return Impairments { delay, ..Impairments::default() };
    }
    let mut some = |probability, range| if rng.chance(probability) { rng.magnitude(range) } else { 0 };
    let (loss, duplicate, corrupt) = (some(500, 1..201), some(300, 1..101), some(300, 1..51));
    let reorder = (some(400, 1..301), Duration::from_micros(some(1000, 1..50_000)));
    let jitter = Duration::from_micros(some(300, 1..30_000));
    let rate = rng.chance(400).then(|| rate(rng));
    let mtu = rng.chance(200).then(|| (START.after(rng.micros(0..3_000_000)), rng.within(576..1400) as u16));
    let down = rng.chance(150).then(|| {
        let start = START.after(rng.micros(0..3_000_000));
        (start, start.after(rng.micros(1..20_000_000)))
    });
    Impairments { loss, duplicate, corrupt, reorder, delay, jitter, rate, mtu, down }
}

fn rate(rng: &mut Rng) -> Rate {
    // 4 Mbit/s to 1 Gbit/s.
    let nanos_per_byte = rng.magnitude(8..2000);
    let queue = rng.magnitude(20_000..1_000_000);
    Rate { nanos_per_byte, queue, mark: rng.chance(500).then_some(queue / 4) }
}

fn plans(rng: &mut Rng, is_slow: bool, is_hard: bool) -> Vec<Plan> {
    let many = rng.chance(150);
    let count = if many { rng.within(30..120) } else { rng.within(1..8) };
    let top = match (many || is_slow, rng.chance(50) && !is_hard) {
        (true, _) => 4096,
        (false, false) => 400_000,
        (false, true) => 4_000_000,
    };
    let mut at = START;
    (0..count)
        .map(|_| {
            at = at.after(rng.micros(0..if many { 20_000 } else { 500_000 }));
            plan(rng, at, top)
        })
        .collect()
}

fn plan(rng: &mut Rng, at: Time, top: u64) -> Plan {
    let kind = rng.pick(&[exchange, requests, half_close, slow_reader, aborted, idle, exchange]);
    let mut plan = plan_of(kind, rng, at, top);
    plan.is_simultaneous = rng.chance(80);
    plan
}

/// A plan of one kind, with the details that do not matter to it.
pub(crate) fn plan_of(kind: fn(&mut Rng, u64) -> [Side; 2], rng: &mut Rng, at: Time, top: u64) -> Plan {
    let opener = rng.within(0..2) as usize;
    let [mut first, mut second] = kind(rng, top);
    for side in [&mut first, &mut second] {
        side.chunk = rng.magnitude(1..4096).max(1);
        if rng.chance(200) {
            side.reading = rng.micros(0..20_000);
        }
    }
    let sides = if opener == 0 { [first, second] } else { [second, first] };
    Plan { at, opener, is_simultaneous: false, sides }
}

pub(crate) fn side(sends: Vec<(After, u64)>, close: After) -> Side {
    Side {
        sends,
        chunk: 1000,
        close,
        linger: Duration::ZERO,
        abort: None,
        pause: None,
        reading: Duration::ZERO,
    }
}

/// Bytes of each side at once; each side closes when it has sent all, or after the peer.
pub(crate) fn exchange(rng: &mut Rng, top: u64) -> [Side; 2] {
    let both = both(rng, |rng| (rng.magnitude(1..top), rng.pick(&[After::Received(0), After::Finished])));
    let close = if both[0].1 == After::Finished { After::Received(0) } else { both[1].1 };
    // The side that opened sends first: a connection from a cookie exists when its first data arrives.
    let second = side(vec![(After::Received(1), both[1].0)], close);
    [side(vec![(After::Received(0), both[0].0)], both[0].1), second]
}

/// Requests of one side, each answered by the other.
pub(crate) fn requests(rng: &mut Rng, top: u64) -> [Side; 2] {
    let (mut asks, mut answers, mut asked, mut answered) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..rng.within(1..12) {
        asked += rng.magnitude(1..top / 8);
        asks.push((After::Received(answered), asked));
        answered += rng.magnitude(1..top / 8);
        answers.push((After::Received(asked), answered));
    }
    [side(asks, After::Received(answered)), side(answers, After::Finished)]
}

/// One side sends, closes, and receives the answer after that.
pub(crate) fn half_close(rng: &mut Rng, top: u64) -> [Side; 2] {
    let (first, second) = (rng.magnitude(1..top), rng.magnitude(1..top));
    let answer = side(vec![(After::Finished, second)], After::Finished);
    [side(vec![(After::Received(0), first)], After::Received(0)), answer]
}

/// A reader that stops for a minute, so that its window closes.
fn slow_reader(rng: &mut Rng, top: u64) -> [Side; 2] {
    let [first, mut second] = exchange(rng, top);
    second.pause = Some((first.total() / 4 + 1, rng.micros(1_000_000..60_000_000)));
    [first, second]
}

/// A connection that is idle before it is closed.
fn idle(rng: &mut Rng, top: u64) -> [Side; 2] {
    let mut sides = exchange(rng, top);
    sides[usize::from(rng.chance(500))].linger = rng.micros(10_000_000..200_000_000);
    sides
}

/// A connection that one side aborts.
fn aborted(rng: &mut Rng, top: u64) -> [Side; 2] {
    let mut sides = exchange(rng, top);
    let total = sides[0].total() + sides[1].total();
    let which = usize::from(rng.chance(500));
    sides[which].abort = Some(rng.within(0..total + 1));
    sides
}

/// Runs a seed and checks it. Returns the counters of both stacks.
#[expect(clippy::large_stack_arrays, reason = "two hosts")]
fn run(seed: u64) -> Counters {
    let mut scenario = Scenario::new(seed);
    let hosts = [scenario.host(0), scenario.host(1)];
    let rng = scenario.rng.fork();
    let mut net = Net::new(ORIGIN, hosts, scenario.impairments.clone(), rng);
    let limit = ORIGIN.after(MAX_TIME);
    let mut steps = 0;
    while !net.hosts.iter().all(|host| host.app.is_done()) && net.step(limit) {
        steps += 1;
        assert!(steps < MAX_STEPS, "no end after {steps} steps, at {:?}: {:?}", net.now, pending(&net));
    }
    assert!(
        net.hosts.iter().all(|host| host.app.is_done()),
        "no end until {:?}: {:?}",
        net.now,
        pending(&net)
    );
    // Frames in flight, and TIME-WAIT.
    let rest = net.now.after(Duration::from_mins(5));
    while net.step(rest) {
        steps += 1;
        assert!(steps < MAX_STEPS, "the stacks do not rest");
    }
    check_ends(&scenario, &net);
    let overflowed = net.hosts.iter().map(|host| host.stack.counters());
    let overflowed = overflowed.map(|counters| counters.outbox_full + counters.neighbour_failed).sum::<u64>();
    let mut counters = Counters::default();
    for host in &net.hosts {
        check_host(&scenario, overflowed > 0, host);
        counters.add(host.stack.counters());
    }
    counters
}

fn pending(net: &Net<Host<App>>) -> [Vec<String>; 2] {
    [net.hosts[0].app.pending(), net.hosts[1].app.pending()]
}

fn check_ends(scenario: &Scenario, net: &Net<Host<App>>) {
    let counters = net.hosts.iter().map(|host| host.stack.counters());
    let has_cookies = counters.map(|counters| counters.tcp_cookies_sent).sum::<u64>() > 0;
    let has_loss = scenario.impairments.iter().any(|path| path.loss > 0 || path.down.is_some());
    for (number, plan) in scenario.plans.iter().enumerate() {
        let ends = net.hosts.each_ref().map(|host| host.app.ends.get(&number));
        let opener = ends[plan.opener].expect("a connection ends at its opener");
        // All attempts to connect were lost.
        let has_failed = has_loss && opener.reason == Closed::TimedOut && opener.sent + opener.received == 0;
        for (host, side) in plan.sides.iter().enumerate() {
            let Some(end) = ends[host] else {
                let may_miss =
                    plan.may_abort() || has_failed || opener.reason == Closed::Reset && has_cookies;
                assert!(may_miss, "connection {number} never existed at host {host}");
                continue;
            };
            let received = plan.sides[1 - host].total();
            let all = End { reason: Closed::Normally, sent: side.total(), received, has_finished: true };
            let is_aborted = matches!(end.reason, Closed::Reset | Closed::Aborted | Closed::Refused);
            // A stack without state about a connection cannot match segments that overtake the cookie.
            let is_reset = end.reason == Closed::Reset && has_cookies;
            // The acknowledgement of the last FIN was lost until the peer's TIME-WAIT was over.
            let is_late = has_loss && *end == End { reason: Closed::Reset, ..all };
            let may_differ = plan.may_abort() && is_aborted || is_reset || is_late || has_failed;
            assert!(*end == all || may_differ, "connection {number}, host {host}: {end:?}, {plan:?}");
        }
    }
}

fn check_host(scenario: &Scenario, has_overflowed: bool, host: &Host<App>) {
    assert_eq!(host.app.connections().count(), 0);
    assert_eq!(host.app.leaked(), 0, "sent buffers are not returned");
    let counters: &Counters = host.stack.counters();
    assert_eq!(counters.frames_in, host.frames_in, "frames received");
    assert_eq!(counters.frames_in + counters.reassembled, outcomes(counters), "{counters:?}");
    assert_eq!(counters.frames_out, host.port.frames, "frames sent");
    if scenario.is_clean() && !has_overflowed {
        assert_eq!(counters.tcp_header_errors, 0, "{counters:?}");
        // A probe for a lost tail repeats a segment when the acknowledgement is only late. A peer does not look at the
        // acknowledgement of such a segment, so that a timeout can follow.
        let spurious = counters.tcp_probes + counters.tcp_timeouts;
        assert!(counters.tcp_retransmits == 0 || spurious > 0, "retransmissions without loss: {counters:?}");
        // The initial timeout of a second includes the resolution of the neighbour.
        let round_trip: Duration = scenario.impairments.iter().map(|path| path.delay).sum();
        let may_time_out = counters.tcp_probes > 0 || round_trip > Duration::from_millis(450);
        assert!(counters.tcp_timeouts == 0 || may_time_out, "{counters:?}");
        assert_eq!(counters.tcp_checksum_errors + counters.ip_header_errors, 0, "{counters:?}");
        assert_eq!(counters.tcp_out_of_order_dropped, 0, "{counters:?}");
    }
}

/// Seeds to run: one if `LINERATE_SEED` is set, otherwise `part`, or `whole` if `LINERATE_TESTS` is `all`.
pub(crate) fn seeds(whole: u64, part: u64) -> Vec<u64> {
    let is_all = std::env::var_os("LINERATE_TESTS").is_some_and(|scope| scope == "all");
    match std::env::var("LINERATE_SEED") {
        Ok(seed) => vec![seed.parse().expect("LINERATE_SEED is a number")],
        Err(_) => (0..if is_all { whole } else { part }).collect(),
    }
}

/// Runs each seed, and fails with the numbers of those that fail.
pub(crate) fn run_all(seeds: &[u64], mut run: impl FnMut(u64)) {
    let mut failed = Vec::new();
    for seed in seeds {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(*seed))).is_err() {
            println!("failed: LINERATE_SEED={seed}");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "failed seeds, each alone with LINERATE_SEED: {failed:?}");
}

#[test]
fn every_byte_arrives_and_every_connection_ends() {
    let (seeds, mut counters) = (seeds(20_000, 400), Counters::default());
    run_all(&seeds, |seed| counters.add(&run(seed)));
    if seeds.len() > 1 {
        check_coverage(&counters);
    }
}

/// The seeds together make the stacks count everything that a network and a peer without malice can cause.
fn check_coverage(counters: &Counters) {
    let expected = [
        ("IpInHdrErrors", counters.ip_header_errors),
        ("IcmpInMsgs", counters.icmp_in),
        ("TcpInCsumErrors", counters.tcp_checksum_errors),
        ("TcpRetransSegs", counters.tcp_retransmits),
        ("TcpExtTCPTimeouts", counters.tcp_timeouts),
        ("TcpExtTCPLossProbes", counters.tcp_probes),
        ("TcpExtTCPSpuriousRTOs", counters.tcp_undone),
        ("TcpExtTCPOFOQueue", counters.tcp_out_of_order),
        ("TcpExtTCPOFODrop", counters.tcp_out_of_order_dropped),
        ("TcpExtTCPDSACKOldSent", counters.tcp_duplicates),
        ("TcpExtTCPRcvQDrop", counters.tcp_no_buffer),
        ("TcpExtSyncookiesRecv", counters.tcp_cookies_in),
        ("TcpExtTW", counters.tcp_time_wait),
        ("IpExtInCEPkts", counters.tcp_ce_in),
        ("TcpExtTCPWinProbe", counters.tcp_zero_window_probes),
        ("TcpExtTCPKeepAlive", counters.tcp_keep_alives),
        ("TcpEstabResets", counters.tcp_resets),
    ];
    let missing: Vec<_> = expected.iter().filter(|(_, value)| *value == 0).map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "no seed causes {missing:?}: {counters:?}");
}

#[test]
fn seeds_cover_every_kind_of_plan() {
    let scenarios: Vec<_> = (0..200).map(Scenario::new).collect();
    let any = |test: fn(&Scenario) -> bool| scenarios.iter().any(test);
    assert!(any(|scenario| scenario.is_clean() && scenario.is_v4));
    assert!(any(|scenario| scenario.plans.iter().any(|plan| plan.is_simultaneous)));
    assert!(any(|scenario| scenario.plans.iter().any(Plan::may_abort)));
    assert!(any(|scenario| scenario.plans.len() > 60));
    assert!(any(|scenario| scenario
        .impairments
        .iter()
        .any(|path| path.down.is_some() && path.mtu.is_some())));
    assert!(scenarios.iter().all(|scenario| usize::from(FIRST_PORT) + scenario.plans.len() < 60_000));
}
