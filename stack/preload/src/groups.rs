//! Multicast options of sockets: `IP_ADD_MEMBERSHIP` and its relatives, in all structures that C has for them.
//!
//! Must not trust the length of a value.

use crate::{address, error};
use libc::{MCAST_BLOCK_SOURCE, MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, MCAST_MSFILTER, c_int, sockaddr};
use stack::Address;
use std::io;

/// Offset of the address in `struct group_req`.
const GROUP_ADDRESS: usize = 8;
/// Options that remain to be passed on before a socket is bound, at most: the kernel's limit of memberships.
pub(crate) const MAX_DEFERRED: usize = 20;

/// Effect of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A membership, on the interface with this own address, which may be unspecified.
    Join(Address, Address),
    /// As `Join`, its end.
    Leave(Address, Address),
    /// The source of datagrams to groups; `None` is the choice of the stack.
    Source(Option<Address>),
}

/// A multicast option that the program set before it was known which side has the socket.
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub(crate) level: c_int,
    pub(crate) name: c_int,
    pub(crate) value: Vec<u8>,
}

impl Deferred {
    /// The change. `Deferred` is made of options that [`parse`] knows.
    pub(crate) fn change(&self) -> io::Result<Change> {
        parse(self.level, self.name, &self.value).unwrap_or_else(|| error::os(libc::ENOPROTOOPT))
    }
}

/// Parses an option. Returns `None` if it is no multicast option that this library handles.
pub(crate) fn parse(level: c_int, name: c_int, value: &[u8]) -> Option<io::Result<Change>> {
    let parsed = match (level, name) {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP) => v4(value).map(|(group, at)| Change::Join(group, at)),
        (libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP) => v4(value).map(|(group, at)| Change::Leave(group, at)),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => source(value),
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP) => {
            v6(value).map(|(group, at)| Change::Join(group, at))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP) => {
            v6(value).map(|(group, at)| Change::Leave(group, at))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => index(value, 0).map(|_| Change::Source(None)),
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_GROUP) => {
            request(value).map(|(group, at)| Change::Join(group, at))
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_LEAVE_GROUP) => {
            request(value).map(|(group, at)| Change::Leave(group, at))
        }
        // Memberships that are limited to sources would receive all of them.
        (libc::IPPROTO_IP, libc::IP_UNBLOCK_SOURCE..=libc::IP_MSFILTER)
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_BLOCK_SOURCE..=MCAST_MSFILTER) => {
            error::os(libc::ENOPROTOOPT)
        }
        _ => return None,
    };
    Some(parsed)
}

/// The array at an offset.
fn part<const N: usize>(value: &[u8], at: usize) -> io::Result<[u8; N]> {
    let bytes = value.get(at..).and_then(<[u8]>::first_chunk::<N>);
    bytes.copied().map_or_else(|| error::os(libc::EINVAL), Ok)
}

/// The number of an interface, which must be 0: the service's interfaces have no numbers of the kernel.
fn index(value: &[u8], at: usize) -> io::Result<Address> {
    match u32::from_ne_bytes(part(value, at)?) {
        0 => Ok(Address::UNSPECIFIED),
        _ => error::os(libc::ENODEV),
    }
}

/// `struct ip_mreq`, or `struct ip_mreqn`, whose number of an interface precedes the address.
fn v4(value: &[u8]) -> io::Result<(Address, Address)> {
    let (group, local) = (Address::v4(part(value, 0)?), Address::v4(part(value, 4)?));
    if value.len() >= size_of::<libc::ip_mreqn>() {
        index(value, 8)?;
    }
    Ok((group, local))
}

/// `struct ipv6_mreq`.
fn v6(value: &[u8]) -> io::Result<(Address, Address)> {
    Ok((Address::v6(part(value, 0)?), index(value, 16)?))
}

/// `struct group_req`.
#[expect(clippy::cast_ptr_alignment, reason = "addresses are read without alignment")]
fn request(value: &[u8]) -> io::Result<(Address, Address)> {
    let local = index(value, 0)?;
    let group = value.get(GROUP_ADDRESS..).unwrap_or_default();
    // SAFETY: the pointer and the length are those of the slice.
    let group = unsafe { address::read(group.as_ptr().cast::<sockaddr>(), group.len() as libc::socklen_t) };
    group.map_or_else(|| error::os(libc::EINVAL), |group| Ok((group.address, local)))
}

