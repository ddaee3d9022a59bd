use super::*;
use proptest::prelude::*;
use std::prelude::v1::*;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);

fn address(text: &str) -> Address {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

fn network(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn seconds(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

/// A Prefix Information option for `2001:db8:number::/64`, on the link and autonomous.
fn prefix(number: u8, valid: u32, preferred: u32) -> Vec<u8> {
    let mut option = [3, 4, 64, 0xc0].to_vec();
    option.extend([valid.to_be_bytes(), preferred.to_be_bytes(), [0; 4]].concat());
    option.extend([0x20, 1, 0x0d, 0xb8, 0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    option
}

fn advertisement(router_seconds: u16, options: &[Vec<u8>]) -> Vec<u8> {
    let mut message = [134, 0, 0, 0, 64, 0].to_vec();
    message.extend(router_seconds.to_be_bytes());
    message.resize(16, 0);
    message.extend(options.concat());
    message
}

struct Host {
    slaac: Slaac,
    now: Time,
    addresses: Vec<Cidr>,
    routes: Vec<(Cidr, Option<Address>)>,
    groups: Vec<Address>,
    other: Vec<Action>,
}

impl Host {
    fn new(kind: Identifier, change: impl FnOnce(&mut Limits)) -> Self {
        let mut config = Config::new([4; 16]);
        change(&mut config.limits);
        let slaac = Slaac::new(&config, MAC, 1500, kind, Time(0));
        let (addresses, routes, groups, other) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { slaac, now: Time(0), addresses, routes, groups, other }
    }

    /// Takes all actions.
    fn act(&mut self) {
        while let Some(action) = self.slaac.next_action() {
            match action {
                Action::AddAddress(address) => self.addresses.push(address),
                Action::RemoveAddress(gone) => {
                    let at = self.addresses.iter().position(|own| own.address == gone).expect("assigned");
                    self.addresses.remove(at);
                }
                Action::AddRoute { network, via } => self.routes.push((network, via)),
                Action::RemoveRoute(gone) => {
                    let at = self.routes.iter().position(|route| route.0 == gone).expect("a route");
                    self.routes.remove(at);
                }
                Action::Join(group) => self.groups.push(group),
                Action::Leave(group) => {
                    let at = self.groups.iter().position(|joined| *joined == group).expect("joined");
                    self.groups.remove(at);
                }
                other => self.other.push(other),
            }
        }
    }

    /// Runs all timers up to a time.
    fn run(&mut self, to: Time) {
        while self.slaac.deadline() <= to {
            self.now = self.now.max(self.slaac.deadline());
            self.slaac.advance(self.now);
            self.act();
        }
        self.now = to;
    }

    fn advertise(&mut self, router: &str, message: &[u8]) -> bool {
        let is_valid = self.slaac.advertise(address(router), 255, message, self.now);
        self.act();
        is_valid
    }

    /// Types of the ICMPv6 messages sent, and their sources.
    fn sent(&mut self) -> Vec<(u8, Address)> {
        let types = self.other.iter().filter_map(|action| match action {
            Action::Send(control) => {
                let source = Address::v6(*control.packet[8..].first_chunk().unwrap());
                Some((control.packet[40], source))
            }
            _ => None,
        });
        types.collect()
    }
}

#[test]
fn an_interface_gets_its_addresses_and_routes() {
    for kind in [Identifier::Opaque, Identifier::Eui64] {
        let mut host = Host::new(kind, |_| ());
        host.run(seconds(3));
        assert_eq!((host.addresses.len(), host.groups.len()), (1, 1));
        let link_local = host.addresses[0];
        assert!(network("fe80::/64").contains(link_local.address) && link_local.prefix == 64);
        assert!(
            host.sent().contains(&(133, Address::UNSPECIFIED))
                && host.sent().contains(&(135, Address::UNSPECIFIED))
        );
        let mtu = [5, 1, 0, 0, 0, 0, 5, 0].to_vec();
        assert!(host.advertise("fe80::1", &advertisement(1800, &[prefix(1, 3600, 1800), mtu])));
        assert_eq!(host.other.pop(), Some(Action::SetMtu(1280)));
        let routes = [(network("::/0"), Some(address("fe80::1"))), (network("2001:db8:1::/64"), None)];
        assert_eq!(host.routes, routes);
        assert_eq!(host.addresses.len(), 1, "not before the probe");
        host.run(seconds(6));
        let own = host.addresses[1];
        assert!(network("2001:db8:1::/64").contains(own.address) && own.prefix == 128);
        if kind == Identifier::Eui64 {
            assert_eq!(own.address, address("2001:db8:1::ff:fe00:1"));
        }
        host.run(seconds(1804));
        assert_eq!(host.other.pop(), Some(Action::SetPreferred(own.address, false)));
        assert_eq!(host.routes, routes[1..]);
        host.run(seconds(3604));
        assert_eq!((host.addresses, host.routes, host.groups.len()), ([link_local].to_vec(), Vec::new(), 1));
    }
}

#[test]
fn solicitations_back_off_until_a_router_answers() {
    let mut host = Host::new(Identifier::Opaque, |_| ());
    host.run(seconds(3600));
    let link_local = host.addresses[0].address;
    let solicitations: Vec<_> = host.sent().into_iter().filter(|sent| sent.0 == 133).collect();
    assert!((9..12).contains(&solicitations.len()), "{}", solicitations.len());
    assert_eq!(solicitations.last(), Some(&(133, link_local)));
    assert!(host.advertise("fe80::1", &advertisement(0, &[])));
    assert!(host.slaac.deadline() < seconds(10_000));
    assert!(host.advertise("fe80::1", &advertisement(9000, &[])));
    assert_eq!(host.slaac.deadline(), seconds(3600 + 9000));
}

/// RFC 4861 section 6.3.7: the answer to a solicitation may say more than other advertisements.
#[test]
fn one_solicitation_is_sent_although_a_router_advertised_before() {
    let mut host = Host::new(Identifier::Opaque, |_| ());
    assert!(host.advertise("fe80::1", &advertisement(9000, &[])));
    host.run(seconds(2));
    let count = |host: &mut Host| host.sent().iter().filter(|sent| sent.0 == 133).count();
    assert_eq!(count(&mut host), 1);
    assert!(host.advertise("fe80::1", &advertisement(9000, &[])));
    host.run(seconds(5000));
    assert_eq!(count(&mut host), 1);
}

#[test]
fn a_duplicate_address_is_not_assigned() {
    let mut host = Host::new(Identifier::Opaque, |_| ());
    let mut tried = Vec::new();
    for conflict in 0..4 {
        while host.groups.is_empty() {
            host.run(host.slaac.deadline());
        }
        let own = host.slaac.addresses[0].address();
        assert!(!tried.contains(&own) && host.slaac.is_tentative(own));
        host.slaac.neighbor(address("fe80::9"), own, false, host.now);
        assert!(host.slaac.is_tentative(own), "resolution by another host");
        let source = if conflict % 2 == 0 { Address::UNSPECIFIED } else { address("fe80::9") };
        host.slaac.neighbor(source, own, conflict % 2 == 1, host.now);
        host.act();
        assert_eq!((host.other.pop(), host.groups.len()), (Some(Action::Duplicate(own)), 0));
        tried.push(own);
    }
    host.run(seconds(100));
    assert!(host.addresses.is_empty());
    let mut host = Host::new(Identifier::Eui64, |_| ());
    host.slaac.neighbor(Address::UNSPECIFIED, address("fe80::ff:fe00:1"), false, host.now);
    host.run(seconds(100));
    assert!(host.addresses.is_empty());
}

#[test]
fn an_advertisement_shortens_a_lifetime_to_two_hours_at_least() {
    let mut host = Host::new(Identifier::Opaque, |_| ());
    let hour = 3600;
    host.advertise("fe80::1", &advertisement(1800, &[prefix(1, 10 * hour, hour)]));
    host.run(seconds(10));
    let valid = |host: &Host| host.slaac.addresses[1].valid_until().millis() / 1000;
    host.advertise("fe80::1", &advertisement(1800, &[prefix(1, 0, 0)]));
    assert_eq!(valid(&host), 10 + 7200);
    assert_eq!(host.routes.len(), 1, "the network is not on the link any more");
    host.run(seconds(1000));
    host.advertise("fe80::1", &advertisement(1800, &[prefix(1, 60, 60)]));
    assert_eq!(valid(&host), 10 + 7200);
    host.advertise("fe80::1", &advertisement(1800, &[prefix(1, 7000, 60)]));
    assert_eq!(valid(&host), 8000);
    host.advertise("fe80::1", &advertisement(1800, &[prefix(1, u32::MAX, u32::MAX)]));
    assert!(host.slaac.addresses[1].valid_until().is_never());
}

#[test]
fn another_router_replaces_the_default_one() {
    let mut host = Host::new(Identifier::Opaque, |limits| limits.routers = 2);
    for (router, seconds) in [("fe80::1", 100), ("fe80::2", 200), ("fe80::3", 300)] {
        assert!(host.advertise(router, &advertisement(seconds, &[])));
    }
    let default = |host: &Host| host.routes.iter().map(|route| route.1).collect::<Vec<_>>();
    assert_eq!(default(&host), [Some(address("fe80::1"))]);
    host.run(seconds(100));
    assert_eq!(default(&host), [Some(address("fe80::2"))]);
    host.advertise("fe80::2", &advertisement(0, &[]));
    assert_eq!(default(&host), []);
}

#[test]
fn invalid_advertisements_have_no_effect() {
    let mut host = Host::new(Identifier::Opaque, |_| ());
    let message = advertisement(1800, &[prefix(1, 3600, 1800)]);
    assert!(!host.slaac.advertise(address("fe80::1"), 254, &message, Time(0)));
    assert!(!host.slaac.advertise(address("2001:db8::1"), 255, &message, Time(0)));
    assert!(!host.slaac.advertise(address("fe80::1"), 255, &message[..20], Time(0)));
    let mut other = [prefix(1, 60, 61), prefix(2, 60, 60), prefix(3, 60, 60), prefix(4, 60, 60)];
    for option in &mut other {
        option[3] = 0x40;
    }
    other[1][2] = 63;
    (other[2][16], other[2][17]) = (0xfe, 0x80);
    (other[3][16], other[3][3]) = (0xff, 0xc0);
    assert!(host.advertise("fe80::1", &advertisement(0, &other)));
    assert!(host.slaac.addresses.len() == 1 && host.routes.is_empty() && host.other.is_empty());
}

proptest! {
    #[test]
    fn arbitrary_advertisements_exceed_no_limit(
        script in prop::collection::vec(
            (0u16..3, prop::collection::vec((any::<u8>(), 0u32..9000, 0u32..9000), 0..6), 0u64..5000, 0u8..20), 0..40),
    ) {
        let mut host = Host::new(Identifier::Opaque, |limits| (limits.prefixes, limits.routers) = (3, 2));
        for (router_seconds, prefixes, wait, router) in script {
            let options: Vec<_> = prefixes.iter().map(|(n, valid, preferred)| prefix(*n, *valid, *preferred)).collect();
            let router = std::format!("fe80::{router:x}");
            prop_assert!(host.advertise(&router, &advertisement(router_seconds * 1000, &options)));
            host.run(Time(host.now.0 + wait * 1_000_000_000));
            prop_assert!(host.addresses.len() <= 4 && host.slaac.addresses.len() <= 4);
            prop_assert!(host.routes.len() <= 4 && host.groups.len() <= 4);
            prop_assert!(host.slaac.deadline() > host.now);
        }
        host.run(Time(host.now.0 + 20_000_000_000_000));
        prop_assert_eq!((host.addresses.len(), host.routes.len(), host.groups.len()), (1, 0, 1));
    }
}
