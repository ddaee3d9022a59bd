//! The other end of a veth pair: finds it, and has it receive redirected frames.
//!
//! A veth end accepts frames from XDP programs (`ndo_xdp_xmit`) only if its peer processes them in NAPI, which GRO or
//! an XDP program on the peer enables (drivers/net/veth.c, `veth_xdp_xmit`).

use crate::interface::{InterfaceError, Place, sys};
use crate::netns::{self, Namespace, NamespaceError};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

// Numbers of rtnetlink(7), linux/rtnetlink.h and linux/net_namespace.h.
const GET_LINK: u16 = 18;
const GET_NAMESPACE: u16 = 90;
const REQUEST: u16 = 1;
/// `IFLA_LINK`: index of the other end, in its namespace.
const LINK: u16 = 5;
/// `IFLA_LINK_NETNSID`: number of that namespace, if it is another one.
const LINK_NAMESPACE: u16 = 37;
/// `NETNSA_NSID` and `NETNSA_FD`.
const NUMBER: u16 = 1;
const DESCRIPTOR: u16 = 3;
/// Sizes of `struct nlmsghdr`, of `struct ifinfomsg` and `struct rtgenmsg` behind it, and of `struct rtattr`.
const HEADER: usize = 16;
const INFORMATION: usize = 16;
const GENERAL: usize = 4;
const ATTRIBUTE: usize = 4;

/// Enables NAPI on the peer of the veth end `index` at `place`, which must be in this thread's namespace. The peer is
/// in the same namespace, or in `netns`. Returns its MTU.
pub(super) fn prepare(place: &Place, index: u32, netns: Option<&Namespace>) -> Result<u32, InterfaceError> {
    let refused = place.refused("asking for the peer");
    let socket = sys::packet_socket().map_err(place.refused("making a packet socket"))?;
    let driver = sys::driver(socket.as_fd(), &place.interface);
    if !driver.is_some_and(|driver| driver.starts_with(b"veth\0")) {
        return Err(no_veth(place));
    }
    let attributes = link(index).map_err(&refused)?;
    let peer = find(&attributes, LINK).ok_or_else(|| no_veth(place))?;
    let Some(number) = find(&attributes, LINK_NAMESPACE) else { return enable(place, peer) };
    let netns = netns.ok_or_else(|| elsewhere(place))?;
    let file =
        rustix::fs::open(netns.path(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let file = file.map_err(|errno| NamespaceError::Missing(netns.path(), errno))?;
    if namespace(file.as_fd()).map_err(&refused)? != Some(number) {
        return Err(elsewhere(place));
    }
    netns::within(Some(netns), || enable(place, peer))?.0
}

/// Enables NAPI on interface `peer` of this thread's namespace.
fn enable(place: &Place, peer: u32) -> Result<u32, InterfaceError> {
    let socket = sys::packet_socket().map_err(place.refused("making a packet socket"))?;
    let name = rustix::net::netdevice::index_to_name(&socket, peer).map_err(|_| elsewhere(place))?;
    sys::enable_gro(socket.as_fd(), &name).map_err(place.refused("enabling GRO at the peer"))?;
    sys::mtu(socket.as_fd(), &name).map_err(place.refused("asking for the MTU of the peer"))
}

/// Attributes of an interface of this thread's namespace.
fn link(index: u32) -> Result<Vec<u8>, Errno> {
    let mut rest = [0; INFORMATION];
    rest[4..8].copy_from_slice(&index.to_ne_bytes());
    ask(GET_LINK, &rest, INFORMATION)
}

/// Number by which this thread's namespace knows another one; `None` if it does not.
fn namespace(file: BorrowedFd<'_>) -> Result<Option<u32>, Errno> {
    let mut rest = [0; GENERAL + ATTRIBUTE + 4];
    rest[GENERAL..][..2].copy_from_slice(&((ATTRIBUTE + 4) as u16).to_ne_bytes());
    rest[GENERAL + 2..][..2].copy_from_slice(&DESCRIPTOR.to_ne_bytes());
    rest[GENERAL + ATTRIBUTE..].copy_from_slice(&file.as_raw_fd().to_ne_bytes());
    Ok(find(&ask(GET_NAMESPACE, &rest, GENERAL)?, NUMBER))
}

/// Sends a request and returns the attributes of the answer, which are behind `skipped` bytes.
fn ask(request: u16, rest: &[u8], skipped: usize) -> Result<Vec<u8>, Errno> {
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut question = vec![0; HEADER];
    question[..4].copy_from_slice(&((HEADER + rest.len()) as u32).to_ne_bytes());
    question[4..6].copy_from_slice(&request.to_ne_bytes());
    question[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    question.extend_from_slice(rest);
    rustix::net::send(&socket, &question, SendFlags::empty())?;
    let mut answer = vec![0; 1 << 16];
    // The kernel has answered before `send` returns.
    let (_, len) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    let attributes = answer.get(HEADER + skipped..len);
    attributes.map(<[u8]>::to_vec).ok_or(Errno::NODEV)
}

/// The attribute of four bytes of this type.
fn find(attributes: &[u8], wanted: u16) -> Option<u32> {
    let half = |bytes: &[u8], at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
    let mut rest = attributes;
    loop {
        let (len, kind) = (usize::from(half(rest, 0)?), half(rest, 2)?);
        if kind == wanted && len == ATTRIBUTE + 4 {
            return rest.get(ATTRIBUTE..len)?.try_into().ok().map(u32::from_ne_bytes);
        }
        rest = rest.get(len.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
}

fn no_veth(place: &Place) -> InterfaceError {
    InterfaceError::Unsupported(
        format!("`kernel_fast_path` requires a veth pair; {place} is not one"),
        "remove `kernel_fast_path`".into(),
    )
}

fn elsewhere(place: &Place) -> InterfaceError {
    InterfaceError::Unsupported(
        format!("`kernel_fast_path`: the peer of {place} is in another namespace"),
        "write peer_netns = \"NAME\", the namespace of the other end of the veth pair".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;

    #[test]
    fn interface_other_than_veth_is_rejected() {
        let place = Place { interface: "lo".to_owned(), netns: None };
        match prepare(&place, 1, None) {
            // Without rights there is no socket.
            Err(InterfaceError::Forbidden(..)) => {}
            other => assert_eq!(other, Err(no_veth(&place))),
        }
        let error = elsewhere(&place).in_one_line();
        assert!(error.contains("the peer of lo is in another namespace; write peer_netns"), "{error}");
    }

    #[test]
    fn attributes_are_found_behind_others_and_within_bounds() {
        let mut message = Vec::new();
        message.extend([6, 0, 3, 0, b'a', 0, 0, 0]);
        message.extend([8, 0, 5, 0, 7, 0, 0, 0]);
        assert_eq!((find(&message, LINK), find(&message, 6)), (Some(7), None));
        for end in 0..message.len() {
            assert_eq!(find(&message[..end], LINK), None, "{end} bytes");
        }
        // Interface 1 is the loopback interface, whose MTU (type 4) is known.
        assert!(find(&link(1).unwrap(), 4).is_some_and(|mtu| mtu >= 1500));
    }
}
