//! Parses and tags arbitrary frames.

use wire::checksum::Sum;
use wire::{Ethernet, HEADER_LEN, Ipv4, Layers, MacAddress, TAG_LEN, Tag, Version, VlanId, rewrite_ipv4};

/// Reads and edits the bytes as a frame and as texts.
///
/// # Panics
/// If a view disagrees with the bytes.
pub fn play(bytes: &[u8]) {
    read(bytes);
    edit(bytes);
    layers(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        parse(text);
    }
}

fn read(bytes: &[u8]) {
    let Ok(view) = Ethernet::new(bytes) else {
        assert!(bytes.len() < HEADER_LEN);
        return;
    };
    assert_eq!(view.destination().octets(), bytes[..6]);
    assert_eq!(view.source().octets(), bytes[6..12]);
    let tagged = if view.tag().is_some() { TAG_LEN } else { 0 };
    assert_eq!(view.payload(), &bytes[HEADER_LEN + tagged..]);
    assert_eq!(view.inner_ethertype().0.to_be_bytes(), bytes[12 + tagged..14 + tagged]);
}

fn layers(bytes: &[u8]) {
    let Some(layers) = Layers::of(bytes) else { return };
    assert!(layers.network + 20 <= layers.transport);
    assert_eq!(layers.addresses(bytes).len(), if layers.version == Version::V4 { 8 } else { 32 });
    assert!(layers.ports(bytes).is_none() || bytes.len() >= layers.transport + 4);
    let mut copy = bytes.to_vec();
    rewrite_ipv4(&mut copy[layers.network..], 1, 2);
    assert_eq!(copy[..layers.network], bytes[..layers.network]);
    if let Some(view) = Ipv4::new(&copy[layers.network..]) {
        let header = &copy[layers.network..layers.network + view.header_len()];
        assert_eq!((view.total_len(), Sum::of(header).finish()), (1, [0, 0]));
    }
}

fn edit(bytes: &[u8]) {
    let Some((addresses, rest)) = bytes.split_at_checked(12).filter(|_| bytes.len() >= HEADER_LEN) else {
        return;
    };
    let tag = Tag(u16::from_le_bytes([bytes[0], bytes[bytes.len() - 1]]));
    let tagged = [addresses, &tag.header(), rest].concat();
    assert_eq!(Ethernet::new(&tagged).map(|view| view.tag()), Ok(Some(tag)));
}

fn parse(text: &str) {
    if let Ok(address) = text.parse::<MacAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    if let Ok(vlan) = text.parse::<VlanId>() {
        assert_eq!(VlanId::new(vlan.get()), Some(vlan));
    }
}
