//! Prints the memory and time of many connections:
//! `cargo run --release -p linerate-conntrack --example connections [CONNECTIONS] [WORKERS]`.

use conntrack::{Config, Direction, Nat, Request, State, Tracker, Tuple};
use std::time::Instant;
use wire::Ipv4Fields;

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096_u64
}

/// A TCP segment of one connection.
fn segment(tuple: &Tuple, flags: u8, sequence: u32, acknowledgement: u32) -> [u8; 40] {
    let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) =
        (tuple.source(), tuple.destination())
    else {
        return [0; 40];
    };
    let (total_len, identification, dont_fragment, ttl, protocol) = (40, 1, false, 64, 6);
    let fields = Ipv4Fields { total_len, identification, dont_fragment, ttl, protocol, source, destination };
    let mut packet = [0; 40];
    packet[..20].copy_from_slice(&fields.header());
    packet[20..22].copy_from_slice(&tuple.ports().0.to_be_bytes());
    packet[22..24].copy_from_slice(&tuple.ports().1.to_be_bytes());
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&acknowledgement.to_be_bytes());
    (packet[32], packet[33], packet[34]) = (0x50, flags, 0x40);
    packet
}

fn tuple(i: u32) -> Tuple {
    let client = std::net::Ipv4Addr::from_bits(0x0a00_0000 | i & 0xff_ffff);
    let ports = ((i.wrapping_mul(0x9e37_79b1) >> 16) as u16 | 1, 80);
    Tuple::new((client.into(), [192, 0, 2, 1].into()), 6, 0).with_ports(ports.0, ports.1)
}

/// Runs `each` for all connections, divided among workers. Prints the time of each call of one worker.
fn run(name: &str, count: u32, workers: u32, each: impl Fn(u32) + Sync) {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let each = &each;
            scope.spawn(move || (worker..count).step_by(workers as usize).for_each(each));
        }
    });
    let nanos = start.elapsed().as_nanos() * u128::from(workers) / u128::from(count.max(1));
    println!("{name:<50} {nanos:>8} ns each");
}

fn measure(name: &str, count: u32, workers: u32, nat: Option<Nat>) {
    let (before, tracker) = (resident(), Tracker::new(&Config { limit: usize::MAX, ..Config::default() }));
    let commit = Request { commit: true, nat, ..Request::default() };
    let look = Request { nat: nat.map(|_| Nat::default()), ..Request::default() };
    let send = |packet: &[u8], request: &Request| {
        // A full range of ports is of no interest here.
        let _ = tracker.track(packet, &State::default(), request, 1);
    };
    run(&format!("{name}: a new connection"), count, workers, |i| {
        send(&segment(&tuple(i), 2, 1, 0), &commit);
    });
    let bytes = (resident() - before) / u64::from(count.max(1));
    println!("{:<50} {bytes:>8} bytes each", format!("{name}: resident memory"));
    run(&format!("{name}: a packet of a connection"), count, workers, |i| {
        send(&segment(&tuple(i), 0x10, 2, 0), &look);
    });
    let start = Instant::now();
    tracker.sweep(1, 1024);
    println!("{:<50} {:>8} ns", format!("{name}: 1024 visits of the sweep"), start.elapsed().as_nanos());
    println!("{name}: {} connections", tracker.len());
}

fn main() {
    let argument = |n: usize| std::env::args().nth(n).and_then(|text| text.parse().ok());
    let (count, workers) = (argument(1).unwrap_or(3_000_000), argument(2).unwrap_or(1));
    measure("plain", count, workers, None);
    let addresses = Some(([198, 51, 100, 0].into(), [198, 51, 100, 255].into()));
    let nat = Nat { direction: Some(Direction::Source), addresses, ..Nat::default() };
    measure("translated", count, workers, Some(nat));
}
