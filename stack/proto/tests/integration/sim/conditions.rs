//! Settings and impairments of a scenario.

use super::START;
use crate::net::{Impairments, Rate, Receive, Transmit};
use crate::rng::Rng;
use stack::tcp::{CongestionAlgorithm, Options};
use stack::{Limits, LinkOffloads};
use std::time::Duration;

pub(super) fn options(rng: &mut Rng) -> Options {
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

pub(super) fn limits(rng: &mut Rng) -> Limits {
    Limits {
        receive_buffer: rng.magnitude(4096..1 << 20) as u32,
        send_buffer: rng.magnitude(4096..1 << 20) as u32,
        out_of_order_ranges: rng.pick(&[1, 4, 64]),
        half_open: rng.pick(&[1, 4096]),
        outbox: rng.pick(&[4, 256]),
        ..Limits::default()
    }
}

pub(super) fn offloads(rng: &mut Rng) -> LinkOffloads {
    let checksum = rng.chance(600);
    let tso = if checksum && rng.chance(700) { rng.pick(&[4000, 16_000, 65_549]) } else { 0 };
    LinkOffloads { checksum, tso4: tso, tso6: tso, uso: 0 }
}

pub(super) fn receive(rng: &mut Rng, is_clean: bool) -> Receive {
    Receive {
        lro: rng.pick(&[0, 0, 8000, 65_549]),
        has_checksum_offload: rng.chance(500),
        has_short_head: rng.chance(500),
        poll: rng.micros(0..200),
        no_buffer: if !is_clean && rng.chance(200) { 20 } else { 0 },
    }
}

pub(super) fn transmit(rng: &mut Rng) -> Transmit {
    Transmit { room: rng.magnitude(1..65) as usize, refill: rng.micros(1..100) }
}

pub(super) fn impairments(rng: &mut Rng, is_clean: bool, is_slow: bool) -> Impairments {
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
