//! TAP port configuration and its validation.

use super::error::TapError;

/// Maximum length of an interface name in bytes (`IFNAMSIZ` minus the terminator).
pub const MAX_NAME: usize = 15;
/// Maximum number of queue pairs per interface; more bring no benefit, and the kernel supports 256.
pub const MAX_QUEUE_PAIRS: u16 = 128;
/// Minimum MTU required by IPv4.
pub const MIN_MTU: u16 = 68;
/// Maximum MTU of a TAP interface (`MAX_TAP_MTU`: 64 KiB minus a header, in `drivers/net/tun.c`).
pub const MAX_MTU: u16 = 65_521;

/// I/O mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// One `read` and one `writev` per packet.
    Calls,
    /// `io_uring`, entered by the worker.
    Uring,
    /// [`Io::Uring`], with a kernel thread for receive (SQPOLL).
    UringSqpoll,
}

impl Io {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Calls, Self::Uring, Self::UringSqpoll];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Io::Calls => "calls",
            Io::Uring => "uring",
            Io::UringSqpoll => "uring-sqpoll",
        }
    }
}

/// TAP port configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Interface name.
    pub interface: String,
    /// Network namespace: a name under `/run/netns` or an absolute path; `None` for that of the switch.
    pub netns: Option<String>,
    /// Whether an interface created here remains after the port is closed.
    pub persist: bool,
    /// I/O mode; `None`: `io_uring` if available, else system calls (`docs/decisions/0032-tap-through-io-uring.md`).
    pub io: Option<Io>,
    /// Queue pairs, 1 to [`MAX_QUEUE_PAIRS`]. More than one creates a multi-queue interface.
    pub queue_pairs: u16,
    /// MTU in bytes, [`MIN_MTU`] to [`MAX_MTU`]; `None` leaves it unchanged.
    pub mtu: Option<u16>,
}

impl Options {
    /// An interface of this name in the switch's namespace, with default options.
    pub fn new(interface: impl Into<String>) -> Self {
        let interface = interface.into();
        Self { interface, netns: None, persist: false, io: None, queue_pairs: 1, mtu: None }
    }

    /// Validates the options without system calls.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<(), TapError> {
        if !is_name(&self.interface) {
            return Err(TapError::Name(self.interface.clone()));
        }
        if let Some(netns) = self.netns.as_ref().filter(|netns| !is_namespace(netns)) {
            return Err(TapError::NamespaceName(netns.clone()));
        }
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            return Err(TapError::QueuePairs(self.queue_pairs));
        }
        match self.mtu {
            Some(mtu) if !(MIN_MTU..=MAX_MTU).contains(&mtu) => Err(TapError::Mtu(mtu)),
            _ => Ok(()),
        }
    }
}

/// Whether the kernel accepts `name` verbatim (`dev_valid_name`). A `%` would make it choose a number.
fn is_name(name: &str) -> bool {
    let odd = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/:%".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && !matches!(name, "." | "..") && !name.bytes().any(odd)
}

/// Whether `netns` is an absolute path or a file name.
fn is_namespace(netns: &str) -> bool {
    netns.starts_with('/') || !netns.is_empty() && !netns.contains('/') && !matches!(netns, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(change: impl FnOnce(&mut Options)) -> Result<(), TapError> {
        let mut options = Options::new("vm0");
        change(&mut options);
        options.check()
    }

    #[test]
    fn out_of_range_options_are_rejected_by_name() {
        assert!(with(|_| ()).is_ok());
        for name in ["", "sixteen-letters-", "a b", "a/b", "tap%d", "a:1", ".", ".."] {
            let error = with(|o| o.interface = name.to_owned()).unwrap_err();
            assert!(matches!(&error, TapError::Name(n) if n == name), "{error}");
        }
        for netns in ["", "a/b", ".."] {
            assert!(matches!(with(|o| o.netns = Some(netns.to_owned())), Err(TapError::NamespaceName(_))));
        }
        assert!(with(|o| o.netns = Some("/proc/1/ns/net".to_owned())).is_ok());
        assert!(matches!(with(|o| o.queue_pairs = 0), Err(TapError::QueuePairs(0))));
        assert!(matches!(with(|o| o.queue_pairs = 129), Err(TapError::QueuePairs(129))));
        assert!(matches!(with(|o| o.mtu = Some(67)), Err(TapError::Mtu(67))));
        assert!(matches!(with(|o| o.mtu = Some(65_522)), Err(TapError::Mtu(65_522))));
    }

    proptest! {
        #[test]
        fn accepted_name_fits_the_kernel_field(name in "\\PC{0,20}") {
            if is_name(&name) {
                prop_assert!(name.len() < 16 && !name.contains(['/', '%', ' ', '\0']));
            }
        }
    }
}
