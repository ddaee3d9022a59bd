//! Common code of ports over Linux interfaces: names, properties, life cycle.
//!
//! `sys` has the system calls, `doorbell` wakes a sleeping worker, `Watch` detects removal of the interface and changes
//! of its link, `link` passes the link state to transmit queues, `life` opens, runs and reopens a port, and `handover`
//! passes it to another process. Each port type implements `Kind`.

mod doorbell;
mod handover;
mod life;
mod link;
pub(crate) mod sys;

pub(crate) use doorbell::Doorbell;
pub(crate) use life::{HeldResource, InterfacePort, Kind, Opened, Pair, Stopped};
pub(crate) use link::LinkState;

use crate::Remedy;
use crate::netns::{self, Identity, Namespace, NamespaceError};
use crate::{PortFault, PortState, RssTable};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::borrow::Cow;

/// Maximum length of a name in bytes: `IFNAMSIZ` minus the terminating zero.
const MAX_NAME: usize = 15;

/// An interface as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Interface name.
    pub interface: String,
    /// Namespace; `None` for that of the switch.
    pub netns: Option<Namespace>,
}

/// A port cannot use an interface. Nothing was changed, or changes were undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// The namespace cannot be used.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The interface does not exist.
    #[error("there is no interface {0}")]
    Missing(Place),
    /// The interface name is invalid.
    #[error("`{0}` can be no interface's name: it has 1 to 15 bytes, and none of them is a slash or a space")]
    Name(String),
    /// The number of queue pairs differs from that of the interface.
    #[error("{place} has {has} queues and the port {wants}")]
    Queues {
        /// Interface.
        place: Place,
        /// Number of queues of the interface.
        has: u16,
        /// Number of queue pairs of the port.
        wants: u16,
    },
    /// An option is out of range: reason and remedy.
    #[error("{0}")]
    Options(String, String),
    /// The interface is in use: reason and remedy.
    #[error("{0} {1}")]
    Taken(Place, String, String),
    /// Not supported by the kernel or the driver: reason and remedy.
    #[error("{0}")]
    Unsupported(String, String),
    /// Permission denied: step, error and remedy.
    #[error("{0} was refused: {1}")]
    Forbidden(&'static str, Errno, &'static str),
    /// Other kernel error.
    #[error("{0} failed for {1}: {2}")]
    Kernel(&'static str, Place, Errno),
    /// Queues of another process cannot be continued.
    #[error("the queues of {0} cannot be continued: {1}")]
    NotAdopted(Place, PortFault),
    /// Out of memory for rings and buffers.
    #[error("there is no memory for the rings and buffers of {0}: {1}")]
    Memory(Place, String),
}

impl Remedy for InterfaceError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Namespace(error) => return error.remedy(),
            Self::Missing(..) => {
                "`ip link` lists those that are there, and an interface elsewhere needs `netns`".into()
            }
            Self::Queues { has, wants, place } => format!(
                "write queue_pairs = {has}, or change the interface (`ethtool -L {name} combined {wants}`)",
                name = place.interface
            )
            .into(),
            Self::Forbidden(_, _, remedy) => (*remedy).into(),
            Self::Memory(..) => "raise `ulimit -l`, or configure shorter rings".into(),
            Self::Options(_, remedy) | Self::Taken(_, _, remedy) | Self::Unsupported(_, remedy) => {
                remedy.clone().into()
            }
            Self::Name(..) | Self::NotAdopted(..) | Self::Kernel(..) => return None,
        })
    }
}

impl From<InterfaceError> for PortFault {
    fn from(error: InterfaceError) -> Self {
        PortFault::Interface(error.in_one_line())
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.interface)?;
        let inside = self.netns.as_ref();
        inside.map_or(Ok(()), |namespace| write!(f, " in the namespace {}", namespace.name()))
    }
}

impl Place {
    /// Rejects invalid interface names.
    pub fn check(&self) -> Result<(), InterfaceError> {
        let name = &self.interface;
        let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0';
        let bad =
            name.is_empty() || name.len() > MAX_NAME || name.contains(odd) || [".", ".."].contains(&&**name);
        if bad { Err(InterfaceError::Name(name.clone())) } else { Ok(()) }
    }

