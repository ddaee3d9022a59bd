use super::template::Shape;
use super::*;
use crate::MAX_DATAGRAM;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const START: Duration = Duration::from_secs(1_700_000_000);

fn config() -> ExporterConfig {
    ExporterConfig {
        domain: 7,
        point: 9,
        rate: 100,
        active_timeout: Duration::from_mins(1),
        idle_timeout: Duration::from_secs(15),
        max_flows: 4,
    }
}

/// A frame from port 1 to `port`.
fn udp(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x60, 5, 8, 0];
    frame.extend([0x45, 0xb8, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.resize(64, 0);
    frame
}

fn packet(header: &[u8]) -> Packet<'_> {
    Packet { input: 1, output: 2, frame_len: header.len() as u32, header }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Decodes messages as a collector does.
#[derive(Default)]
struct Collector {
    templates: BTreeMap<u16, Vec<(u16, usize)>>,
    /// Values by element, of all data records.
    records: Vec<BTreeMap<u16, Vec<u8>>>,
}

impl Collector {
    fn take(exporter: &mut Exporter) -> Vec<BTreeMap<u16, Vec<u8>>> {
        let mut collector = Self::default();
        exporter.take_messages().iter().for_each(|message| collector.message(message));
        collector.records
    }

    fn message(&mut self, message: &[u8]) {
        assert!(message.len() <= MAX_DATAGRAM);
        assert_eq!((word(message, 0), usize::from(word(message, 2))), (10, message.len()));
        let sequence = u32::from_be_bytes(message[8..12].try_into().unwrap());
        assert_eq!(sequence as usize, self.records.len(), "data records before this message");
        assert_eq!(message[12..16], [0, 0, 0, 7]);
        let mut at = 16;
        while at < message.len() {
            let (id, len) = (word(message, at), usize::from(word(message, at + 2)));
            self.set(id, &message[at + 4..at + len]);
            at += len;
        }
        assert_eq!(at, message.len());
    }

    fn set(&mut self, id: u16, mut set: &[u8]) {
        while !set.is_empty() {
            let (header, count) = match id {
                2 => (4, word(set, 2)),
                3 => (6, word(set, 2)),
                _ => (0, 0),
            };
            if header > 0 {
                let field =
                    |k: usize| (word(set, header + 4 * k), usize::from(word(set, header + 4 * k + 2)));
                self.templates.insert(word(set, 0), (0..count.into()).map(field).collect());
                set = &set[header + 4 * usize::from(count)..];
                continue;
            }
            let mut record = BTreeMap::new();
            for (element, len) in &self.templates[&id] {
                let (value, rest) = set.split_at(*len);
                record.insert(*element, value.to_vec());
                set = rest;
            }
            self.records.push(record);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn number(record: &BTreeMap<u16, Vec<u8>>, element: u16) -> u64 {
    record[&element].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[test]
fn templates_and_the_sampling_rate_are_sent_at_the_start_and_again() {
    let mut exporter = Exporter::new(config(), START);
    let totals = Totals { observed: 1000, selected: 11 };
    for minute in 0..2 {
        exporter.tick(totals, seconds(60 * minute));
        let records = Collector::take_from(&mut exporter, minute as usize);
        let expected =
            [(302, 9), (304, 3), (309, 1), (310, 100), (305, 1), (306, 99), (318, 1000), (319, 11)];
        assert!(expected.iter().all(|(element, value)| number(&records[0], *element) == *value));
        exporter.tick(totals, seconds(60 * minute + 30));
        assert_eq!(exporter.take_messages().len(), 0);
    }
}

impl Collector {
    /// As [`Collector::take`], after `before` data records.
    fn take_from(exporter: &mut Exporter, before: usize) -> Vec<BTreeMap<u16, Vec<u8>>> {
        let mut collector = Self { records: vec![BTreeMap::new(); before], ..Self::default() };
        exporter.take_messages().iter().for_each(|message| collector.message(message));
        collector.records.split_off(before)
    }
}

#[test]
fn a_flow_has_the_fields_of_its_packets() {
    let mut exporter = Exporter::new(config(), START);
    exporter.tick(Totals::default(), Duration::ZERO);
    let frame = udp(53);
    exporter.add(&packet(&frame), seconds(1));
    exporter.add(&packet(&frame), seconds(3));
    exporter.tick(Totals::default(), seconds(17));
    exporter.tick(Totals::default(), seconds(19));
    let records = Collector::take(&mut exporter);
    assert_eq!((records.len(), exporter.flows()), (2, 0));
    let numbers = [
        (138, 9),
        (61, 0),
        (10, 1),
        (14, 2),
        (80, 0x0200_0000_0002),
        (56, 0x0200_0000_0001),
        (256, 0x800),
        (58, 5),
        (243, 5),
        (244, 3),
        (60, 4),
        (192, 64),
        (4, 17),
        (5, 0xb8),
        (195, 46),
        (1, 92),
        (8, 0x0a00_0001),
        (12, 0x0a00_0002),
        (7, 1),
        (11, 53),
        (352, 128),
        (2, 2),
        (152, 1_700_000_001_000),
        (153, 1_700_000_003_000),
        (136, 1),
    ];
    for (element, value) in numbers {
        assert_eq!(number(&records[1], element), value, "element {element}");
    }
    assert_eq!(records[1].len(), numbers.len());
}

#[test]
fn flows_end_by_their_timeouts_and_when_the_cache_is_full() {
    let mut exporter = Exporter::new(config(), START);
    exporter.tick(Totals::default(), Duration::ZERO);
    for second in 0..70 {
        exporter.add(&packet(&udp(1)), seconds(second));
        exporter.tick(Totals::default(), seconds(second));
    }
    for port in 2..7 {
        exporter.add(&packet(&udp(port)), seconds(70));
    }
    assert_eq!(exporter.flows(), 4);
    exporter.finish(seconds(71));
    let records = Collector::take(&mut exporter);
    let flows = records.iter().filter(|record| record.contains_key(&2));
    let found: Vec<_> = flows.map(|flow| [11, 2, 136].map(|element| number(flow, element))).collect();
    let expected = [[1, 61, 2], [1, 9, 5], [2, 1, 5], [3, 1, 4], [4, 1, 4], [5, 1, 4], [6, 1, 4]];
    assert_eq!(found, expected);
}

#[test]
fn without_a_cache_each_packet_is_a_record() {
    for without in [
        ExporterConfig { max_flows: 0, ..config() },
        ExporterConfig { active_timeout: Duration::ZERO, ..config() },
    ] {
        let mut exporter = Exporter::new(without, START);
        exporter.tick(Totals::default(), Duration::ZERO);
        (0..3).for_each(|_| exporter.add(&packet(&udp(1)), Duration::ZERO));
        exporter.finish(Duration::ZERO);
        assert_eq!(Collector::take(&mut exporter).len(), 1 + 3);
    }
}

#[test]
fn each_shape_has_its_own_template_and_short_records() {
    let ids: BTreeSet<_> = Shape::all().map(Shape::id).collect();
    assert_eq!((ids.len(), Shape::all().count()), (18, 18));
    assert!(ids.iter().all(|id| *id > template::OPTIONS_ID));
    for shape in Shape::all() {
        assert!(
            shape.fields().iter().map(|(_, len)| usize::from(*len)).sum::<usize>() <= template::MAX_RECORD
        );
    }
}

/// Frames of all shapes, and arbitrary ones.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ip = prop_oneof![
        (any::<[u8; 8]>(), prop::sample::select(vec![1u8, 6, 17, 132, 47])).prop_map(
            |(addresses, protocol)| {
                [&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0][..], &addresses, &[7; 20]].concat()
            }
        ),
        (any::<[u8; 32]>(), prop::sample::select(vec![6u8, 17, 58, 89])).prop_map(|(addresses, protocol)| {
            [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 64][..], &addresses, &[7; 20]].concat()
        }),
        prop::collection::vec(any::<u8>(), 0..100),
    ];
    (any::<bool>(), ip).prop_map(|(is_tagged, rest)| {
        let tag: &[u8] = if is_tagged { &[0x81, 0, 0, 9] } else { &[] };
        [&[2; 12][..], tag, &rest].concat()
    })
}

proptest! {
    /// The collector checks lengths and sequence numbers.
    #[test]
    fn all_packets_are_reported_once(
        frames in prop::collection::vec((frame(), 0u64..3), 1..150),
        max_flows in 0usize..40,
        timeout in 0u64..20,
    ) {
        let active_timeout = seconds(timeout);
        let mut exporter = Exporter::new(ExporterConfig { active_timeout, max_flows, ..config() }, START);
        let (mut now, mut packets, mut bytes) = (Duration::ZERO, 0, 0);
        for (frame, pause) in &frames {
            now += seconds(*pause);
            exporter.tick(Totals::default(), now);
            exporter.add(&packet(frame), now);
            prop_assert!(exporter.flows() <= max_flows);
            let is_valid = frame.len() >= 14;
            packets += u64::from(is_valid);
            bytes += if is_valid { frame.len() as u64 } else { 0 };
        }
        exporter.finish(now);
        let records = Collector::take(&mut exporter);
        let sum = |element| records.iter().filter(|r| r.contains_key(&element)).map(|r| number(r, element)).sum::<u64>();
        prop_assert_eq!((sum(2), sum(352)), (packets, bytes));
    }
}
