//! How a TAP port is configured, and what can be said about that without asking the kernel.

use super::error::TapError;

/// Bytes of an interface's name (`IFNAMSIZ` without its end).
pub const MAX_NAME: usize = 15;
/// Queue pairs of one interface, at most: one worker more brings nothing, and the kernel takes 256.
pub const MAX_QUEUE_PAIRS: u16 = 128;
/// The smallest packet size that IPv4 allows an interface.
pub const MIN_MTU: u16 = 68;
/// The largest that a TAP takes (`MAX_TAP_MTU`: 64 KiB less a header, in `drivers/net/tun.c`).
pub const MAX_MTU: u16 = 65_521;

/// How system calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// One `read` and one `writev` per packet.
    Calls,
    /// `io_uring`, entered by the worker.
    Uring,
    /// As [`Io::Uring`], and a thread of the kernel receives.
    UringSqpoll,
}

impl Io {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Calls, Self::Uring, Self::UringSqpoll];

    /// The name by which people choose it.
    pub fn name(self) -> &'static str {
        match self {
            Io::Calls => "calls",
            Io::Uring => "uring",
            Io::UringSqpoll => "uring-sqpoll",
        }
    }
}

/// How a TAP port is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface's name.
    pub interface: String,
    /// The network namespace it lives in: a name under `/run/netns` or an absolute path; `None` is our own.
    pub netns: Option<String>,
    /// Whether an interface that we make stays when the port goes.
    pub persist: bool,
    /// How system calls are made; `None`: by `io_uring` where the kernel gives it, else one by one
    /// (`docs/decisions/0032-tap-through-io-uring.md`).
    pub io: Option<Io>,
    /// Queue pairs, 1 to [`MAX_QUEUE_PAIRS`]. More than one makes a multi-queue interface.
    pub queue_pairs: u16,
    /// The largest packet without its Ethernet header, [`MIN_MTU`] to [`MAX_MTU`] bytes; `None` leaves it as it is.
    pub mtu: Option<u16>,
}

impl Options {
    /// An interface of this name in our own namespace, and all else as usual.
    pub fn new(interface: impl Into<String>) -> Self {
        let interface = interface.into();
        Self { interface, netns: None, persist: false, io: None, queue_pairs: 1, mtu: None }
    }

    /// Refuses what is out of range, without asking the kernel.
    ///
    /// # Errors
    /// The first thing that is.
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

/// Whether the kernel takes `name` for an interface as it stands (`dev_valid_name`). A `%` would make it choose a number.
fn is_name(name: &str) -> bool {
    let odd = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/:%".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && !matches!(name, "." | "..") && !name.bytes().any(odd)
}

/// Whether `netns` is an absolute path or the name of a file.
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
    fn what_is_out_of_range_is_refused_by_name() {
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
        fn a_name_that_is_taken_fits_the_kernels_field_and_means_itself(name in "\\PC{0,20}") {
            if is_name(&name) {
                prop_assert!(name.len() < 16 && !name.contains(['/', '%', ' ', '\0']));
            }
        }
    }
}
