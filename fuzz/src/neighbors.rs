//! Parses arbitrary ARP, neighbor discovery and DHCP messages.

use wire::{Arp, DHCP_HEADER, Dhcp, Dhcpv6, Nd, NdKind};

/// Reads the bytes as a message; the first byte selects its type.
///
/// # Panics
/// If a view disagrees with the bytes.
pub fn play(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => arp(message),
        1 => nd(message),
        2 => dhcp(message),
        _ => dhcpv6(message),
    }
}

fn arp(message: &[u8]) {
    let Some(view) = Arp::new(message) else { return };
    assert_eq!(view.sender_mac().octets(), message[8..14]);
    assert_eq!(view.sender_ip().octets(), message[14..18]);
    assert_eq!(view.operation().to_be_bytes(), message[6..8]);
}

fn nd(message: &[u8]) {
    let Some(view) = Nd::new(message) else { return };
    assert_eq!(NdKind::of(message[0]), Some(view.kind()));
    for address in view.link_layers() {
        assert!(message.windows(6).any(|window| window == address.octets()));
    }
    if let Some(target) = view.target() {
        assert_eq!(target.octets(), message[8..24]);
    }
}

fn dhcp(message: &[u8]) {
    let Some(view) = Dhcp::new(message) else { return };
    assert!(message.len() >= DHCP_HEADER);
    assert_eq!(view.client_mac().octets(), message[28..34]);
    assert_eq!(view.your_address().octets(), message[16..20]);
    let options = &message[DHCP_HEADER..];
    if let Some(seconds) = view.lease_seconds() {
        assert!(options.windows(4).any(|window| window == seconds.to_be_bytes()));
    }
    let _ = (view.message_type(), view.requested_address(), view.client_address(), view.relay_address());
}

fn dhcpv6(message: &[u8]) {
    let Some(view) = Dhcpv6::new(message) else { return };
    assert_eq!(view.kind(), message[0]);
    for (address, seconds) in view.addresses() {
        assert!(message.windows(16).any(|window| window == address.octets()));
        assert!(message.windows(4).any(|window| window == seconds.to_be_bytes()));
    }
}
