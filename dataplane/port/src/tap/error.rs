//! TAP interface errors. Nothing was changed, or partial changes were undone.

use super::options::{MAX_MTU, MAX_NAME, MAX_QUEUE_PAIRS, MIN_MTU};
use crate::Remedy;
use crate::interface::InterfaceError;
use crate::netns::NamespaceError;
use rustix::io::Errno;
use std::borrow::Cow;

/// A TAP port could not be opened or reopened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// Invalid interface name.
    #[error("`{0}` cannot be an interface's name")]
    Name(String),
    /// Invalid namespace name.
    #[error("`{0}` names no network namespace")]
    NamespaceName(String),
    /// The number of queue pairs is out of range.
    #[error("invalid number of queue pairs {0}")]
    QueuePairs(u16),
    /// The MTU is out of range.
    #[error("invalid MTU {0}")]
    Mtu(u16),
    /// The namespace cannot be used.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The link of the interface cannot be watched.
    #[error(transparent)]
    Link(#[from] InterfaceError),
    /// No TUN device.
    #[error("/dev/net/tun cannot be opened: {0}")]
    NoTun(Errno),
    /// Permission denied.
    #[error("this process may not make or use the interface {0}")]
    Denied(String),
    /// The interface is in use.
    #[error("the interface {0} is in use by another process or port")]
    Busy(String),
    /// The name belongs to another kind of interface.
    #[error("the interface {0} exists and is no TAP interface with {1}")]
    Taken(String, &'static str),
    /// Other kernel error.
    #[error("the kernel refused to {0} of the interface {1}: {2}")]
    Refused(&'static str, String, Errno),
    /// `io_uring` is configured but not available.
    #[error("the kernel gives no io_uring with multishot reads (since Linux 6.7): {0}")]
    NoUring(String),
}

impl Remedy for TapError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Name(..) => format!("use 1 to {MAX_NAME} bytes without spaces, `/`, `:` and `%`").into(),
            Self::NamespaceName(..) => "use a name under /run/netns or an absolute path".into(),
            Self::QueuePairs(..) => format!("write 1 to {MAX_QUEUE_PAIRS}").into(),
            Self::Mtu(..) => format!("write {MIN_MTU} to {MAX_MTU}").into(),
            Self::Namespace(error) => return error.remedy(),
            Self::Link(error) => return error.remedy(),
            Self::NoTun(..) => "load the module with `modprobe tun`".into(),
            Self::Denied(..) => "run it as root or with CAP_NET_ADMIN".into(),
            Self::Busy(..) => "choose another name, or end the other user".into(),
            Self::Taken(name, _) => format!(
                "choose another name, delete it with `ip link delete {name}`, or change `queue_pairs`"
            )
            .into(),
            Self::NoUring(..) => "write io = \"calls\"".into(),
            Self::Refused(..) => return None,
        })
    }
}
