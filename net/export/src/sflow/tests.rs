use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn sample(header: &[u8]) -> FlowSample<'_> {
    FlowSample {
        interface: 3,
        rate: 400,
        pool: 0x0102_0304,
        drops: 5,
        output: Output::Interface(7),
        switched: Switched { source: (10, 1), destination: (20, 2) },
        frame_len: 1514,
        header,
    }
}

/// The words of a datagram.
fn words(datagram: &[u8]) -> Vec<u32> {
    datagram.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

fn one(add: impl FnOnce(&mut Agent)) -> Vec<u32> {
    let mut agent = Agent::new(AGENT, 9);
    add(&mut agent);
    agent.flush(Duration::from_millis(1234));
    let datagrams = agent.take_datagrams();
    assert_eq!((datagrams.len(), datagrams[0].len() % 4), (1, 0));
    words(&datagrams[0])
}

#[test]
fn a_packet_is_encoded_as_the_specification_says() {
    let words = one(|agent| agent.add_flow(&sample(&[1, 2, 3, 4, 5]), Duration::ZERO));
    let datagram = [5, 1, 0x0a00_0001, 9, 1, 1234, 1];
    let flow = [1, 88, 1, 3, 400, 0x0102_0304, 5, 3, 7, 2];
    let header = [1, 24, 1, 1518, 4, 5, 0x0102_0304, 0x0500_0000];
    let switched = [1001, 16, 10, 1, 20, 2];
    assert_eq!(words, [&datagram[..], &flow, &header, &switched].concat());
}

#[test]
fn counters_are_encoded_as_the_specification_says() {
    let counters = InterfaceCounters {
        interface: 3,
        speed: 10_000_000_000,
        is_up: true,
        rx: ((1 << 32) + 100, 2),
        rx_dropped: 1,
        tx: (300, 4),
    };
    let words = one(|agent| agent.add_counters(&counters, Duration::ZERO));
    let none = u32::MAX;
    let body = [2, 108, 1, 3, 1, 1, 88, 3, 6, 2, 1_410_065_408, 1, 3];
    let rx = [1, 100, 2, none, none, 1, none, none];
    let tx = [0, 300, 4, none, none, none, none, 1];
    assert_eq!(words[7..], [&body[..], &rx, &tx].concat());
}

#[test]
fn outputs_have_the_formats_of_the_specification() {
    for (output, code) in [
        (Output::Interface(7), 7),
        (Output::Interfaces(3), 0x8000_0003),
        (Output::Internal, 0x3fff_ffff),
        (Output::Dropped, 0x4000_0100),
    ] {
        let words = one(|agent| agent.add_flow(&FlowSample { output, ..sample(&[]) }, Duration::ZERO));
        assert_eq!(words[15], code, "{output:?}");
    }
}

#[test]
fn a_datagram_is_sent_one_second_after_its_first_sample() {
    let mut agent = Agent::new(AGENT, 0);
    let at = Duration::from_millis;
    assert_eq!(agent.tick(at(0)), None);
    agent.add_flow(&sample(&[]), at(500));
    agent.add_flow(&sample(&[]), at(1400));
    assert_eq!((agent.tick(at(1499)), agent.take_datagrams().len()), (Some(at(1500)), 0));
    assert_eq!((agent.tick(at(1500)), agent.take_datagrams().len()), (None, 1));
}

/// Sequence numbers of the flow samples and the counter samples of an interface, in a datagram.
fn sequences(words: &[u32], header: usize, interface: u32) -> [Vec<u32>; 2] {
    let (mut found, mut at) = ([vec![], vec![]], header);
    while at < words.len() {
        if words[at + 3] == interface {
            found[words[at] as usize - 1].push(words[at + 2]);
        }
        at += 2 + words[at + 1] as usize / 4;
    }
    assert_eq!(at, words.len(), "samples fill the datagram");
    found
}

proptest! {
    #[test]
    fn datagrams_fit_and_are_numbered(
        is_v6: bool,
        samples in prop::collection::vec((0u32..3, any::<bool>(), 0usize..=256), 1..200),
    ) {
        let address = if is_v6 { Ipv6Addr::LOCALHOST.into() } else { AGENT };
        let mut agent = Agent::new(address, 0);
        for (at, (interface, is_flow, len)) in samples.iter().enumerate() {
            let now = Duration::from_millis(at as u64);
            if *is_flow {
                agent.add_flow(&FlowSample { interface: *interface, ..sample(&vec![7; *len]) }, now);
            } else {
                agent.add_counters(&InterfaceCounters { interface: *interface, ..Default::default() }, now);
            }
        }
        agent.flush(Duration::ZERO);
        let datagrams = agent.take_datagrams();
        let header = if is_v6 { 10 } else { 7 };
        let mut count = 0;
        let mut found: [[Vec<u32>; 2]; 3] = Default::default();
        for (at, datagram) in datagrams.iter().enumerate() {
            prop_assert!(datagram.len() <= MAX_DATAGRAM);
            let words = words(datagram);
            prop_assert_eq!(words[header - 3], at as u32 + 1);
            count += words[header - 1] as usize;
            for (interface, found) in (0..).zip(&mut found) {
                for (all, some) in found.iter_mut().zip(sequences(&words, header, interface)) {
                    all.extend(some);
                }
            }
        }
        prop_assert_eq!(count, samples.len());
        for numbers in found.iter().flatten() {
            prop_assert!(numbers.iter().copied().eq(1..=numbers.len() as u32));
        }
    }
}
