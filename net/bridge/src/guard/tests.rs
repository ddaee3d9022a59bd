//! Tests of the guard rules with all kinds of frames that a guest may send.

use super::*;
use proptest::prelude::*;

const OWN: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const OTHER: [u8; 6] = [0x52, 0x54, 0, 0, 0, 9];
const IP: [u8; 4] = [10, 0, 0, 5];

fn guard(sources: &[&str], trusted: bool) -> Guard {
    let sources = Some(sources.iter().map(|text| text.parse().unwrap()).collect());
    let bridge = BridgeConfig { dhcp_snooping: true, ..BridgeConfig::default() };
    *Guard::of(&bridge, &PortConfig { trusted, sources, ..PortConfig::default() }).unwrap()
}

fn usual() -> Guard {
    guard(&["10.0.0.5", "10.1.0.0/24", "fd00::5", "dhcp"], false)
}

fn inspect(guard: &Guard, frame: &[u8]) -> Result<Option<Reply>, DropReason> {
    let copy = |to: &mut [u8]| {
        let len = frame.len().min(to.len());
        to[..len].copy_from_slice(&frame[..len]);
        frame.len()
    };
    let source = MacAddress::new(frame[6..12].try_into().unwrap());
    let (head, scratch) = (&frame[..frame.len().min(port::HEAD)], &mut [0; MAX_INSPECTED]);
    guard.inspect(&mut Inspected { source, head, second: 100, copy: &copy, scratch })
}

/// Drop reason of the frame; also checks it with one and with two VLAN tags.
#[track_caller]
fn validated(guard: &Guard, frame: &[u8]) -> Option<&'static str> {
    let tag = |frame: &[u8], kind: [u8; 2]| [&frame[..12], &kind, &[0, 7], &frame[12..]].concat();
    let once = tag(frame, [0x81, 0]);
    let twice = tag(&once, [0x88, 0xa8]);
    let reason = inspect(guard, frame).err().map(DropReason::name);
    for tagged in [once, twice] {
        assert_eq!(inspect(guard, &tagged).err().map(DropReason::name), reason, "tagged");
    }
    reason
}

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&[0xff; 6][..], &OWN, &ethertype.to_be_bytes(), payload].concat()
}

fn ipv4(source: [u8; 4], protocol: u8, options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let (words, len) = (5 + options as u8, (20 + 4 * options + payload.len()) as u16);
    let mut header = vec![0x40 | words, 0];
    header.extend(len.to_be_bytes());
    header.extend([0, 0]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend([&source[..], &[255; 4], &vec![1; 4 * options]].concat());
    ethernet(0x0800, &[&header[..], payload].concat())
}

fn ipv6(source: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let source: Ipv6Addr = source.parse().unwrap();
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend([next, 255]);
    header.extend([source.octets(), Ipv6Addr::LOCALHOST.octets()].concat());
    ethernet(0x86dd, &[&header[..], payload].concat())
}

fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    [source.to_be_bytes(), destination.to_be_bytes(), len.to_be_bytes(), [0; 2]]
        .concat()
        .into_iter()
        .chain(payload.iter().copied())
        .collect()
}

fn arp(ethertype: u16, operation: u16, sender: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
    let fixed = [0, 1, 8, 0, 6, 4, 0, operation as u8];
    ethernet(ethertype, &[&fixed[..], &sender, &ip, &[0; 6], &[10, 0, 0, 9], &[0; 18]].concat())
}

/// A DHCP client or server message.
fn dhcp(operation: u8, kind: u8, client: [u8; 6], has: [u8; 4], gets: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..3].copy_from_slice(&[operation, 1, 6]);
    message[12..16].copy_from_slice(&has);
    message[16..20].copy_from_slice(&gets);
    message[28..34].copy_from_slice(&client);
    message.extend([99, 130, 83, 99, 53, 1, kind, 51, 4, 0, 0, 0, 60, 255]);
    message
}