    /// Runs `work` in this interface's namespace; returns the identity of that namespace.
    pub(crate) fn within<T>(
        &self,
        work: impl FnOnce() -> Result<T, InterfaceError>,
    ) -> Result<(T, Option<Identity>), InterfaceError> {
        let (done, identity) = netns::within(self.netns.as_ref(), work)?;
        Ok((done?, identity))
    }

    /// Maps an error of `step`.
    pub(crate) fn refused(&self, step: &'static str) -> impl Fn(Errno) -> InterfaceError {
        let place = self.clone();
        move |errno| match errno {
            Errno::PERM | Errno::ACCESS => {
                let remedy = "run the switch as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF";
                InterfaceError::Forbidden(step, errno, remedy)
            }
            Errno::NODEV => InterfaceError::Missing(place.clone()),
            Errno::NOSYS | Errno::AFNOSUPPORT => InterfaceError::Unsupported(
                format!("{step} is not supported by this kernel ({errno}), so {place} cannot be such a port"),
                "choose another kind, or boot a kernel that has it".into(),
            ),
            Errno::NOMEM | Errno::NOBUFS => InterfaceError::Memory(place.clone(), errno.to_string()),
            _ => InterfaceError::Kernel(step, place.clone(), errno),
        }
    }
}

/// An existing interface, with a socket that reports its removal and changes of its link.
#[derive(Debug)]
pub(crate) struct Watch {
    socket: OwnedFd,
    place: Place,
    link: LinkState,
    /// Interface index.
    pub(crate) index: u32,
}

