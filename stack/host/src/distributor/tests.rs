use super::*;
use proptest::prelude::*;

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

const V4: [u8; 34] = {
    let mut head = [0; 34];
    (head[0], head[6]) = (2, 2);
    (head[12], head[14], head[17], head[22]) = (8, 0x45, 40, 64);
    (head[26], head[30]) = (10, 10);
    head
};

/// A packet of this protocol with these first bytes behind its IPv4 header.
fn v4(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut frame = V4.to_vec();
    frame[23] = protocol;
    frame.extend(rest);
    frame.resize(80, 0);
    frame
}

fn tcp(from: u16, to: u16) -> Vec<u8> {
    v4(6, &[from.to_be_bytes(), to.to_be_bytes()].concat())
}

fn v6(protocol: u8, kind: u8) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, protocol, 255]);
    frame.extend([0xfd; 32]);
    frame.push(kind);
    frame.resize(100, 0);
    frame
}

fn arp(operation: u8, sender: u8, target: u8) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 1, 10, 0, 0, sender]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, target]);
    frame.resize(60, 0);
    frame
}

/// Distributors of four workers. Their port is dropped with the handoff queues' receivers.
fn distributor(rule: FlowSteering, index: usize) -> Distributor {
    distributor_of(rule, index, None)
}

fn distributor_of(rule: FlowSteering, index: usize, activity: Option<Arc<Activity>>) -> Distributor {
    let control = port::null::Null::new(std::time::Instant::now());
    let (port, mut shares) = engine::SharedPort::open("null", Box::new(control), 4, false).unwrap();
    let exchange = shares.swap_remove(index).exchange;
    drop((shares, port));
    Distributor::new(rule, exchange, activity)
}

fn owners(distributor: &Distributor, frames: &[Vec<u8>]) -> Vec<Owner> {
    let stack = Stack::new(stack::Config::new([0; 16]), Time(0));
    let mut burst = Burst::new();
    burst.begin(0);
    for frame in frames {
        assert!(burst.push_own(frame));
    }
    (0..frames.len()).map(|i| distributor.owner(&mut burst, i, &stack, Time(0))).collect()
}

#[test]
fn ephemeral_ports_name_their_worker_under_both_rules() {
    for rule in [FlowSteering::Arrival, FlowSteering::Hash] {
        let distributor = distributor(rule, 1);
        let frames: Vec<_> = (50_000..50_008).map(|port| tcp(80, port)).collect();
        let expected: Vec<_> = (50_000..50_008_usize).map(|port| Owner::Flow(port % 4)).collect();
        assert_eq!(owners(&distributor, &frames), expected);
    }
}

#[test]
fn other_flows_stay_where_they_arrive_or_follow_their_hash() {
    let frames: Vec<_> = (1000..1064).map(|port| tcp(port, 80)).collect();
    assert_eq!(owners(&distributor(FlowSteering::Arrival, 2), &frames), [Owner::Flow(2); 64]);
    let hashed = owners(&distributor(FlowSteering::Hash, 2), &frames);
    assert_eq!(hashed, owners(&distributor(FlowSteering::Hash, 0), &frames), "wherever they arrive");
    (0..4).for_each(|worker| {
        assert!(hashed.iter().filter(|owner| **owner == Owner::Flow(worker)).count() > 4, "{hashed:?}");
    });
    let indirection = Indirection::symmetric(4);
    let (local, remote) = (stack::Address::v4([10, 0, 0, 0]), stack::Address::v4([10, 0, 0, 0]));
    let known = (1000..1064)
        .map(|port| indirection.worker(Endpoint::new(local, 80), Endpoint::new(remote, port)))
        .map(|worker| Owner::Flow(worker.into()));
    assert!(known.eq(hashed), "an active open can compute it");
}

#[test]
fn new_flows_belong_to_active_workers_and_others_go_to_workers_with_connections() {
    let activity = Arc::new(Activity::new(1..=4, None));
    let mut meter = crate::scale::Meter::new(activity.clone(), 1, Time(0));
    let frames = |flags: u8| -> Vec<_> {
        (1000..1064)
            .map(|port| tcp(port, 80))
            .map(|mut frame| {
                (frame[46], frame[47]) = (0x50, flags);
                frame
            })
            .collect()
    };
    let (syns, segments) = (frames(2), frames(0x10));
    let at = |worker: usize| distributor_of(FlowSteering::Hash, worker, Some(activity.clone()));
    assert_eq!(owners(&at(3), &syns), [Owner::Flow(0); 64]);
    assert_eq!(owners(&at(0), &segments), [Owner::Flow(0); 64], "no other worker has connections");
    activity.set_active(2);
    let active = owners(&at(0), &syns);
    assert_eq!(active, owners(&at(3), &syns), "wherever they arrive");
    let of = |worker: usize| active.iter().filter(|owner| **owner == Owner::Flow(worker)).count();
    assert!(of(0) > 16 && of(1) > 16 && of(0) + of(1) == 64, "{active:?}");
    activity.set_active(1);
    meter.hold(true);
    assert_eq!(owners(&at(3), &segments), [Owner::Flow(0); 64], "the active worker is first");
    assert_eq!(owners(&at(0), &segments), active, "the drained worker may have their connections");
    assert_eq!(owners(&at(3), &syns), active, "a SYN may be repeated");
    assert_eq!(owners(&at(1), &syns), [Owner::Flow(0); 64], "no worker has its connection");
    meter.hold(false);
    assert_eq!(owners(&at(0), &segments), [Owner::Flow(0); 64]);
}

