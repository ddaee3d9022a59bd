use super::super::description::{Description, Outer, Transport};
use super::super::meter::Meter;
use super::super::sizes::Sizes;
use super::super::tag::TAG;
use super::super::vary::{Amount, Pattern};
use super::*;
use mem::copy::chosen;
use port::Remedy;
use proptest::prelude::*;
use std::net::IpAddr;
use wire::checksum::{Sum, protocol};
use wire::{Ipv4, Layers, Version};

const KEY: u32 = 5;

fn source(streams: &[Description]) -> Source {
    let plans = streams.iter().map(|stream| (stream.plan().unwrap(), None)).collect();
    Source::new(plans, Pace::Constant, 0, 64, KEY).unwrap()
}

/// The frames of a burst.
fn frames(burst: &port::Burst) -> Vec<Vec<u8>> {
    let frame = |i| {
        let mut bytes = vec![0; burst.frame_len(i)];
        let n = mem::with_kernel!(chosen(), K => burst.frame(i).copy_to::<K>(&mut bytes));
        assert_eq!(n, bytes.len());
        bytes
    };
    (0..burst.len()).map(frame).collect()
}

fn made(source: &mut Source, now: u64) -> Vec<Vec<u8>> {
    let mut burst = GeneratedBurst::new();
    mem::with_kernel!(chosen(), K => source.fill::<K>(&mut burst, now));
    frames(&burst)
}

/// Whether both checksums of an IP frame are valid; `udp_zero`: the UDP checksum is zero, as in VXLAN's outer header.
fn is_sound(frame: &[u8], udp_zero: bool) -> bool {
    let layers = Layers::of(frame).unwrap();
    let packet = &frame[layers.network..];
    let network = layers.version == Version::V6
        || Ipv4::new(packet).is_some_and(|view| Sum::of(&packet[..view.header_len()]).finish() == [0, 0]);
    let own = &frame[layers.transport..];
    let mut sum = Sum::pseudo(layers.addresses(frame), layers.protocol, own.len() as u32);
    sum.add(own);
    let transport = match layers.protocol {
        protocol::UDP if udp_zero => own[6..8] == [0, 0],
        protocol::UDP => own[6..8] != [0, 0] && sum.finish() == [0, 0],
        protocol::TCP => sum.finish() == [0, 0],
        _ => true,
    };
    network && transport
}

fn address(version: u8, host: u8) -> IpAddr {
    if version == 4 {
        [198, 18, 0, host].into()
    } else {
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(host)].into()
    }
}

fn any_stream() -> impl Strategy<Value = Description> {
    let transport = prop_oneof![Just(Transport::Udp), Just(Transport::Tcp), Just(Transport::None)];
    let tags = prop::collection::vec(0..4096u16, 0..3);
    (4..=6u8, transport, tags, prop::collection::vec(160..1600u16, 1..4), 1..100_000u32, any::<bool>())
        .prop_map(|(version, transport, vlan, sizes, flows, tunnel)| Description {
            source: address(version & 6, 1),
            destination: address(version & 6, 2),
            transport,
            vlan,
            size: Sizes::List(sizes),
            flows,
            vxlan: tunnel.then(Outer::default),
            vary: [("ttl".to_owned(), Pattern::Random { random: 1, below: None })].into(),
            ..Description::default()
        })
}

#[test]
fn minimum_ipv4_udp_frame_fits_a_tag() {
    let mut source = source(&[Description { size: Sizes::Fixed(60), ..Description::default() }]);
    let all = made(&mut source, 77);
    assert_eq!(all.len(), BURST);
    assert!(all.iter().all(|frame| frame.len() == 60 && is_sound(frame, false)));
    let tag = Tag::read(all[3].last_chunk().unwrap(), KEY).unwrap();
    assert_eq!((tag.stream, tag.sequence, tag.time, tag.warm_up), (0, 3, 77, false));
}

#[test]
fn flows_vary_port_then_address() {
    let flows = 3;
    let mut source = source(&[Description { flows, ..Description::default() }]);
    let ports: Vec<_> = made(&mut source, 0).iter().map(|f| f[34..36].to_vec()).collect();
    assert_eq!(ports[..4], [vec![4, 0], vec![4, 1], vec![4, 2], vec![4, 0]]);
}

#[test]
fn labels_and_tags_are_written_outermost_first() {
    let stream = Description { vlan: vec![10, 20], mpls: vec![5, 6], ..Description::default() };
    let mut source = source(&[Description { size: Sizes::Fixed(100), ..stream }]);
    let frame = &made(&mut source, 0)[0];
    assert_eq!(frame[12..22], [0x88, 0xa8, 0, 10, 0x81, 0, 0, 20, 0x88, 0x47]);
    assert_eq!(frame[22..30], [0, 0, 0x50, 64, 0, 0, 0x61, 64]);
    assert_eq!(Sum::of(&frame[30..50]).finish(), [0, 0]);
}

