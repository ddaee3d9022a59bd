//! Outer headers compared with those of Scapy. An end-to-end test compares the vectors with those of an installed
//! Scapy.

use std::net::IpAddr;
use tunnel::{Inner, Kind, Outer, Payload, Template, open};
use wire::MacAddress;
use wire::checksum::Sum;

const VECTORS: &str = include_str!("scapy/vectors.txt");

/// A vector: settings, frame of the payload, and the frame with outer headers.
pub(crate) struct Vector {
    pub(crate) kind: Kind,
    pub(crate) key: Option<u32>,
    pub(crate) addresses: (IpAddr, IpAddr),
    pub(crate) checksum: bool,
    /// Options of a control packet of Geneve.
    pub(crate) options: Vec<u8>,
    pub(crate) inner: Vec<u8>,
    pub(crate) outer: Vec<u8>,
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// All vectors.
pub(crate) fn vectors() -> impl Iterator<Item = Vector> {
    VECTORS.lines().map(|line| {
        let [settings, inner, outer] = line.split("; ").collect::<Vec<_>>().try_into().unwrap();
        let words: Vec<&str> = settings.split(' ').collect();
        Vector {
            kind: words[0].parse().unwrap(),
            key: words[1].parse().ok(),
            addresses: (words[2].parse().unwrap(), words[3].parse().unwrap()),
            checksum: words[4] == "1",
            options: words.get(5).map(|options| bytes(options)).unwrap_or_default(),
            inner: bytes(inner),
            outer: bytes(outer),
        }
    })
}

impl Vector {
    /// Contents after the outer headers.
    pub(crate) fn payload(&self) -> &[u8] {
        if self.kind.is_ethernet() { &self.inner } else { &self.inner[14..] }
    }

    /// The payload from its EtherType on, behind a tag if it has one.
    fn untagged(&self) -> &[u8] {
        if self.tag().is_some() { &self.inner[16..] } else { &self.inner[12..] }
    }

    fn tag(&self) -> Option<u16> {
        (self.inner[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([self.inner[14], self.inner[15]]))
    }

    fn is_v6(&self) -> bool {
        self.untagged()[..2] == [0x86, 0xdd]
    }

    /// Traffic class of the payload.
    fn tos(&self) -> u8 {
        let packet = &self.untagged()[2..];
        if self.is_v6() { packet[0] << 4 | packet[1] >> 4 } else { packet[1] }
    }

    pub(crate) fn template(&self) -> Template {
        let outer = Outer {
            kind: self.kind,
            macs: (MacAddress::new([2, 0, 0, 0, 0, 1]), MacAddress::new([2, 0, 0, 0, 0, 2])),
            addresses: self.addresses,
            key: self.key,
            port: self.kind.port().unwrap_or(0),
            ttl: 17,
            dont_fragment: true,
            checksum: self.checksum,
            is_oam: !self.options.is_empty(),
            options: &self.options,
        };
        Template::new(&outer).unwrap()
    }
}

#[test]
fn headers_are_those_of_scapy() {
    let mut compared = 0;
    for vector in vectors() {
        let payload = vector.payload();
        let inner = Inner {
            len: payload.len(),
            hash: 0x5a,
            tos: vector.tos(),
            ttl: None,
            is_v6: vector.is_v6(),
            identification: 0x1234,
            sequence: 0x0102_0304,
            tag: vector.tag(),
            sum: Some(Sum::of(payload)),
        };
        let header = vector.template().header(&inner);
        let built = [header.bytes(), payload].concat();
        assert_eq!(built, vector.outer, "{} {:?}", vector.kind, vector.key);
        compared += 1;
    }
    assert_eq!(compared, 94);
}

#[test]
fn headers_of_scapy_are_understood() {
    for vector in vectors() {
        let packet = &vector.outer[14..];
        let opened = open(vector.kind, packet, packet.len()).unwrap();
        assert_eq!(&packet[opened.inner..], vector.payload());
        assert_eq!((opened.source, opened.destination), vector.addresses);
        assert_eq!((opened.key, opened.tos, opened.ttl), (vector.key, vector.tos(), 17));
        let expected = match (vector.kind.is_ethernet(), vector.is_v6()) {
            (true, _) => Payload::Ethernet,
            (false, false) => Payload::Ipv4,
            (false, true) => Payload::Ipv6,
        };
        assert_eq!(opened.payload, expected);
        assert_eq!(
            (&packet[opened.options], opened.is_oam),
            (&vector.options[..], !vector.options.is_empty())
        );
        assert_eq!(opened.check.is_some(), vector.checksum);
        if let Some(check) = opened.check {
            let sum = |packet: &[u8]| Sum::of(&packet[check.range.clone()]).total();
            assert!(check.is_valid(sum(packet)));
            let mut damaged = packet.to_vec();
            *damaged.last_mut().unwrap() ^= 1;
            assert!(!check.is_valid(sum(&damaged)));
        }
    }
}