impl Watch {
    /// Finds the interface. Must be called in its namespace, to which the socket then belongs.
    pub(crate) fn new(place: &Place) -> Result<Self, InterfaceError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let refused = place.refused("a netlink socket");
        // Protocol 0 is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None);
        let socket = socket.map_err(&refused)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, libc::RTMGRP_LINK as u32)).map_err(&refused)?;
        let missing = |_| InterfaceError::Missing(place.clone());
        let index = rustix::net::netdevice::name_to_index(&socket, &place.interface).map_err(missing)?;
        Ok(Self { socket, place: place.clone(), link: LinkState::default(), index })
    }

    /// Drains notifications, which are not parsed, because some may be lost. Checks are made after draining.
    pub(crate) fn drain(&self) {
        let mut message = [0; 4096];
        while rustix::net::recv(&self.socket, &mut message[..], RecvFlags::DONTWAIT).is_ok() {}
    }

    /// Link state for transmit queues.
    pub(crate) fn link(&self) -> &LinkState {
        &self.link
    }

    /// Updates the link state. Returns the state of a port whose queues run: connected, or waiting for the link.
    pub(crate) fn port_state(&self) -> PortState {
        // An interface that is gone or renamed is no matter of its link.
        let is_up = sys::is_up(self.socket.as_fd(), &self.place.interface).unwrap_or(true);
        self.link.set(is_up);
        if is_up {
            PortState::Connected
        } else {
            PortState::Waiting(Some(PortFault::InterfaceDown(self.place.to_string())))
        }
    }

    /// Whether the name no longer refers to the same interface.
    pub(crate) fn is_gone(&self) -> bool {
        rustix::net::netdevice::name_to_index(&self.socket, &self.place.interface) != Ok(self.index)
    }

    /// Rejects a queue count other than that of the interface: packets received on a queue without a socket would be
    /// silently lost to the switch.
    pub(crate) fn check_queues(&self, wants: u16) -> Result<(), InterfaceError> {
        let has = sys::queues(self.socket.as_fd(), &self.place.interface);
        match has {
            Some(has) if has != wants => {
                Err(InterfaceError::Queues { place: self.place.clone(), has, wants })
            }
            _ => Ok(()),
        }
    }

    /// How the driver distributes TCP segments over its queues. Returns `None` if it does not say so, if it does not
    /// hash addresses and ports of both IP versions, or if it uses another hash than Toeplitz.
    pub(crate) fn rss(&self) -> Option<RssTable> {
        let (socket, interface) = (self.socket.as_fd(), &self.place.interface);
        let sys::Rss { is_toeplitz, queues, key } = sys::rss(socket, interface).ok()?;
        let queues = queues.into_iter().map(u16::try_from).collect::<Result<_, _>>().ok()?;
        let is_known = is_toeplitz && sys::hashes_tcp_ports(socket, interface).unwrap_or(false);
        RssTable::new(&key, queues).filter(|_| is_known)
    }

    /// Whether the interface is an end of a veth pair.
    pub(crate) fn is_veth(&self) -> bool {
        sys::driver(self.socket.as_fd(), &self.place.interface)
            .is_some_and(|name| name.starts_with(b"veth\0"))
    }

    /// MTU in bytes, without the Ethernet header.
    pub(crate) fn mtu(&self) -> Result<u32, InterfaceError> {
        let mtu = sys::mtu(self.socket.as_fd(), &self.place.interface);
        mtu.map_err(self.place.refused("asking for the MTU"))
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(interface: &str) -> Place {
        Place { interface: interface.to_owned(), netns: None }
    }

    #[test]
    fn invalid_interface_name_is_rejected() {
        for bad in ["", ".", "..", "a/b", "a b", "a:0", "sixteen-bytes-xx"] {
            assert!(matches!(place(bad).check(), Err(InterfaceError::Name(_))), "{bad}");
        }
        assert_eq!(place("fifteen-bytes-x").check(), Ok(()));
    }

    #[test]
    fn missing_interface_is_reported_with_its_namespace() {
        let error = Watch::new(&place("no-such-if")).unwrap_err();
        assert_eq!(error, InterfaceError::Missing(place("no-such-if")));
        let elsewhere = Place { netns: Some(Namespace::new("blue")), ..place("eth7") };
        let error = InterfaceError::Missing(elsewhere).in_one_line();
        assert!(error.starts_with("there is no interface eth7 in the namespace blue;"), "{error}");
    }

    #[test]
    fn loopback_interface_is_found_and_reported_present() {
        let watch = Watch::new(&place("lo")).unwrap();
        assert!(watch.index > 0 && watch.mtu().unwrap() >= 1500 && !watch.is_gone());
    }

    #[test]
    fn interface_without_rss_is_told_from_one_that_is_not_asked_right() {
        let watch = Watch::new(&place("lo")).unwrap();
        let asked = sys::rss(watch.as_fd(), "lo").err();
        assert_eq!((asked, watch.rss()), (Some(Errno::OPNOTSUPP), None));
        assert_eq!(sys::hashes_tcp_ports(watch.as_fd(), "lo"), Err(Errno::OPNOTSUPP));
        assert_eq!(sys::rss(watch.as_fd(), "no-such-if").err(), Some(Errno::NODEV));
    }

    #[test]
    fn queue_count_mismatch_is_rejected_with_both_remedies() {
        let error = InterfaceError::Queues { place: place("eth0"), has: 4, wants: 1 }.in_one_line();
        assert!(error.contains("eth0 has 4 queues and the port 1; write queue_pairs = 4"), "{error}");
        assert!(error.contains("ethtool -L eth0 combined 1"), "{error}");
    }

    #[test]
    fn kernel_errors_are_reported_with_their_reason() {
        let refused = |errno| place("eth0").refused("binding a socket")(errno);
        assert!(matches!(refused(Errno::PERM), InterfaceError::Forbidden(..)));
        assert!(matches!(refused(Errno::NODEV), InterfaceError::Missing(_)));
        assert!(matches!(refused(Errno::NOMEM), InterfaceError::Memory(..)));
        assert!(matches!(refused(Errno::INVAL), InterfaceError::Kernel(..)));
        let old = refused(Errno::NOSYS).in_one_line();
        assert!(
            old.starts_with("binding a socket is not supported by this kernel") && old.contains("; choose"),
            "{old}"
        );
    }
}