#[test]
fn streams_alternate_with_separate_counters() {
    let stream = |size| Description { size: Sizes::Fixed(size), ..Description::default() };
    let mut source = source(&[stream(60), stream(300)]);
    let mut burst = GeneratedBurst::new();
    mem::with_kernel!(chosen(), K => source.fill::<K>(&mut burst, 0));
    source.accepted(0, burst.len());
    let sent: Vec<_> = source.sent().map(|sent| (sent.frames, sent.bytes)).collect();
    assert_eq!(sent, [(32, 32 * 60), (32, 32 * 300)]);
}

#[test]
fn streams_of_equal_rate_do_not_send_simultaneously() {
    let mut source = source(&[Description::default(), Description::default()]);
    for pace in [Pace::Constant, Pace::Burst(4), Pace::Poisson(1)] {
        source.begin(false, |_| (Some(1e6), pace), 1_000);
        let mut burst = GeneratedBurst::new();
        // Checks which streams send at each nanosecond of fifty periods.
        let together = (0..50_000).filter(|at| {
            mem::with_kernel!(chosen(), K => source.fill::<K>(&mut burst, 1_000 + at));
            let streams = frames(&burst)
                .iter()
                .map(|frame| Tag::read(frame.last_chunk().unwrap(), KEY).unwrap().stream)
                .collect::<std::collections::BTreeSet<_>>();
            streams.len() > 1
        });
        // Of fifty randomly timed frames per stream, few pairs fall on one nanosecond of a thousand.
        assert!(together.count() < 5, "{pace:?}");
        assert!(source.sent().all(|sent| sent.pacing.done > 20), "{pace:?}");
    }
}