/// `struct in_addr`, `struct ip_mreq` or `struct ip_mreqn` of `IP_MULTICAST_IF`.
fn source(value: &[u8]) -> io::Result<Change> {
    let local = if value.len() < 8 { Address::v4(part(value, 0)?) } else { v4(value)?.1 };
    Ok(Change::Source((!local.is_unspecified()).then_some(local)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{IPPROTO_IP, IPPROTO_IPV6};

    const GROUP: [u8; 4] = [239, 1, 2, 3];
    const OWN: [u8; 4] = [10, 9, 0, 2];

    fn changed(level: c_int, name: c_int, value: &[u8]) -> Result<Change, Option<i32>> {
        parse(level, name, value).expect("a multicast option").map_err(|error| error.raw_os_error())
    }

    #[test]
    fn all_structures_of_ipv4_name_group_and_interface() {
        let (group, own, any) = (Address::v4(GROUP), Address::v4(OWN), Address::v4([0; 4]));
        let join = |value: &[u8]| changed(IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, value);
        assert_eq!(join(&[GROUP, [0; 4]].concat()), Ok(Change::Join(group, any)));
        assert_eq!(join(&[GROUP, OWN].concat()), Ok(Change::Join(group, own)));
        assert_eq!(join(&[GROUP, OWN, [0; 4]].concat()), Ok(Change::Join(group, own)));
        assert_eq!(join(&[GROUP, OWN, [1, 0, 0, 0]].concat()), Err(Some(libc::ENODEV)));
        assert_eq!(join(&GROUP), Err(Some(libc::EINVAL)));
        assert_eq!(join(&[]), Err(Some(libc::EINVAL)));
        let leave = changed(IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, &[GROUP, OWN].concat());
        assert_eq!(leave, Ok(Change::Leave(group, own)));
    }

    #[test]
    fn interfaces_of_ipv6_have_no_number() {
        let group = [0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let of =
            |name, number: u32| changed(IPPROTO_IPV6, name, &[&group[..], &number.to_ne_bytes()].concat());
        let (address, any) = (Address::v6(group), Address::UNSPECIFIED);
        assert_eq!(of(libc::IPV6_ADD_MEMBERSHIP, 0), Ok(Change::Join(address, any)));
        assert_eq!(of(libc::IPV6_DROP_MEMBERSHIP, 0), Ok(Change::Leave(address, any)));
        assert_eq!(of(libc::IPV6_ADD_MEMBERSHIP, 3), Err(Some(libc::ENODEV)));
        assert_eq!(changed(IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &group), Err(Some(libc::EINVAL)));
        assert_eq!(changed(IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &[0; 4]), Ok(Change::Source(None)));
        assert_eq!(changed(IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &[1; 4]), Err(Some(libc::ENODEV)));
    }

    #[test]
    fn a_request_of_either_version_has_a_socket_address() {
        let mut value = [0; 136];
        value[8..10].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        value[12..16].copy_from_slice(&GROUP);
        let group = Address::v4(GROUP);
        for (name, change) in
            [(MCAST_JOIN_GROUP, Change::Join as fn(_, _) -> _), (MCAST_LEAVE_GROUP, Change::Leave)]
        {
            assert_eq!(changed(IPPROTO_IP, name, &value), Ok(change(group, Address::UNSPECIFIED)));
        }
        assert_eq!(changed(IPPROTO_IP, MCAST_JOIN_GROUP, &value[..16]), Err(Some(libc::EINVAL)));
        value[0] = 2;
        assert_eq!(changed(IPPROTO_IP, MCAST_JOIN_GROUP, &value), Err(Some(libc::ENODEV)));
    }

    #[test]
    fn source_is_an_own_address_or_none() {
        let of = |value: &[u8]| changed(IPPROTO_IP, libc::IP_MULTICAST_IF, value);
        assert_eq!(of(&OWN), Ok(Change::Source(Some(Address::v4(OWN)))));
        assert_eq!(of(&[[0; 4], OWN, [0; 4]].concat()), Ok(Change::Source(Some(Address::v4(OWN)))));
        assert_eq!(of(&[0; 4]), Ok(Change::Source(None)));
        assert_eq!(of(&[0; 3]), Err(Some(libc::EINVAL)));
    }

    #[test]
    fn memberships_of_single_sources_are_refused() {
        for name in [
            libc::IP_ADD_SOURCE_MEMBERSHIP,
            libc::IP_BLOCK_SOURCE,
            libc::MCAST_JOIN_SOURCE_GROUP,
            MCAST_MSFILTER,
        ] {
            assert_eq!(changed(IPPROTO_IP, name, &[0; 12]), Err(Some(libc::ENOPROTOOPT)));
        }
        assert!(parse(IPPROTO_IP, libc::IP_MULTICAST_TTL, &[1]).is_none());
        assert!(parse(libc::SOL_SOCKET, libc::IP_ADD_MEMBERSHIP, &[0; 8]).is_none());
    }
}
