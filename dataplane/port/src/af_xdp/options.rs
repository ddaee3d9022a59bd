//! Options of an `AF_XDP` port, and their ranges.

use super::rules::Rule;
use crate::interface::{InterfaceError, Place};
use crate::netns::Namespace;
use crate::queue::MAX_QUEUE_PAIRS;

/// Minimum ring size: two bursts.
pub const MIN_RING: u16 = 128;
/// Maximum ring size: frame numbers have 16 bits.
pub const MAX_RING: u16 = 32_768;
/// Default ring size.
pub const RING: u16 = 2048;
/// Maximum number of rules: the verifier checks every path through them.
pub const MAX_RULES: usize = 64;

/// Whether the kernel copies frames between the interface and the UMEM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Zero-copy where the driver supports it, else copy.
    #[default]
    Auto,
    /// Always copy.
    Copy,
    /// Always zero-copy. Opening fails if the driver does not support it.
    ZeroCopy,
}

/// Hook that runs the XDP program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// Native where the driver supports it, else generic.
    #[default]
    Auto,
    /// Native (in the driver). Opening fails if the driver does not support it.
    Native,
    /// Generic: supported by every interface, but runs after the kernel has allocated an skb.
    Generic,
}

/// Busy polling: the worker polls the interface instead of waiting for its interrupts
/// (Documentation/networking/napi.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// Maximum packets per poll of the driver.
    pub budget: u16,
}

/// Kernel fast path of a port on a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastPathOptions {
    /// Name of the port, by which control finds it.
    pub name: String,
    /// Namespace of the other end of the veth pair; `None`: that of the interface.
    pub peer: Option<Namespace>,
}

/// Options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface.
    pub place: Place,
    /// Number of queues. Must equal that of the interface.
    pub queue_pairs: u16,
    /// Entries of each ring, a power of two from [`MIN_RING`] to [`MAX_RING`]. Each queue has this many receive
    /// frames and as many transmit frames.
    pub ring: u16,
    /// Copy mode.
    pub mode: Mode,
    /// Hook of the XDP program.
    pub attachment: Attachment,
    /// Frames passed to the kernel, and thereby to other programs on the machine.
    pub to_kernel: Vec<Rule>,
    /// Busy polling by the worker; `None` disables it.
    pub busy_poll: Option<BusyPoll>,
    /// Kernel fast path; `None`: all frames go to the socket.
    pub fast_path: Option<FastPathOptions>,
}

impl Options {
    /// Default options for a port on `place`.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            queue_pairs: 1,
            ring: RING,
            mode: Mode::Auto,
            attachment: Attachment::Auto,
            to_kernel: Vec::new(),
            busy_poll: None,
            fast_path: None,
        }
    }

    /// Returns an error if an option is out of range.
    pub(super) fn check(&self) -> Result<(), InterfaceError> {
        self.place.check()?;
        let wrong = |reason: String, remedy: String| Err(InterfaceError::Options(reason, remedy));
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            let reason = format!("invalid number of queues {}", self.queue_pairs);
            return wrong(reason, format!("write 1 to {MAX_QUEUE_PAIRS}"));
        }
        if !(MIN_RING..=MAX_RING).contains(&self.ring) || !self.ring.is_power_of_two() {
            let range = format!("write a power of two from {MIN_RING} to {MAX_RING}");
            return wrong(format!("invalid ring size {}", self.ring), range);
        }
        if self.to_kernel.len() > MAX_RULES {
            let n = self.to_kernel.len();
            return wrong(format!("`to_kernel` has {n} rules"), format!("write at most {MAX_RULES}"));
        }
        if self.fast_path.is_some() && self.attachment == Attachment::Generic {
            let remedy = "write attach = \"native\", or remove `kernel_fast_path`";
            return wrong("`kernel_fast_path` needs the program in the driver".into(), remedy.into());
        }
        if self.mode == Mode::ZeroCopy && self.attachment == Attachment::Generic {
            let remedy = "write attach = \"native\", or mode = \"copy\"";
            return wrong("zero copy needs the program in the driver".into(), remedy.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Options)) -> Result<(), InterfaceError> {
        let mut options = Options::new(Place { interface: "eth0".to_owned(), netns: None });
        change(&mut options);
        options.check()
    }

    #[test]
    fn out_of_range_options_are_rejected_with_a_remedy() {
        assert_eq!(with(|_| ()), Ok(()));
        for ring in [0, 64, 1000, 65_535] {
            let error = with(|o| o.ring = ring).unwrap_err().to_string();
            assert!(error.contains(&format!("invalid ring size {ring}")), "{error}");
        }
        assert!(with(|o| o.queue_pairs = 0).is_err() && with(|o| o.queue_pairs = 129).is_err());
        assert!(with(|o| o.to_kernel = vec![Rule::EtherType(0x0806); 65]).is_err());
        assert!(with(|o| (o.mode, o.attachment) = (Mode::ZeroCopy, Attachment::Generic)).is_err());
        assert!(with(|o| o.place.interface = String::new()).is_err());
        let fast = || Some(FastPathOptions { name: "a".to_owned(), peer: None });
        assert_eq!(with(|o| o.fast_path = fast()), Ok(()));
        assert!(with(|o| (o.fast_path, o.attachment) = (fast(), Attachment::Generic)).is_err());
    }
}