fn nd(source: &str, kind: u8, target: &str, options: &[u8]) -> Vec<u8> {
    let target: Ipv6Addr = target.parse().unwrap();
    ipv6(source, 58, &[&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), options].concat())
}

fn link_layer(kind: u8, mac: [u8; 6]) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}

const LOCAL: &str = "fe80::5054:ff:fe00:1";

#[test]
fn a_port_without_rules_has_no_guard() {
    let of = |bridge: &BridgeConfig, port: &PortConfig| Guard::of(bridge, port).is_some();
    let (plain, snooping) =
        (BridgeConfig::default(), BridgeConfig { dhcp_snooping: true, ..BridgeConfig::default() });
    let own = PortConfig { macs: vec![MacAddress::new(OWN)], ..PortConfig::default() };
    let trusted = PortConfig { trusted: true, ..PortConfig::default() };
    assert!(!of(&plain, &PortConfig::default()) && !of(&plain, &trusted));
    assert!(of(&plain, &own) && of(&snooping, &PortConfig::default()) && of(&snooping, &trusted));
}

#[test]
fn ipv4_source_must_be_listed_with_any_header() {
    let guard = usual();
    for (source, expected) in [
        (IP, None),
        ([10, 1, 0, 200], None),
        ([10, 1, 1, 0], Some("source-violation")),
        ([10, 0, 0, 9], Some("source-violation")),
        ([0; 4], Some("source-violation")),
    ] {
        for (options, fragment) in [(0, 0), (10, 0), (0, 0x2000), (3, 0x2001), (0, 0x00ff)] {
            let frame = ipv4(source, 6, options, fragment, &[0; 40]);
            assert_eq!(validated(&guard, &frame), expected, "{source:?}, {options} words, {fragment:x}");
        }
    }
}

#[test]
fn unparsable_or_non_ip_frames_are_dropped() {
    let guard = usual();
    let whole = ipv4(IP, 17, 0, 0, &udp(1, 2, &[]));
    for len in 14..whole.len() {
        assert_eq!(validated(&guard, &whole[..len]), Some("source-violation"), "{len} bytes");
    }
    for ethertype in [0x0026, 0x8847, 0x8863, 0x88cc, 0x9100] {
        assert_eq!(validated(&guard, &ethernet(ethertype, &[0; 46])), Some("source-violation"));
    }
    let mut short = ipv4(IP, 6, 0, 0, &[0; 40]);
    short[14] = 0x44;
    assert_eq!(validated(&guard, &short), Some("source-violation"), "a header length below twenty bytes");
    let tags = [0x81, 0, 0, 7].repeat(3);
    let deep = [&whole[..12], &tags, &whole[12..]].concat();
    assert_eq!(inspect(&guard, &deep), Err(DropReason::SourceViolation), "three tags");
}

#[test]
fn arp_sender_must_be_listed() {
    let guard = usual();
    let table = [
        (1, OWN, IP, None),
        (2, OWN, IP, None),
        (1, OWN, [0; 4], None),
        (2, OWN, [0; 4], Some("arp-violation")),
        (1, OTHER, IP, Some("arp-violation")),
        (2, OTHER, IP, Some("arp-violation")),
        (2, OWN, [10, 0, 0, 1], Some("arp-violation")),
        (1, OWN, [10, 0, 0, 1], Some("arp-violation")),
    ];
    for (operation, sender, ip, expected) in table {
        assert_eq!(
            validated(&guard, &arp(0x0806, operation, sender, ip)),
            expected,
            "{operation} {sender:?} {ip:?}"
        );
    }
    assert_eq!(validated(&guard, &arp(0x8035, 3, OWN, [0; 4])), None);
    assert_eq!(validated(&guard, &arp(0x8035, 3, OTHER, [0; 4])), Some("arp-violation"));
    assert_eq!(validated(&guard, &arp(0x0806, 1, OWN, IP)[..41]), Some("arp-violation"));
}

