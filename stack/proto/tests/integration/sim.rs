//! Two stacks transfer streams over an impaired network: every byte arrives, and every connection ends.
//!
//! `LINERATE_SEED=N` runs one seed alone; with `LINERATE_TRACE=1` its segments are printed.

use super::app::{App, End, FIRST_PORT, Plan, SERVICE};
use super::counters::outcomes;
use super::link::Port;
use super::net::{Host, Impairments, Net, Receive, Transmit};
use super::rng::Rng;
use conditions::{impairments, limits, offloads, options, receive, transmit};
use plans::plans;
use stack::ip::InterfaceConfig;
use stack::tcp::Options;
use stack::{Address, Cidr, Closed, Config, Counters, Endpoint, Limits, LinkOffloads, Stack, Time};
use std::time::Duration;
use wire::MacAddress;

mod conditions;
mod plans;

pub(crate) use plans::{exchange, half_close, plan_of, requests, side};

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
    let overflowed = net.hosts.iter().map(|host| host.stack.counters()).map(|counters| {
        // Small segments that the application does not read occupy more memory than the window accounts for.
        counters.outbox_full + counters.neighbour_failed + counters.tcp_no_buffer
    });
    let overflowed = overflowed.sum::<u64>();
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
        let is_lost = opener.reason == Closed::TimedOut && opener.sent + opener.received == 0;
        // The peer gave up the handshake, whose last acknowledgement was lost, and its reset ended the connection.
        let is_given_up = ends[1 - plan.opener].is_none()
            && opener.reason == Closed::Reset
            && opener.received == 0
            && net.hosts[1 - plan.opener].stack.counters().tcp_attempt_fails > 0;
        let has_failed = has_loss && (is_lost || is_given_up);
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
    let (seeds, mut counters) = (seeds(20_000, 200), Counters::default());
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
