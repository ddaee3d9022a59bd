//! Two stacks exchange streams over a network whose every action comes from a script: it delivers, drops, repeats,
//! reorders and damages frames, and lets time pass. Then the network heals.
//!
//! Invariants: received bytes are those that were sent, and once the network heals, all streams arrive and all
//! connections end.

use super::app::{After, App, Plan, SERVICE, Side};
use super::link::Port;
use super::net::{Host, Node, Receive, Transmit, flip_bit};
use super::rng::Rng;
use super::stack_segments::Script;
use stack::ip::InterfaceConfig;
use stack::tcp::{CongestionAlgorithm, Options};
use stack::{Address, Cidr, Closed, Config, Endpoint, LinkOffloads, Stack, Time};
use std::time::Duration;

const ORIGIN: Time = Time(1_000_000_000_000);
const ADDRESSES: [Address; 2] = [Address::v4([10, 9, 0, 1]), Address::v4([10, 9, 0, 2])];
/// Longest time without a working network: no connection gives up.
const MAX_OUTAGE: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct InFlight {
    to: usize,
    bytes: Vec<u8>,
    /// Whether a bit was flipped. Several could leave the checksum as it was.
    is_damaged: bool,
}

struct Network {
    now: Time,
    hosts: [Host<App>; 2],
    /// Frames under way.
    frames: Vec<InFlight>,
    rng: Rng,
}

/// Runs a script.
///
/// # Panics
/// If an invariant is violated.
pub fn play(script: &[u8]) {
    let mut script = Script(script);
    let plans = plans(&mut script);
    let hosts = [0, 1].map(|number| host(number, &plans, &mut script));
    let mut network = Network { now: ORIGIN, hosts, frames: Vec::new(), rng: Rng::new(1) };
    while !script.0.is_empty() && network.now < ORIGIN.after(MAX_OUTAGE) {
        network.act(&mut script);
    }
    network.heal();
    for (number, plan) in plans.iter().enumerate() {
        for (host, side) in plan.sides.iter().enumerate() {
            let end = network.hosts[host].app.ends[&number];
            assert_eq!((end.sent, end.received), (side.total(), plan.sides[1 - host].total()));
            assert_eq!(end.reason, Closed::Normally);
        }
    }
}

fn plans(script: &mut Script<'_>) -> Vec<Plan> {
    (0..=(script.byte() % 3))
        .map(|_| {
            let bits = script.byte();
            let side = |script: &mut Script<'_>| Side {
                sends: vec![(After::Received(0), u64::from(script.word() % 8192))],
                chunk: u64::from(script.byte()) * 8 + 1,
                close: if bits & 4 == 0 { After::Received(0) } else { After::Finished },
                linger: Duration::ZERO,
                abort: None,
                pause: None,
                reading: Duration::from_millis(u64::from(bits >> 4)),
            };
            let mut sides = [side(script), side(script)];
            // At least one side closes first.
            sides[0].close = After::Received(0);
            let (opener, is_simultaneous) = (usize::from(bits & 1), bits & 2 != 0);
            Plan { at: ORIGIN, opener, is_simultaneous, sides }
        })
        .collect()
}

fn options(bits: u8) -> Options {
    let has = |bit: u8| bits >> bit & 1 == 1;
    let algorithms = [CongestionAlgorithm::Cubic, CongestionAlgorithm::NewReno, CongestionAlgorithm::Bbr];
    Options {
        congestion: algorithms[usize::from(bits >> 6) % 3],
        no_delay: has(0),
        ecn: has(1),
        timestamps: !has(2),
        sack: !has(3),
        window_scale: !has(4),
        max_segment: if has(5) { 600 } else { u16::MAX },
        user_timeout: Duration::from_mins(20),
        // Longer than the outage, so that a lost acknowledgement of a FIN is repeated.
        time_wait: Duration::from_mins(10),
        ..Options::default()
    }
}

fn host(number: usize, plans: &[Plan], script: &mut Script<'_>) -> Host<App> {
    let (options, bits) = (options(script.byte()), script.byte());
    let mut config = Config::new([number as u8 + 1; 16]);
    config.tcp = options;
    config.limits.receive_buffer = 2000 << (bits & 3);
    config.limits.send_buffer = 2000 << (bits >> 2 & 3);
    let mut stack = Stack::new(config, ORIGIN);
    let mac = wire::MacAddress::new([2, 0, 0, 0, 0, number as u8]);
    let interface = stack.add_interface(InterfaceConfig { mac, mtu: 1500, vlan: None });
    stack.add_address(interface, Cidr { address: ADDRESSES[number], prefix: 24 }, ORIGIN);
    stack.listen(Endpoint::new(ADDRESSES[number], SERVICE), options).expect("listens");
    let app = App::new(number, (ADDRESSES, options), (7, Rng::new(number as u64)), plans);
    let mut port = Port::new(1500);
    if bits & 16 != 0 {
        port.offloads = LinkOffloads { checksum: true, tso4: 16_000, tso6: 16_000, uso: 0 };
    }
    let receive = Receive { lro: if bits & 32 == 0 { 0 } else { 16_000 }, ..Receive::default() };
    let transmit = Transmit { room: 1 + usize::from(bits >> 6) * 8, refill: Duration::from_micros(20) };
    Host::new(stack, interface, port, (receive, transmit), app)
}

impl Network {
    fn act(&mut self, script: &mut Script<'_>) {
        let (action, which) = (script.byte(), usize::from(script.byte()));
        let at = which % self.frames.len().max(1);
        let (before, exists) = (self.now, !self.frames.is_empty());
        match action % 8 {
            0 | 1 if exists => self.deliver(at),
            2 if exists => drop(self.frames.remove(at)),
            3 if exists => self.frames.push(self.frames[at].clone()),
            4 if exists && !self.frames[at].is_damaged => {
                flip_bit(&mut self.frames[at].bytes, &mut self.rng);
                self.frames[at].is_damaged = true;
            }
            5 => self.deliver_all(),
            6 => self.now = self.now.after_micros(1 << (which % 25)),
            _ => self.now = self.now.max(self.wake().min(self.now.after(Duration::from_secs(4)))),
        }
        self.run(before);
    }

    fn deliver(&mut self, at: usize) {
        let frame = self.frames.remove(at);
        self.hosts[frame.to].take(frame.bytes, self.now);
    }

    fn deliver_all(&mut self) {
        for frame in std::mem::take(&mut self.frames) {
            self.hosts[frame.to].take(frame.bytes, self.now);
        }
    }

    fn wake(&self) -> Time {
        self.hosts[0].wake(self.now).min(self.hosts[1].wake(self.now))
    }

    /// Runs the hosts that became due since `before`.
    fn run(&mut self, before: Time) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            if host.wake(before) <= self.now {
                host.run(self.now, &mut self.rng);
                let sent = host.sent().into_iter();
                self.frames.extend(sent.map(|bytes| InFlight { to: 1 - number, bytes, is_damaged: false }));
            }
        }
    }

    /// Delivers everything until all connections ended.
    fn heal(&mut self) {
        for _ in 0..100_000 {
            if self.hosts.iter().all(|host| host.app.is_done()) {
                return;
            }
            let before = self.now;
            if self.frames.is_empty() {
                let next = self.wake();
                assert!(!next.is_never(), "nothing is due, and connections are open");
                self.now = self.now.max(next);
            } else {
                self.now = self.now.after_micros(100);
                self.deliver_all();
            }
            self.run(before);
        }
        panic!("no end: {:?}", self.hosts.each_ref().map(|host| host.app.pending()));
    }
}