#[test]
fn ipv6_source_must_be_listed_or_link_local() {
    let guard = usual();
    let hop_by_hop = |next: u8| [next, 0, 0, 0, 0, 0, 0, 0];
    for (source, expected) in [
        ("fd00::5", None),
        (LOCAL, None),
        ("fd00::6", Some("source-violation")),
        ("fe80::1", Some("source-violation")),
        ("::ffff:10.0.0.5", Some("source-violation")),
        ("::", Some("source-violation")),
    ] {
        assert_eq!(validated(&guard, &ipv6(source, 6, &[0; 20])), expected, "{source}");
        let extended = [&hop_by_hop(60)[..], &hop_by_hop(6), &[0; 20]].concat();
        assert_eq!(validated(&guard, &ipv6(source, 0, &extended)), expected, "{source} with extensions");
    }
    let endless = hop_by_hop(0).repeat(9);
    assert_eq!(
        validated(&guard, &ipv6("fd00::5", 0, &endless)),
        Some("source-violation"),
        "too many extensions"
    );
    let long = [&[17, 30][..], &[0; 246], &udp(547, 9, &[])].concat();
    assert_eq!(validated(&guard, &ipv6("fd00::5", 60, &long)), Some("source-violation"), "beyond the head");
}

#[test]
fn unspecified_source_may_only_solicit_and_report() {
    let guard = usual();
    let detection = nd("::", 135, "fd00::77", &[]);
    assert_eq!(validated(&guard, &detection), None);
    let forged = nd("::", 135, "fd00::77", &link_layer(1, OWN));
    assert_eq!(validated(&guard, &forged), Some("nd-violation"));
    assert_eq!(validated(&guard, &ipv6("::", 58, &[133, 0, 0, 0, 0, 0, 0, 0])), None);
    assert_eq!(validated(&guard, &ipv6("::", 58, &[143, 0, 0, 0, 0, 0, 0, 0])), None);
    for kind in [128, 134, 136] {
        assert_eq!(validated(&guard, &nd("::", kind, "fd00::5", &[])), Some("source-violation"), "{kind}");
    }
}

#[test]
fn neighbor_discovery_sender_must_be_listed_and_no_router() {
    let guard = usual();
    let (own, other) = (link_layer(2, OWN), link_layer(2, OTHER));
    let table = [
        (136, "fd00::5", &own, None),
        (136, LOCAL, &own, None),
        (136, "fd00::1", &own, Some("nd-violation")),
        (136, "fe80::1", &own, Some("nd-violation")),
        (136, "fd00::5", &other, Some("nd-violation")),
        (135, "fd00::1", &link_layer(1, OWN), None),
        (135, "fd00::1", &link_layer(1, OTHER), Some("nd-violation")),
    ];
    for (kind, target, options, expected) in table {
        assert_eq!(validated(&guard, &nd(LOCAL, kind, target, options)), expected, "{kind} for {target}");
    }
    let advertisement = ipv6(LOCAL, 58, &[&[134][..], &[0; 15], &link_layer(1, OWN)].concat());
    assert_eq!(validated(&guard, &advertisement), Some("nd-violation"));
    let redirect = nd(LOCAL, 137, "fd00::1", &[0; 16]);
    assert_eq!(validated(&guard, &redirect), Some("nd-violation"));
    let cut = nd(LOCAL, 136, "fd00::5", &own[..5]);
    assert_eq!(validated(&guard, &cut), Some("nd-violation"));
    let mut trailing = nd(LOCAL, 136, "fd00::5", &other);
    trailing[14 + 5] -= 8;
    assert_eq!(
        validated(&guard, &trailing),
        None,
        "what lies behind the packet's end is not read by a receiver either"
    );
    let router = super::tests::guard(&["fd00::5"], true);
    assert_eq!(validated(&router, &advertisement), None, "a trusted port may advertise");
}

