//! DHCP for IPv4 (RFC 2131): the fields used for snooping and by a client, and the messages of a client.
//!
//! Options in the fields `sname` and `file` (option overload) and options in several parts (RFC 3396) are not read.

use crate::MacAddress;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// Length before the options, including the magic cookie, in bytes.
pub const DHCP_HEADER: usize = 240;

const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Minimum length of a message, which some relay agents require (RFC 1542 section 2.1), in bytes.
const MIN_LEN: usize = 300;
/// Flag: replies are sent to the broadcast address.
const BROADCAST: u8 = 0x80;

// Option codes (RFC 2132).
const PAD: u8 = 0;
const SUBNET_MASK: u8 = 1;
const ROUTERS: u8 = 3;
const NAME_SERVERS: u8 = 6;
const INTERFACE_MTU: u8 = 26;
const REQUESTED_ADDRESS: u8 = 50;
const LEASE_TIME: u8 = 51;
const MESSAGE_TYPE: u8 = 53;
const SERVER: u8 = 54;
const PARAMETERS: u8 = 55;
const MAX_MESSAGE: u8 = 57;
const RENEWAL_TIME: u8 = 58;
const REBINDING_TIME: u8 = 59;
const CLIENT: u8 = 61;
const END: u8 = 255;

/// A DHCP message for Ethernet with a complete fixed header.
#[derive(Clone, Copy, Debug)]
pub struct Dhcp<'a> {
    header: &'a [u8; DHCP_HEADER],
    options: &'a [u8],
}

impl<'a> Dhcp<'a> {
    /// Operation code of a client message (BOOTREQUEST).
    pub const REQUEST: u8 = 1;
    /// Operation code of a server message (BOOTREPLY).
    pub const REPLY: u8 = 2;
    /// Message type DHCPDISCOVER: the client looks for servers.
    pub const DISCOVER: u8 = 1;
    /// Message type DHCPOFFER: a server offers an address.
    pub const OFFER: u8 = 2;
    /// Message type DHCPREQUEST: the client requests an address, or more time.
    pub const REQUEST_ADDRESS: u8 = 3;
    /// Message type DHCPDECLINE: the address is in use elsewhere.
    pub const DECLINE: u8 = 4;
    /// Message type DHCPACK: the address is leased.
    pub const ACK: u8 = 5;
    /// Message type DHCPNAK: the request is refused.
    pub const NAK: u8 = 6;
    /// Message type DHCPRELEASE: the client releases the address.
    pub const RELEASE: u8 = 7;