#[test]
fn home_ports_are_those_that_a_card_delivers_to_the_worker() {
    let queues = (0..128).map(|entry| entry % 4).collect();
    let rss = port::RssTable::new(&wire::toeplitz::DEFAULT_KEY, queues).unwrap();
    let end = |text: &str| Endpoint::from(text.parse::<std::net::SocketAddr>().unwrap());
    // Published hashes: 0xafc7327f and 0x02d1feef select queue 3, 0xc626b0ea queue 2.
    for (local, remote, worker) in [
        ("209.142.163.6:2217", "38.27.205.30:48228", 1),
        ("[fe80::200:f8ff:fe21:67cf]:38024", "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251", 1),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0),
    ] {
        let (local, remote) = (end(local), end(remote));
        assert_eq!(Indirection::of_port(&rss, 2).worker(local, remote), worker, "{local:?}");
        assert_eq!(Indirection::of_port(&rss, 4).worker(local, remote), worker + 2, "{local:?}");
    }
}

#[test]
fn one_worker_answers_and_all_learn() {
    let distributor = distributor(FlowSteering::Arrival, 3);
    let (answers, all) = (Owner::Worker(ANSWERS), Owner::All);
    let ping = v4(protocol::ICMP, &[8, 0]);
    let unreachable = v4(protocol::ICMP, &[3, 4]);
    let dhcp = v4(protocol::UDP, &[0, 67, 0, 68]);
    let mut probe = v6(protocol::ICMPV6, 135);
    probe[22..38].fill(0);
    for (name, frame, owner) in [
        ("ARP request", arp(1, 1, 2), answers),
        ("ARP announcement", arp(1, 1, 1), all),
        ("ARP reply", arp(2, 1, 2), all),
        ("ping", ping, answers),
        ("unreachable", unreachable, all),
        ("DHCP", dhcp, Owner::Flow(ANSWERS)),
        ("IGMP", v4(IGMP, &[0x11]), all),
        ("solicitation", v6(protocol::ICMPV6, 135), answers),
        ("duplicate address detection", probe, all),
        ("advertisement", v6(protocol::ICMPV6, 136), all),
        ("router", v6(protocol::ICMPV6, 134), all),
        ("too big", v6(protocol::ICMPV6, 2), all),
        ("ping 6", v6(protocol::ICMPV6, 128), answers),
        ("LLDP", [[2; 12].as_slice(), &[0x88, 0xcc], &[0; 50]].concat(), Owner::Worker(3)),
    ] {
        assert_eq!(owners(&distributor, &[frame]), [owner], "{name}");
    }
}

#[test]
fn fragments_of_a_datagram_have_one_owner() {
    let distributor = distributor(FlowSteering::Arrival, 3);
    let fragment = |protocol: u8, offset: u8, port: u8| {
        let mut frame = v4(protocol, &[port, 0, port, 0]);
        (frame[20], frame[21]) = (0x20, offset);
        frame
    };
    let fragments = |protocol| [(0, 1), (1, 200), (2, 7)].map(|(at, port)| fragment(protocol, at, port));
    let of_udp = owners(&distributor, &fragments(protocol::UDP));
    assert!(of_udp.windows(2).all(|pair| pair[0] == pair[1]) && of_udp[0] != Owner::All, "{of_udp:?}");
    assert_eq!(
        owners(&distributor, &fragments(protocol::TCP)),
        [Owner::All; 3],
        "the connection's is not known"
    );
}

#[test]
fn classification_survives_every_script() {
    for script in corpus::corpus("distributor") {
        fuzz_distributor(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Scripts of the corpus with some other bytes, cut anywhere.
    #[test]
    fn classification_survives_changed_scripts(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        len: prop::sample::Index,
    ) {
        let scripts = corpus::corpus("distributor");
        let mut script = which.get(&scripts).clone();
        for (at, byte) in changes {
            let at = at.index(script.len());
            script[at] = byte;
        }
        script.truncate(len.index(script.len() + 1));
        fuzz_distributor(&script);
    }
}