#[test]
fn fragments_of_neighbor_discovery_and_dhcp_are_dropped() {
    let guard = usual();
    let fragment = |next: u8, offset: u16, payload: &[u8]| {
        let header = [&[next, 0][..], &(offset << 3 | 1).to_be_bytes(), &[0; 4]].concat();
        ipv6("fd00::5", 44, &[&header[..], payload].concat())
    };
    let advertisement = [&[136, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    assert_eq!(validated(&guard, &fragment(58, 0, &advertisement)), Some("nd-violation"));
    assert_eq!(validated(&guard, &fragment(17, 0, &udp(547, 546, &[]))), Some("dhcp-violation"));
    assert_eq!(
        validated(&guard, &fragment(60, 0, &[58, 1, 0, 0, 0, 0, 0, 0])),
        Some("source-violation"),
        "an open chain"
    );
    assert_eq!(validated(&guard, &fragment(58, 1, &advertisement)), None, "of no use without the first");
    let server = udp(67, 68, &[0; 8]);
    assert_eq!(validated(&guard, &ipv4(IP, 17, 0, 0x2000, &server)), Some("dhcp-violation"));
    assert_eq!(
        validated(&guard, &ipv4(IP, 17, 0, 0x2000, &server[..4])),
        Some("source-violation"),
        "a tiny fragment"
    );
}

#[test]
fn dhcp_server_packets_are_dropped_by_port() {
    let snooping = BridgeConfig { dhcp_snooping: true, ..BridgeConfig::default() };
    let plain = *Guard::of(&snooping, &PortConfig::default()).unwrap();
    for guard in [&usual(), &plain] {
        for (source, destination) in [(67, 68), (67, 9), (9, 68), (67, 67)] {
            for options in [0, 10] {
                let frame = ipv4(IP, 17, options, 0, &udp(source, destination, &[0; 20]));
                assert_eq!(validated(guard, &frame), Some("dhcp-violation"), "{source} to {destination}");
            }
        }
        for (source, destination) in [(547, 546), (547, 9), (9, 546)] {
            let extended = [&[17, 0, 0, 0, 0, 0, 0, 0][..], &udp(source, destination, &[])].concat();
            assert_eq!(validated(guard, &ipv6("fd00::5", 60, &extended)), Some("dhcp-violation"));
        }
    }
    let any = ipv4([9; 4], 6, 0, 0, &[0; 20]);
    assert_eq!(validated(&plain, &any), None, "without sources, addresses are not looked at");
    assert_eq!(validated(&plain, &any[..30]), Some("dhcp-violation"), "but everything can be read");
}

#[test]
fn dhcp_client_must_use_its_own_mac() {
    let guard = usual();
    let ask =
        |source: [u8; 4], message: &[u8]| validated(&guard, &ipv4(source, 17, 0, 0, &udp(68, 67, message)));
    assert_eq!(ask([0; 4], &dhcp(1, 1, OWN, [0; 4], [0; 4])), None);
    assert_eq!(ask([10, 0, 0, 77], &dhcp(1, 3, OWN, [10, 0, 0, 77], [0; 4])), None, "renews what it has");
    assert_eq!(ask([10, 0, 0, 78], &dhcp(1, 3, OWN, [10, 0, 0, 77], [0; 4])), Some("source-violation"));
    assert_eq!(ask([0; 4], &dhcp(1, 1, OTHER, [0; 4], [0; 4])), Some("dhcp-violation"));
    assert_eq!(ask([0; 4], &dhcp(2, 5, OWN, [0; 4], [0; 4])), Some("dhcp-violation"));
    assert_eq!(ask([0; 4], &dhcp(1, 1, OWN, [0; 4], [0; 4])[..239]), Some("dhcp-violation"));
    let mut relayed = dhcp(1, 1, OWN, [0; 4], [0; 4]);
    relayed[24] = 10;
    assert_eq!(ask([0; 4], &relayed), Some("dhcp-violation"));
    let long = dhcp(1, 1, OWN, [0; 4], [0; 4]).into_iter().chain([0; MAX_INSPECTED]).collect::<Vec<_>>();
    assert_eq!(ask([0; 4], &long), Some("dhcp-violation"));
}

#[test]
fn lease_allows_a_source_until_release() {
    let (guard, leased) = (usual(), [10, 0, 0, 77]);
    let speaks = |ip| validated(&guard, &ipv4(ip, 6, 0, 0, &[0; 20]));
    assert_eq!(speaks(leased), Some("source-violation"));
    assert!(
        guard.bind(leased.into(), 100, 60)
            && guard.holds(leased.into(), 159)
            && !guard.holds(leased.into(), 160)
    );
    assert_eq!((speaks(leased), validated(&guard, &arp(0x0806, 1, OWN, leased))), (None, None));
    let release = ipv4(leased, 17, 0, 0, &udp(68, 67, &dhcp(1, 7, OWN, leased, [0; 4])));
    assert_eq!((validated(&guard, &release), speaks(leased)), (None, Some("source-violation")));
}

#[test]
fn only_trusted_dhcp_replies_are_snooped() {
    let server = guard(&["0.0.0.0/0", "::/0"], true);
    let reply = |message: &[u8]| inspect(&server, &ipv4(IP, 17, 0, 0, &udp(67, 68, message)));
    let leased = Reply { client: MacAddress::new(OTHER), leases: vec![([10, 0, 0, 77].into(), 60)] };
    assert_eq!(reply(&dhcp(2, 5, OTHER, [0; 4], [10, 0, 0, 77])), Ok(Some(leased)));
    for (operation, kind, gets) in [(2, 2, [10, 0, 0, 77]), (1, 5, [10, 0, 0, 77]), (2, 5, [0; 4])] {
        assert_eq!(reply(&dhcp(operation, kind, OTHER, [0; 4], gets)), Ok(None));
    }
    let address: Ipv6Addr = "fd00::77".parse().unwrap();
    let lease = [&[0, 5, 0, 24][..], &address.octets(), &[0, 0, 0, 9, 0, 0, 0, 60]].concat();
    let message = [&[7, 0, 0, 1, 0, 3, 0, 40][..], &[0; 12], &lease].concat();
    let found = inspect(&server, &ipv6("fd00::1", 17, &udp(547, 546, &message)));
    let leases = vec![(IpAddr::V6(address), 60)];
    assert_eq!(found, Ok(Some(Reply { client: MacAddress::BROADCAST, leases })));
}

/// Whether a conforming receiver could find a forbidden source in a frame that has passed.
fn is_forged(frame: &[u8]) -> bool {
    let Some(layers) = wire::Layers::of(frame) else { return false };
    let source = &layers.addresses(frame);
    match layers.version {
        wire::Version::V4 => source[..4] != IP && source[..3] != [10, 1, 0],
        wire::Version::V6 => {
            let source: Ipv6Addr = <[u8; 16]>::try_from(&source[..16]).unwrap().into();
            let own = ["fd00::5", LOCAL].map(|text| text.parse::<Ipv6Addr>().unwrap());
            !own.contains(&source) && !source.is_unspecified()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn passed_frames_have_allowed_sources(
        base in 0usize..6, cut in 14usize..200, edits in prop::collection::vec((12usize..90, prop_oneof![Just(0u8), Just(0x81), Just(44), Just(60), any::<u8>()]), 0..6),
    ) {
        let bases = [
            ipv4(IP, 17, 2, 0, &udp(1, 2, &[0; 60])),
            ipv4([10, 9, 9, 9], 6, 0, 0, &[0; 60]),
            ipv6("fd00::5", 60, &[58, 0, 0, 0, 0, 0, 0, 0, 135, 0, 0, 0, 0, 0, 0, 0, 0]),
            nd(LOCAL, 136, "fd00::5", &link_layer(2, OWN)),
            arp(0x0806, 2, OWN, IP),
            ipv4([0; 4], 17, 0, 0, &udp(68, 67, &dhcp(1, 1, OWN, [0; 4], [0; 4]))),
        ];
        let mut frame = bases[base].clone();
        for (at, value) in edits {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut);
        let asks = base == 5;
        if inspect(&usual(), &frame).is_ok() && !asks {
            prop_assert!(!is_forged(&frame), "{:02x?}", frame);
        }
    }
}