    /// Returns `None` if length, hardware type or magic cookie is invalid. `payload` is the UDP payload.
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let (header, options) = payload.split_first_chunk::<DHCP_HEADER>()?;
        let ethernet = header[1] == 1 && header[2] == 6;
        (ethernet && header.ends_with(&COOKIE)).then_some(Self { header, options })
    }

    /// Operation code: [`Dhcp::REQUEST`] or [`Dhcp::REPLY`].
    pub fn operation(&self) -> u8 {
        self.header[0]
    }

    /// Transaction identifier (`xid`).
    pub fn transaction(&self) -> u32 {
        self.header[4..].first_chunk().copied().map_or(0, u32::from_be_bytes)
    }

    /// Client IP address (`ciaddr`).
    pub fn client_address(&self) -> Ipv4Addr {
        self.address(12)
    }

    /// Address assigned by the server (`yiaddr`).
    pub fn your_address(&self) -> Ipv4Addr {
        self.address(16)
    }

    /// Relay agent address (`giaddr`); unspecified if not relayed.
    pub fn relay_address(&self) -> Ipv4Addr {
        self.address(24)
    }

    /// Client hardware address (`chaddr`).
    pub fn client_mac(&self) -> MacAddress {
        MacAddress::new(self.header[28..].first_chunk().copied().unwrap_or_default())
    }

    /// DHCP message type. Returns `None` if the option is missing.
    pub fn message_type(&self) -> Option<u8> {
        self.option(MESSAGE_TYPE).map(|[kind]: [u8; 1]| kind)
    }

    /// Lease time in seconds. Returns `None` if the option is missing.
    pub fn lease_seconds(&self) -> Option<u32> {
        self.option(LEASE_TIME).map(u32::from_be_bytes)
    }

    /// Requested or declined address. Returns `None` if the option is missing.
    pub fn requested_address(&self) -> Option<Ipv4Addr> {
        self.option::<4>(REQUESTED_ADDRESS).map(Into::into)
    }

    /// Identifier of the server. Returns `None` if the option is missing.
    pub fn server(&self) -> Option<Ipv4Addr> {
        self.option::<4>(SERVER).map(Into::into)
    }

    /// Prefix length of the network. Returns `None` if the option is missing or the mask is not contiguous.
    pub fn prefix(&self) -> Option<u8> {
        let mask = u32::from_be_bytes(self.option(SUBNET_MASK)?);
        (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones() as u8)
    }

    /// Routers, in order of preference.
    pub fn routers(&self) -> impl Iterator<Item = Ipv4Addr> + use<'a> {
        self.addresses(ROUTERS)
    }

    /// Name servers, in order of preference.
    pub fn name_servers(&self) -> impl Iterator<Item = Ipv4Addr> + use<'a> {
        self.addresses(NAME_SERVERS)
    }

    /// MTU of the network in bytes. Returns `None` if the option is missing.
    pub fn mtu(&self) -> Option<u16> {
        self.option(INTERFACE_MTU).map(u16::from_be_bytes)
    }

    /// Time T1 in seconds, after which the client renews its lease. Returns `None` if the option is missing.
    pub fn renewal_seconds(&self) -> Option<u32> {
        self.option(RENEWAL_TIME).map(u32::from_be_bytes)
    }

    /// Time T2 in seconds, after which the client asks any server. Returns `None` if the option is missing.
    pub fn rebinding_seconds(&self) -> Option<u32> {
        self.option(REBINDING_TIME).map(u32::from_be_bytes)
    }

    fn addresses(&self, code: u8) -> impl Iterator<Item = Ipv4Addr> + use<'a> {
        let (addresses, _) = self.bytes(code).unwrap_or_default().as_chunks::<4>();
        addresses.iter().map(|octets| Ipv4Addr::from(*octets))
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        self.header[at..].first_chunk::<4>().copied().unwrap_or_default().into()
    }

    /// Value of the first option with this code. Returns `None` if it has another length.
    fn option<const N: usize>(&self, wanted: u8) -> Option<[u8; N]> {
        self.bytes(wanted)?.try_into().ok()
    }

    /// Value of the first option with this code. Stops at a malformed option.
    fn bytes(&self, wanted: u8) -> Option<&'a [u8]> {
        let mut rest = self.options;
        loop {
            let (code, after) = rest.split_first()?;
            rest = match *code {
                PAD => after,
                END => return None,
                code => {
                    let (len, after) = after.split_first()?;
                    let (value, after) = after.split_at_checked(usize::from(*len))?;
                    if code == wanted {
                        return Some(value);
                    }
                    after
                }
            };
        }
    }
}

/// A message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpMessage {
    /// Message type, such as [`Dhcp::DISCOVER`].
    pub kind: u8,
    /// Transaction identifier (`xid`).
    pub transaction: u32,
    /// Seconds since the client began (`secs`).
    pub seconds: u16,
    /// Whether replies must be sent to the broadcast address.
    pub broadcast: bool,
    /// Address of the client (`ciaddr`); unspecified if it has none.
    pub client_address: Ipv4Addr,
    /// Ethernet address of the client.
    pub mac: MacAddress,
    /// Requested or declined address.
    pub requested: Option<Ipv4Addr>,
    /// Identifier of the server to which the message is addressed.
    pub server: Option<Ipv4Addr>,
}

