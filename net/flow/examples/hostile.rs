//! Packets that provoke many masks of the megaflow cache (tuple space explosion: Csikor et al., `CoNEXT` 2019), beside
//! usual ones, for counting instructions: `valgrind --tool=callgrind target/release/examples/hostile KIND BURSTS`. The
//! cost of a packet is the difference of two numbers of bursts, less that of the kind `none`, which only makes packets.

mod idle;

use flow::tables::Modification;
use flow::{Action, Field, FlowCommand, FlowMod, FlowSwitch, Instructions, Match, PortNo};
use idle::Idle;
use port::{Burst, Context, Now, Pipeline, Pipelines, PortId, Verdicts};
use std::process::ExitCode;
use std::sync::Arc;

const BRIDGE: &str = "br0";
/// Packets of a burst.
const PACKETS: u32 = 32;
/// Bursts with many masks before packets of the kind `victim`.
const ATTACK: u32 = 200;
/// Addresses and ports that the flows allow.
const SOURCE: u32 = 0x0a00_0001;
const PORTS: (u16, u16) = (12_345, 80);

fn flow(priority: u16, matching: &Match) -> Modification {
    let apply = vec![Action::Output { port: PortNo(2), max_len: 0 }];
    Modification::Flow(Box::new(FlowMod {
        instructions: Instructions { apply, ..Instructions::default() },
        ..FlowMod::new(FlowCommand::Add, matching, priority)
    }))
}

/// A switch that allows packets by destination port, by source and by source port, and drops all others.
fn switch() -> Result<FlowSwitch, Box<dyn std::error::Error>> {
    let switch = FlowSwitch::new(Arc::new(Idle));
    switch.add_bridge(BRIDGE)?;
    for port in 0..2 {
        switch.add_port(PortId(port), BRIDGE, None)?;
    }
    let udp = Match::any().with(Field::EthType, 0x0800).with(Field::IpProto, 17);
    let flows = [
        flow(9, &udp.with(Field::UdpDst, PORTS.1.into())),
        flow(8, &Match::any().with(Field::EthType, 0x0800).with(Field::Ipv4Src, SOURCE.into())),
        flow(7, &udp.with(Field::UdpSrc, PORTS.0.into())),
    ];
    switch.modify(BRIDGE, &flows, Now(0))?;
    Ok(switch)
}

/// A UDP packet over IPv4.
fn udp(source: u32, ports: (u16, u16)) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0];
    frame.extend(source.to_be_bytes());
    frame.extend([10, 0, 0, 2]);
    let header = wire::checksum::Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&header);
    frame.extend(ports.0.to_be_bytes().into_iter().chain(ports.1.to_be_bytes()));
    frame.extend([0, 26, 0, 0]);
    frame.extend([7; 18]);
    frame
}

/// `value` with another bit at the position `bit`, and random bits below.
fn differing(value: u32, bit: u32, random: u32) -> u32 {
    value ^ 1 << bit ^ random & ((1 << bit) - 1)
}

/// Packet `n` that no flow allows, with a mask of its own among 32 * 16 * 16.
fn hostile(n: u32) -> Vec<u8> {
    let random = n.wrapping_mul(0x9e37_79b1).rotate_left(13);
    let (a, b, c) = (n % 32, n / 32 % 16, n / 512 % 16);
    let port = |value: u16, bit: u32| differing(value.into(), bit, random >> 16) as u16;
    udp(differing(SOURCE, a, random), (port(PORTS.0, b), port(PORTS.1, c)))
}

/// Packet `n` that a flow allows: one of 32 heads, or a head of its own.
fn allowed(n: u32, heads: u32) -> Vec<u8> {
    let n = n % heads;
    udp(0x0b00_0000 | n >> 16, (n as u16, PORTS.1))
}

struct Run {
    worker: Box<dyn Pipeline>,
    burst: Burst,
    verdicts: Verdicts,
    now: Now,
}

impl Run {
    /// Processes bursts of packets, unless only to make them.
    fn send(&mut self, bursts: u32, processes: bool, packet: &dyn Fn(u32) -> Vec<u8>) {
        for first in (0..bursts).map(|burst| burst * PACKETS) {
            self.burst.begin(0);
            (first..first + PACKETS).for_each(|n| _ = self.burst.push_own(&packet(n)));
            if processes {
                self.now = Now(self.now.0 + 10_000);
                self.verdicts.clear();
                let context = Context::received(PortId(0), self.now);
                self.worker.process(&mut self.burst, &context, &mut self.verdicts);
                self.verdicts.finish(self.burst.len());
                self.worker.tick(self.now);
            }
        }
    }
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let bursts = std::env::args().nth(2).and_then(|bursts| bursts.parse().ok()).unwrap_or(1000);
    let switch = switch()?;
    let worker = switch.worker(0);
    let mut run = Run { worker, burst: Burst::new(), verdicts: Verdicts::new(4), now: Now(0) };
    match kind.as_str() {
        "none" => run.send(bursts, false, &hostile),
        "head" => run.send(bursts, true, &|n| allowed(n, PACKETS)),
        "megaflow" => run.send(bursts, true, &|n| allowed(n, u32::MAX)),
        "masks" => run.send(bursts, true, &hostile),
        "victim" => {
            run.send(ATTACK, true, &hostile);
            // New heads, whose megaflow is behind those of the attack.
            run.send(bursts, true, &|n| allowed(n, u32::MAX));
        }
        _ => {
            eprintln!("no kind of packets: `{kind}` is not known; use none, head, megaflow, masks or victim");
            return Ok(ExitCode::from(2));
        }
    }
    let last = Now(run.now.0 + 1_000_000_000);
    run.worker.tick(last);
    println!("{:?}", switch.cache_counts(BRIDGE)?);
    Ok(ExitCode::SUCCESS)
}
