use super::*;
use proptest::prelude::*;
use std::prelude::v1::*;
use wire::Ipv4;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);

/// A server with one address.
struct Server {
    seconds: u32,
    leased: bool,
}

impl Server {
    /// Answer to a client's packet.
    fn answer(&mut self, packet: &Control) -> Option<Vec<u8>> {
        let payload = &packet.packet[28..];
        let view = View::new(payload).unwrap();
        assert_eq!((view.operation(), view.client_mac()), (View::REQUEST, MAC));
        let own = view.server().is_none_or(|server| server == SERVER);
        let kind = match view.message_type() {
            Some(View::DISCOVER) => View::OFFER,
            Some(View::REQUEST_ADDRESS) if own => {
                let wanted = view.requested_address().unwrap_or(view.client_address());
                self.leased |= wanted == ADDRESS && view.server().is_some();
                if wanted == ADDRESS && self.leased { View::ACK } else { View::NAK }
            }
            _ => return None,
        };
        Some(reply(kind, view.transaction(), self.seconds))
    }
}

/// A server's message.
fn reply(kind: u8, transaction: u32, seconds: u32) -> Vec<u8> {
    let message = DhcpMessage {
        kind,
        transaction,
        seconds: 0,
        broadcast: true,
        client_address: Ipv4Addr::UNSPECIFIED,
        mac: MAC,
        requested: None,
        server: Some(SERVER),
    };
    let mut bytes = message.to_bytes();
    bytes[0] = View::REPLY;
    if kind != View::NAK {
        bytes[16..20].copy_from_slice(&ADDRESS.octets());
    }
    let end = bytes.iter().rposition(|byte| *byte == 255).unwrap();
    bytes.truncate(end);
    bytes.extend([1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 1, 6, 8, 10, 0, 0, 2, 10, 0, 0, 3, 26, 2, 5, 0xdc]);
    bytes.extend([51, 4]);
    bytes.extend(seconds.to_be_bytes());
    bytes.push(255);
    bytes
}

struct Network {
    client: Dhcp,
    server: Server,
    now: Time,
    sent: Vec<Control>,
    probes: u32,
}

impl Network {
    fn new(seconds: u32) -> Self {
        let client = Dhcp::new(&Config::new([8; 16]), MAC, Time(0));
        Self { client, server: Server { seconds, leased: false }, now: Time(0), sent: Vec::new(), probes: 0 }
    }

    /// Runs the probes of a leased address.
    fn check(&mut self) {
        while let Some(address) = self.client.probing() {
            self.now = self.now.max(self.client.deadline());
            assert_eq!((self.client.poll(self.now), address), (None, ADDRESS));
            self.probes += u32::from(self.client.probe(self.now).is_some());
        }
    }

    /// Runs the client at its next deadline. Returns its packet.
    fn step(&mut self) -> Option<Control> {
        self.now = self.now.max(self.client.deadline());
        let packet = self.client.poll(self.now);
        self.sent.extend(packet.clone());
        packet
    }

    /// The same, with the server's answer unless it or the request is lost.
    fn exchange(&mut self, is_lost: bool) {
        if let Some(packet) = self.step()
            && let Some(answer) = self.server.answer(&packet)
            && !is_lost
        {
            self.client.receive(&answer, self.now);
            self.check();
        }
    }

    fn bind(&mut self) {
        for _ in 0..2 {
            self.exchange(false);
        }
        assert!(self.client.lease().is_some() && self.client.take_change() && !self.client.take_change());
    }

    fn kind(packet: &Control) -> Option<u8> {
        View::new(&packet.packet[28..]).unwrap().message_type()
    }
}

