//! Why a TAP interface could not be had. Nothing was changed then, and what was half made is gone again.

use super::options::{MAX_MTU, MAX_NAME, MAX_QUEUE_PAIRS, MIN_MTU};
use crate::netns::NamespaceError;
use rustix::io::Errno;

/// Why a port could not be made, or could not come back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// No name for an interface.
    #[error(
        "`{0}` cannot be an interface's name; use 1 to {MAX_NAME} bytes without spaces, `/`, `:` and `%`"
    )]
    Name(String),
    /// Neither a name nor a path.
    #[error("`{0}` names no network namespace; use a name under /run/netns or an absolute path")]
    NamespaceName(String),
    /// A number of queue pairs out of range.
    #[error("{0} queue pairs were asked for; 1 to {MAX_QUEUE_PAIRS} are possible")]
    QueuePairs(u16),
    /// An MTU out of range.
    #[error("an MTU of {0} bytes was asked for; {MIN_MTU} to {MAX_MTU} are possible")]
    Mtu(u16),
    /// The namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel has no TUN device.
    #[error("/dev/net/tun cannot be opened: {0}; load the module with `modprobe tun`")]
    NoTun(Errno),
    /// Not enough rights.
    #[error("this process may not make or use the interface {0}; run it as root or with CAP_NET_ADMIN")]
    Denied(String),
    /// Attached elsewhere.
    #[error(
        "the interface {0} is in use by another process or port; choose another name, or end the other user"
    )]
    Busy(String),
    /// The name belongs to something else.
    #[error(
        "the interface {0} exists and is no TAP interface with {1}; choose another name, delete it with \
         `ip link delete {0}`, or change `queue_pairs`"
    )]
    Taken(String, &'static str),
    /// The kernel refused something else.
    #[error("the kernel refused to {0} of the interface {1}: {2}")]
    Refused(&'static str, String, Errno),
    /// `io_uring` is asked for by name and not to be had.
    #[error("the kernel gives no io_uring with multishot reads (since Linux 6.7): {0}; write io = \"calls\"")]
    NoUring(String),
}

impl TapError {
    /// What is wrong, without the remedy behind it.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        text.split_once("; ").map_or(text.clone(), |(reason, _)| reason.to_owned())
    }
}