#[test]
fn announcements_cover_all_streams_and_do_not_count() {
    let stream = |size| Description { size: Sizes::Fixed(size), ..Description::default() };
    let answers: Vec<_> = source(&[stream(1500), stream(60), stream(150)]).announcements().collect();
    assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), [64 + TAG, 60, 128]);
    let mut meter = Meter::new(3, KEY);
    for answer in &answers {
        assert_eq!(answer[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        meter.take(answer.last_chunk(), answer.len(), 0);
    }
    assert_eq!((meter.taken(), meter.unidentified().warm_up), (3, 3));
}

#[test]
fn invalid_stream_is_rejected_with_field_and_remedy() {
    let told = |stream: Description| stream.plan().unwrap_err().in_one_line();
    let stream = Description::default;
    let short = Description { size: Sizes::Fixed(60), vlan: vec![1], ..stream() };
    assert_eq!(told(short), "`size`: 60 bytes are too few for these headers and a tag; write 64 or more");
    let vary = |name: &str, pattern| [(name.to_owned(), pattern)].into();
    let list = |values: &[u64]| Pattern::List { list: values.iter().copied().map(Amount::Number).collect() };
    let unknown = told(Description { vary: vary("vlan", list(&[1])), ..stream() });
    assert!(
        unknown.starts_with("`vary`: this stream has no field `vlan`; name one of destination,"),
        "{unknown}"
    );
    let large = told(Description { vary: vary("ttl", list(&[256])), ..stream() });
    assert_eq!(large, "`vary`: 256 is too large for `ttl`; write numbers below 256");
    let both = told(Description { vary: vary("source_port", list(&[1])), flows: 2, ..stream() });
    assert!(both.contains("`source_port` and `source_port` share bytes"), "{both}");
    let many = told(Description { vlan: vec![1, 2, 3, 4, 5], ..stream() });
    assert_eq!(many, "`vlan`: 5 entries are too many; write at most four tags");
    assert!(told(Description { flows: 0, ..stream() }).starts_with("`flows`: 0 is out of range"));
    assert!(told(Description { vlan: vec![4096], ..stream() }).starts_with("`vlan`: 4096"));
    assert!(told(Description { source: address(6, 1), ..stream() }).starts_with("`destination`"));
    assert!(
        told(Description { rate: Some("fast".into()), ..stream() })
            .starts_with("`rate`: `fast` is not a rate")
    );
}

#[test]
fn varying_addresses_are_written() {
    let list = |text: &[&str]| {
        toml::from_str::<Description>(&format!(
            "vary.{} = {{ list = [\"{}\"] }}",
            text[0],
            text[1..].join("\", \"")
        ))
    };
    let mut own = source(&[list(&["source", "10.0.0.1", "10.0.0.9"]).unwrap()]);
    assert_eq!(made(&mut own, 0)[1][26..30], [10, 0, 0, 9]);
    let mut own = source(&[list(&["source_mac", "02:00:00:00:00:07"]).unwrap()]);
    assert_eq!(made(&mut own, 0)[0][6..12], [2, 0, 0, 0, 0, 7]);
    let six = |text: &[&str]| Description {
        source: address(6, 1),
        destination: address(6, 2),
        size: Sizes::Fixed(128),
        ..list(text).unwrap()
    };
    let mut own = source(&[six(&["destination", "2001:db8::1:7"])]);
    assert_eq!(made(&mut own, 0)[0][38..54], "2001:db8::1:7".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let told = |stream: Description| stream.plan().unwrap_err().in_one_line();
    let foreign = told(six(&["source", "2001:db9::1"]));
    assert!(
        foreign.starts_with(
            "`vary`: invalid value 2001:db9::1 for `source`; write a number or an address of 2001:db8::/64"
        ),
        "{foreign}"
    );
    for (field, value) in
        [("ttl", "10.0.0.1"), ("source", "02:00:00:00:00:07"), ("source_mac", "10.0.0.1"), ("source", "::1")]
    {
        let refused = told(list(&[field, value]).unwrap());
        assert!(
            refused.contains(&format!("invalid value {value} for `{field}`; write a number")),
            "{refused}"
        );
    }
}

#[test]
fn fields_set_by_a_capture_are_rejected_by_name() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/pcap/pcap-microseconds");
    let stream = || Description { pcap: Some(capture.into()), ..Description::default() };
    let told = |stream: Description| stream.plan().map(|_| ()).unwrap_err().in_one_line();
    let size = told(Description { size: Sizes::Fixed(128), ..stream() });
    assert_eq!(size, "`size`: conflicts with `pcap`, whose frames determine it; remove one of the two");
    for (key, stream) in [
        ("vlan", Description { vlan: vec![1], ..stream() }),
        ("mpls", Description { mpls: vec![1], ..stream() }),
        ("source", Description { source: address(4, 9), ..stream() }),
        ("flows", Description { flows: 7, ..stream() }),
        ("vxlan", Description { vxlan: Some(Outer::default()), ..stream() }),
    ] {
        assert!(told(stream).starts_with(&format!("`{key}`: conflicts with `pcap`")), "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Frames parse back, their checksums stay valid after restamping, and the meter counts them.
    #[test]
    fn frames_parse_and_are_recognized_by_the_meter(stream in any_stream(), later in 1..1_000_000u64) {
        let tunnel = stream.vxlan.is_some();
        let mut source = source(std::slice::from_ref(&stream));
        let (mut burst, mut meter) = (GeneratedBurst::new(), Meter::new(1, KEY));
        mem::with_kernel!(chosen(), K => {
            source.fill::<K>(&mut burst, 5);
            let before = frames(&burst);
            source.restamp::<K>(&mut burst, 0, later);
            for (i, (old, new)) in before.iter().zip(frames(&burst)).enumerate() {
                for frame in [old, &new] {
                    prop_assert!(is_sound(frame, tunnel), "{frame:02x?}");
                    let layers = Layers::of(frame).unwrap();
                    if tunnel {
                        prop_assert!(is_sound(&frame[layers.transport + 16..], false));
                    }
                }
                prop_assert_eq!(old.len(), burst.frame_len(i));
                let tail = burst.frame(i).tail::<K, TAG>();
                prop_assert_eq!(tail.as_ref(), new.last_chunk());
                meter.take(tail.as_ref(), new.len(), later + 9);
            }
        });
        prop_assert_eq!(meter.received(), BURST as u64);
        prop_assert_eq!(meter.streams()[0].delay.latency().summary().max, 9);
    }

    /// Compares with headers that the library builds for each frame, with its own checksums.
    #[test]
    fn templates_match_etherparse(size in 60..1500usize, flows in 1..50u32, n in 0..BURST) {
        let stream = Description { size: Sizes::Fixed(size as u16), flows, ..Description::default() };
        let frame = &made(&mut source(&[stream]), 1)[n];
        let payload = &frame[42..];
        let port = 1024 + (n as u32 % flows) as u16;
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([198, 18, 0, 1], [198, 19, 0, 1], 64)
            .udp(port, 9);
        let mut expected = Vec::new();
        builder.write(&mut expected, payload).unwrap();
        prop_assert_eq!(frame, &expected);
    }
}