#[test]
fn a_lease_has_the_settings_of_the_network() {
    let mut network = Network::new(3600);
    network.bind();
    let lease = network.client.lease().unwrap();
    assert_eq!((lease.network.to_string(), lease.mtu), ("10.0.0.5/24".into(), Some(1500)));
    assert_eq!(lease.router, Some(SERVER.into()));
    assert_eq!(lease.name_servers.len(), 2);
    assert_eq!(lease.expires, network.client.requested.after(Duration::from_hours(1)));
    let seconds = network.now.micros_since(network.client.requested) / 1_000_000;
    assert!(network.probes == 3 && (4..=6).contains(&seconds), "{} probes, {seconds} s", network.probes);
    let kinds: Vec<_> = network.sent.iter().filter_map(Network::kind).collect();
    assert_eq!(kinds, [View::DISCOVER, View::REQUEST_ADDRESS]);
    for sent in &network.sent {
        let view = Ipv4::new(&sent.packet).unwrap();
        assert_eq!(view.source_and_destination(), (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
    }
}

#[test]
fn a_lease_is_renewed_by_its_server_and_then_by_any() {
    let mut network = Network::new(3600);
    network.bind();
    let (bound, first) = (network.client.requested, network.client.lease().unwrap().expires);
    network.exchange(false);
    let renewal = network.sent.last().unwrap();
    assert_eq!(renewal.destination, SERVER.into());
    let seconds = network.now.micros_since(bound) / 1_000_000;
    assert!((1760..=1800).contains(&seconds), "{seconds}");
    assert!(network.client.lease().unwrap().expires > first);
    let (renewed, mut destinations) = (network.now, Vec::new());
    while network.client.lease().is_some() {
        assert!(network.now < renewed.after(Duration::from_secs(3601)));
        destinations.extend(network.step().map(|packet| (packet.destination, network.now)));
    }
    let (last, ended) = destinations.pop().unwrap();
    assert_eq!((last, ended), (Ipv4Addr::BROADCAST.into(), renewed.after(Duration::from_hours(1))));
    let unicast = destinations.iter().filter(|(to, _)| *to == SERVER.into()).count();
    assert!((2..10).contains(&unicast) && (2..10).contains(&(destinations.len() - unicast)));
    let t2 = renewed.after(Duration::from_secs(3150));
    assert!(destinations.iter().all(|(to, at)| (*to == SERVER.into()) == (*at < t2)));
    assert!(network.client.take_change());
    let kinds: Vec<_> = network.sent.iter().rev().take(2).map(Network::kind).collect();
    assert_eq!(kinds, [Some(View::DISCOVER), Some(View::REQUEST_ADDRESS)], "the lease has expired");
}

/// Until T2 only the server of the lease may answer; then another one extends the lease or ends it.
#[test]
fn any_server_answers_a_request_of_rebinding() {
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    for kind in [View::ACK, View::NAK] {
        let mut network = Network::new(3600);
        network.bind();
        network.step();
        let mut answer = reply(kind, network.client.transaction, 3600);
        let at = answer.windows(2).position(|code| code == [54, 4]).unwrap();
        answer[at + 2..at + 6].copy_from_slice(&OTHER.octets());
        network.client.receive(&answer, network.now);
        assert!(matches!(network.client.state, State::Renewing), "{kind}");
        while !matches!(network.client.state, State::Rebinding) {
            network.step();
        }
        let request = network.sent.last().unwrap();
        let view = View::new(&request.packet[28..]).unwrap();
        assert_eq!((request.destination, view.client_address()), (Ipv4Addr::BROADCAST.into(), ADDRESS));
        assert_eq!((view.server(), view.requested_address()), (None, None), "RFC 2131 table 5");
        network.client.receive(&answer, network.now);
        assert!(network.client.take_change());
        let Some(lease) = network.client.lease() else {
            assert_eq!(kind, View::NAK);
            network.bind();
            continue;
        };
        let end = network.now.after(Duration::from_hours(1));
        assert_eq!((kind, lease.server, lease.expires), (View::ACK, OTHER, end));
        assert_eq!(network.step().map(|renewal| renewal.destination), Some(OTHER.into()));
    }
}

#[test]
fn a_lease_without_end_is_not_renewed() {
    let mut network = Network::new(u32::MAX);
    network.bind();
    assert_eq!(network.client.deadline(), Time::NEVER);
    assert!(network.client.poll(Time(1 << 62)).is_none());
}

#[test]
fn a_refused_request_starts_again() {
    let mut network = Network::new(3600);
    network.exchange(false);
    let transaction = network.client.transaction;
    network.client.receive(&reply(View::NAK, transaction, 0), network.now);
    assert!(matches!(network.client.state, State::Init));
    network.bind();
    assert_ne!(network.client.transaction, transaction);
    network.server.leased = false;
    network.exchange(false);
    assert!(network.client.lease().is_none() && network.client.take_change());
    network.bind();
}

#[test]
fn a_conflict_declines_the_lease() {
    let mut network = Network::new(3600);
    network.bind();
    network.client.conflict(network.now);
    assert!(network.client.lease().is_none() && network.client.take_change());
    let before = network.now;
    let decline = network.step().unwrap();
    let view = View::new(&decline.packet[28..]).unwrap();
    assert_eq!((view.message_type(), view.requested_address()), (Some(View::DECLINE), Some(ADDRESS)));
    assert_eq!((view.server(), view.client_address()), (Some(SERVER), Ipv4Addr::UNSPECIFIED));
    let discover = network.step().unwrap();
    assert_eq!(Network::kind(&discover), Some(View::DISCOVER));
    assert!(network.now.micros_since(before) >= 10_000_000);
}

/// RFC 5227 section 2.1.1: after ten conflicts, at most one address a minute is probed.
#[test]
fn repeated_conflicts_slow_the_client_down() {
    let mut network = Network::new(3600);
    for conflicts in 1..13 {
        while network.client.probing().is_none() {
            let packet = network.step();
            if let Some(answer) = packet.and_then(|packet| network.server.answer(&packet)) {
                network.client.receive(&answer, network.now);
            }
        }
        network.client.conflict(network.now);
        let before = network.now;
        assert_eq!(network.step().as_ref().and_then(Network::kind), Some(View::DECLINE));
        let pause = network.client.deadline().micros_since(before) / 1_000_000;
        assert_eq!(pause, if conflicts < 10 { 10 } else { 60 });
    }
    network.bind();
    network.client.conflict(network.now);
    network.step();
    assert_eq!(network.client.deadline(), network.now.after(PAUSE), "counted anew");
}

/// RFC 2131 section 4.4.5: T1 and T2 have separate defaults, and are in order before the end of the lease.
#[test]
fn a_server_may_choose_the_time_of_renewal_alone() {
    let mut random = Random::new(&[0; 16], "dhcp", 0);
    for (options, expected) in [
        (&[][..], (1800, 3150)),
        (&[58, 4, 0, 0, 0, 60], (60, 3150)),
        (&[59, 4, 0, 0, 12, 0], (1800, 3072)),
        (&[58, 4, 0, 0, 0, 60, 59, 4, 0, 0, 12, 0], (60, 3072)),
        (&[58, 4, 0, 0, 13, 0], (1800, 3150)),
        (&[59, 4, 0, 0, 15, 0], (1800, 3150)),
    ] {
        let mut bytes = reply(View::ACK, 1, 3600);
        bytes.pop();
        bytes.extend(options);
        bytes.push(255);
        let lease = Lease::new(&View::new(&bytes).unwrap(), SERVER, Time(0), &mut random).unwrap();
        let [renew, rebind] = [lease.renew, lease.rebind].map(|time| time.micros() / 1_000_000);
        assert_eq!(rebind, expected.1);
        assert!((expected.0 * 97 / 100..=expected.0).contains(&renew), "{renew}");
    }
}

#[test]
fn an_address_of_another_host_is_declined_before_its_use() {
    let mut network = Network::new(3600);
    network.exchange(false);
    let request = network.step().unwrap();
    let answer = network.server.answer(&request).unwrap();
    network.client.receive(&answer, network.now);
    assert_eq!(network.client.probe(network.now), Some(ADDRESS));
    assert!(network.client.lease().is_none());
    network.client.conflict(network.now);
    let decline = network.step().unwrap();
    let view = View::new(&decline.packet[28..]).unwrap();
    assert_eq!((view.message_type(), view.requested_address()), (Some(View::DECLINE), Some(ADDRESS)));
    assert_eq!((view.server(), view.client_address()), (Some(SERVER), Ipv4Addr::UNSPECIFIED));
    assert!(network.client.lease().is_none() && !network.client.take_change());
    network.bind();
}

#[test]
fn a_released_lease_is_given_back_to_its_server_and_not_renewed() {
    let mut network = Network::new(3600);
    assert!(network.client.release().is_none() && network.client.deadline().is_never());
    let mut network = Network::new(3600);
    network.bind();
    let release = network.client.release().unwrap();
    let view = View::new(&release.packet[28..]).unwrap();
    assert_eq!((view.message_type(), view.client_address()), (Some(View::RELEASE), ADDRESS));
    assert_eq!((view.server(), view.requested_address()), (Some(SERVER), None));
    assert_eq!(release.destination, SERVER.into());
    assert!(network.client.lease().is_none() && network.client.deadline().is_never());
}

#[test]
fn unanswered_requests_lead_back_to_discovery() {
    let mut network = Network::new(3600);
    network.exchange(false);
    let kinds: Vec<_> =
        (0..5).filter_map(|_| network.step()).filter_map(|sent| Network::kind(&sent)).collect();
    assert_eq!(kinds, [[View::REQUEST_ADDRESS; 4].as_slice(), &[View::DISCOVER]].concat());
}

#[test]
fn dhcp_messages_that_match_no_request_are_ignored() {
    let mut network = Network::new(3600);
    network.step();
    let xid = network.client.transaction;
    let changed = |at: usize, kind, value: u8| {
        let mut bytes = reply(kind, xid, 3600);
        bytes[at] ^= value;
        bytes
    };
    let wrong = [
        changed(4, View::OFFER, 1),
        changed(28, View::OFFER, 4),
        changed(0, View::OFFER, 3),
        changed(16, View::OFFER, 0xea),
        changed(0, View::ACK, 0),
        changed(0, View::NAK, 0),
        reply(View::OFFER, xid, 0),
        reply(View::OFFER, xid, 3600)[..245].to_vec(),
    ];
    for (number, bytes) in wrong.iter().enumerate() {
        network.client.receive(bytes, network.now);
        assert!(matches!(network.client.state, State::Selecting), "message {number}");
    }
    network.client.receive(&reply(View::OFFER, xid, 3600), network.now);
    let mut other = reply(View::ACK, xid, 3600);
    other[19] ^= 1;
    network.client.receive(&other, network.now);
    let at = other.windows(2).position(|code| code == [54, 4]).unwrap();
    other[19] ^= 1;
    other[at + 5] ^= 1;
    network.client.receive(&other, network.now);
    assert!(matches!(network.client.state, State::Requesting(_)) && network.client.lease().is_none());
}

proptest! {
    #[test]
    fn losses_delay_a_lease_and_never_flood(
        losses in prop::collection::vec(any::<bool>(), 0..60),
        seconds in prop_oneof![20u32..600, 600u32..100_000],
    ) {
        let mut network = Network::new(seconds);
        let mut times = Vec::new();
        for is_lost in losses {
            let before = network.sent.len();
            network.exchange(is_lost);
            prop_assert_eq!(network.sent.len(), before + 1);
            times.push(network.now);
            if let Some(lease) = network.client.lease() {
                prop_assert!(network.now <= lease.expires);
            }
        }
        // The end of a lease, discovery and request may follow each other at once; the next message waits.
        for window in times.windows(4) {
            prop_assert!(window[3].micros_since(window[0]) >= 500_000.min(u64::from(seconds) * 100_000));
        }
        for _ in 0..8 {
            network.exchange(false);
        }
        prop_assert!(network.client.lease().is_some());
    }

    #[test]
    fn arbitrary_messages_do_not_panic(
        script in prop::collection::vec((0u8..8, prop::collection::vec(any::<u8>(), 0..20), any::<bool>()), 0..40),
        seconds: u32,
    ) {
        let mut network = Network::new(3600);
        for (kind, edits, poll) in script {
            if poll {
                network.now = network.now.after(Duration::from_secs(seconds.into()));
                network.client.poll(network.now);
            }
            let mut bytes = reply(kind, network.client.transaction, seconds);
            for edit in edits.chunks_exact(2) {
                let at = 240 + usize::from(edit[0]) % (bytes.len() - 240);
                bytes[at] = edit[1];
            }
            network.client.receive(&bytes, network.now);
            let bytes = network.client.poll(network.now).map(|sent| sent.packet.len());
            prop_assert!(bytes.is_none_or(|len| len < 400));
        }
    }
}
