//! TAP interface errors. Nothing was changed, or partial changes were undone.

use super::options::{MAX_MTU, MAX_NAME, MAX_QUEUE_PAIRS, MIN_MTU};
use crate::interface::InterfaceError;
use crate::netns::NamespaceError;
use rustix::io::Errno;

/// A TAP port could not be opened or reopened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// Invalid interface name.
    #[error(
        "`{0}` cannot be an interface's name; use 1 to {MAX_NAME} bytes without spaces, `/`, `:` and `%`"
    )]
    Name(String),
    /// Invalid namespace name.
    #[error("`{0}` names no network namespace; use a name under /run/netns or an absolute path")]
    NamespaceName(String),
    /// The number of queue pairs is out of range.
    #[error("invalid number of queue pairs {0}; write 1 to {MAX_QUEUE_PAIRS}")]
    QueuePairs(u16),
    /// The MTU is out of range.
    #[error("invalid MTU {0}; write {MIN_MTU} to {MAX_MTU}")]
    Mtu(u16),
    /// The namespace cannot be used.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The link of the interface cannot be watched.
    #[error(transparent)]
    Link(#[from] InterfaceError),
    /// No TUN device.
    #[error("/dev/net/tun cannot be opened: {0}; load the module with `modprobe tun`")]
    NoTun(Errno),
    /// Permission denied.
    #[error("this process may not make or use the interface {0}; run it as root or with CAP_NET_ADMIN")]
    Denied(String),
    /// The interface is in use.
    #[error(
        "the interface {0} is in use by another process or port; choose another name, or end the other user"
    )]
    Busy(String),
    /// The name belongs to another kind of interface.
    #[error(
        "the interface {0} exists and is no TAP interface with {1}; choose another name, delete it with \
         `ip link delete {0}`, or change `queue_pairs`"
    )]
    Taken(String, &'static str),
    /// Other kernel error.
    #[error("the kernel refused to {0} of the interface {1}: {2}")]
    Refused(&'static str, String, Errno),
    /// `io_uring` is configured but not available.
    #[error("the kernel gives no io_uring with multishot reads (since Linux 6.7): {0}; write io = \"calls\"")]
    NoUring(String),
}

impl TapError {
    /// The error without its remedy.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        text.split_once("; ").map_or(text.clone(), |(reason, _)| reason.to_owned())
    }
}