impl DhcpMessage {
    /// The UDP payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MIN_LEN);
        bytes.extend_from_slice(&[Dhcp::REQUEST, 1, 6, 0]);
        bytes.extend_from_slice(&self.transaction.to_be_bytes());
        bytes.extend_from_slice(&self.seconds.to_be_bytes());
        bytes.extend_from_slice(&[if self.broadcast { BROADCAST } else { 0 }, 0]);
        bytes.extend_from_slice(&self.client_address.octets());
        bytes.resize(28, 0);
        bytes.extend_from_slice(&self.mac.octets());
        bytes.resize(DHCP_HEADER - COOKIE.len(), 0);
        bytes.extend_from_slice(&COOKIE);
        self.write_options(&mut bytes);
        bytes.resize(bytes.len().max(MIN_LEN), PAD);
        bytes
    }

    fn write_options(&self, bytes: &mut Vec<u8>) {
        let mut option = |code: u8, value: &[u8]| {
            bytes.extend_from_slice(&[code, value.len() as u8]);
            bytes.extend_from_slice(value);
        };
        let mut client = [1; 7];
        client[1..].copy_from_slice(&self.mac.octets());
        option(MESSAGE_TYPE, &[self.kind]);
        option(CLIENT, &client);
        if let Some(address) = self.requested {
            option(REQUESTED_ADDRESS, &address.octets());
        }
        if let Some(server) = self.server {
            option(SERVER, &server.octets());
        }
        if matches!(self.kind, Dhcp::DISCOVER | Dhcp::REQUEST_ADDRESS) {
            option(MAX_MESSAGE, &1472_u16.to_be_bytes());
            option(
                PARAMETERS,
                &[SUBNET_MASK, ROUTERS, NAME_SERVERS, INTERFACE_MTU, RENEWAL_TIME, REBINDING_TIME],
            );
        }
        bytes.push(END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::vec;

    fn message(options: &[u8]) -> Vec<u8> {
        let mut message = vec![0; DHCP_HEADER - 4];
        message[..3].copy_from_slice(&[2, 1, 6]);
        message[16..20].copy_from_slice(&[10, 0, 0, 5]);
        message[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        [&message[..], &COOKIE, options].concat()
    }

    #[test]
    fn ack_is_parsed() {
        let bytes = message(&[0, 53, 1, 5, 0, 51, 4, 0, 0, 14, 16, 255]);
        let view = Dhcp::new(&bytes).unwrap();
        assert_eq!((view.operation(), view.message_type(), view.lease_seconds()), (2, Some(5), Some(3600)));
        assert_eq!(view.your_address(), Ipv4Addr::new(10, 0, 0, 5));
        assert_eq!(view.client_mac(), MacAddress::new([2, 0, 0, 0, 0, 1]));
        assert!(view.relay_address().is_unspecified() && view.client_address().is_unspecified());
    }

    #[test]
    fn other_hardware_missing_cookie_and_truncation_are_rejected() {
        let whole = message(&[]);
        assert!(Dhcp::new(&whole).is_some() && Dhcp::new(&whole[..239]).is_none());
        for at in [1, 2, 236, 239] {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(Dhcp::new(&other).is_none(), "byte {at}");
        }
    }

    #[test]
    fn truncated_or_misplaced_option_is_none() {
        let read = |options: &[u8]| Dhcp::new(&message(options)).unwrap().lease_seconds();
        for options in
            [&[51][..], &[51, 4, 0, 0], &[51, 3, 0, 0, 1], &[255, 51, 4, 0, 0, 0, 1], &[9, 200, 51, 4]]
        {
            assert_eq!(read(options), None, "{options:?}");
        }
        assert_eq!(read(&[50, 0, 51, 4, 0, 0, 0, 1]), Some(1));
    }

    #[test]
    fn network_options_are_parsed() {
        let read = |options: &[u8]| {
            let bytes = message(options);
            let view = Dhcp::new(&bytes).unwrap();
            (view.prefix(), view.mtu(), view.routers().count(), view.name_servers().last())
        };
        assert_eq!(read(&[1, 4, 255, 255, 240, 0, 26, 2, 5, 220]), (Some(20), Some(1500), 0, None));
        assert_eq!(read(&[1, 4, 255, 0, 255, 0, 3, 8, 1, 1, 1, 1, 2, 2, 2, 2]), (None, None, 2, None));
        assert_eq!(read(&[1, 4, 0, 0, 0, 0, 6, 5, 9, 9, 9, 9, 1]), (Some(0), None, 0, Some([9; 4].into())));
    }

    proptest! {
        #[test]
        fn built_message_is_parsed(
            kind in 1u8..9, transaction: u32, seconds: u16, broadcast: bool, address: [u8; 4], mac: [u8; 6],
            requested in prop::option::of(any::<[u8; 4]>()), server in prop::option::of(any::<[u8; 4]>()),
        ) {
            let message = DhcpMessage {
                kind,
                transaction,
                seconds,
                broadcast,
                client_address: address.into(),
                mac: MacAddress::new(mac),
                requested: requested.map(Into::into),
                server: server.map(Into::into),
            };
            let bytes = message.to_bytes();
            let view = Dhcp::new(&bytes).unwrap();
            prop_assert_eq!((view.operation(), view.message_type()), (Dhcp::REQUEST, Some(kind)));
            prop_assert_eq!((view.transaction(), view.client_mac()), (transaction, message.mac));
            prop_assert_eq!((view.requested_address(), view.server()), (message.requested, message.server));
            prop_assert_eq!(view.client_address(), message.client_address);
            prop_assert!(bytes.len() >= 300);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(options in prop::collection::vec(prop_oneof![Just(53u8), 0u8..6, any::<u8>()], 0..80)) {
            let bytes = message(&options);
            let view = Dhcp::new(&bytes).unwrap();
            let _ = (view.message_type(), view.lease_seconds(), view.requested_address());
            let _ = (view.prefix(), view.routers().count(), view.name_servers().count(), view.server());
        }
    }
}
