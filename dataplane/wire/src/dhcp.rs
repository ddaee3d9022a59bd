//! DHCP for IPv4 (RFC 2131), limited to the fields used for snooping: client, leased address, lease time.

use crate::MacAddress;
use core::net::Ipv4Addr;

/// Length before the options, including the magic cookie, in bytes.
pub const DHCP_HEADER: usize = 240;

const COOKIE: [u8; 4] = [99, 130, 83, 99];
const PAD: u8 = 0;
const REQUESTED_ADDRESS: u8 = 50;
const LEASE_TIME: u8 = 51;
const MESSAGE_TYPE: u8 = 53;
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
    /// Message type DHCPDECLINE: the address is in use elsewhere.
    pub const DECLINE: u8 = 4;
    /// Message type DHCPACK: the address is leased.
    pub const ACK: u8 = 5;
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

    fn address(&self, at: usize) -> Ipv4Addr {
        self.header[at..].first_chunk::<4>().copied().unwrap_or_default().into()
    }

    /// Value of the first option with this code. Returns `None` if it has another length. Stops at a malformed option.
    fn option<const N: usize>(&self, wanted: u8) -> Option<[u8; N]> {
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
                        return value.try_into().ok();
                    }
                    after
                }
            };
        }
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

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(options in prop::collection::vec(prop_oneof![Just(53u8), 0u8..6, any::<u8>()], 0..80)) {
            let bytes = message(&options);
            let view = Dhcp::new(&bytes).unwrap();
            let _ = (view.message_type(), view.lease_seconds(), view.requested_address());
        }
    }
}
