//! A DHCP client with a server whose messages are changed, late or missing.
//!
//! Invariants: after each call the deadline is in the future, an expired lease is not in force, and a leased address is
//! unicast.

use super::Script;
use crate::dhcp::Dhcp;
use crate::{Config, Time};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use wire::{Dhcp as View, DhcpMessage, MacAddress};

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Runs a script.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_dhcp(script: &[u8]) {
    let mut client = Dhcp::new(&Config::new([7; 16]), MAC, Time(0));
    let (mut script, mut now, mut transaction) = (Script(script), Time(0), 0);
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0 => client.conflict(now),
            1 => now = now.after(Duration::from_secs(u64::from(script.byte()) * 20)),
            2..5 => now = now.max(client.deadline()),
            kind => {
                let kind = [View::OFFER, View::ACK, View::NAK][usize::from(kind - 5)];
                let (seconds, edits) = (script.byte(), script.byte() % 8);
                client.receive(&reply(kind, transaction, seconds, script.bytes(edits * 2)), now);
            }
        }
        if client.deadline() == Time::NEVER {
            assert!(client.lease().is_some_and(|lease| lease.expires == Time::NEVER));
            now = now.min(Time(1 << 60));
        }
        while client.probe(now).is_some() {}
        for sent in core::iter::from_fn(|| client.poll(now)) {
            let view = View::new(&sent.packet[28..]).expect("a message");
            transaction = view.transaction();
            assert_eq!((view.operation(), view.client_mac()), (View::REQUEST, MAC));
        }
        assert!(client.deadline() > now);
        if let Some(lease) = client.lease() {
            let octets = lease.network.address.last4();
            assert!(lease.expires > now && (1..240).contains(&octets[0]) && octets[0] != 127);
        }
        let _ = client.take_change();
    }
}

/// A server's message with some bytes changed: pairs of place and value.
fn reply(kind: u8, transaction: u32, seconds: u8, edits: &[u8]) -> Vec<u8> {
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
    bytes[16..20].copy_from_slice(&[10, 0, 0, 5]);
    // The lease time, shifted so that a byte covers a second to ten days, or no end.
    let seconds = if seconds == 255 { u32::MAX } else { u32::from(seconds % 16) << (seconds / 16) };
    // Options follow those of the message, which ends with END and padding.
    let end = bytes.iter().rposition(|byte| *byte == 255).expect("an end");
    bytes.truncate(end);
    bytes.extend([1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 1, 51, 4]);
    bytes.extend(seconds.to_be_bytes());
    bytes.extend([58, 4, 0, 0, 0, 2, 59, 4, 0, 0, 0, 3, 255]);
    for edit in edits.chunks_exact(2) {
        // Options, and after them the fields from the end of the header backwards.
        let at = (240 + usize::from(edit[0])) % bytes.len();
        bytes[at] = edit[1];
    }
    bytes
}
