//! How an `AF_XDP` port is configured, and what is out of range.

use super::rules::Rule;
use crate::interface::{InterfaceError, Place};
use crate::queue::MAX_QUEUE_PAIRS;

/// Shortest ring: a burst and another one behind it.
pub const MIN_RING: u16 = 128;
/// Longest ring: a frame's number has 16 bits.
pub const MAX_RING: u16 = 32_768;
/// The length of a ring by default.
pub const RING: u16 = 2048;
/// Most rules: the verifier looks at every path through them.
pub const MAX_RULES: usize = 64;

/// Whether the kernel copies frames between the interface and the UMEM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Zero-copy where the driver supports it, else copy.
    #[default]
    Auto,
    /// The kernel, always.
    Copy,
    /// Zero-copy; a driver without it is refused.
    ZeroCopy,
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// In the driver where it can, else in the kernel's generic hook.
    #[default]
    Auto,
    /// In the driver; one that cannot is refused.
    Native,
    /// In the generic hook, which every interface has, behind the making of a socket buffer.
    Generic,
}

/// Polling the interface from the switch's worker, instead of waiting for its interrupts
/// (Documentation/networking/napi.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// Most packets that the driver is asked for at a time.
    pub budget: u16,
}

/// How a port is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface.
    pub place: Place,
    /// Queues; the interface must have as many.
    pub queue_pairs: u16,
    /// Entries of each ring, a power of two from [`MIN_RING`] to [`MAX_RING`]. Each queue has as many frames to receive
    /// into, and as many to send from.
    pub ring: u16,
    /// Copy or not.
    pub mode: Mode,
    /// Where the program runs.
    pub attachment: Attachment,
    /// What the kernel gets, and with it the other programs of the machine.
    pub to_kernel: Vec<Rule>,
    /// Whether the interface is polled from the worker.
    pub busy_poll: Option<BusyPoll>,
}

impl Options {
    /// A port over `place` with every default.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            queue_pairs: 1,
            ring: RING,
            mode: Mode::Auto,
            attachment: Attachment::Auto,
            to_kernel: Vec::new(),
            busy_poll: None,
        }
    }

    /// Refuses what is out of range.
    pub(super) fn check(&self) -> Result<(), InterfaceError> {
        self.place.check()?;
        let wrong = |text: String| Err(InterfaceError::Options(text));
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            return wrong(format!(
                "{} queues were asked for; write 1 to {MAX_QUEUE_PAIRS}",
                self.queue_pairs
            ));
        }
        if !(MIN_RING..=MAX_RING).contains(&self.ring) || !self.ring.is_power_of_two() {
            let range = format!("write a power of two from {MIN_RING} to {MAX_RING}");
            return wrong(format!("rings of {} entries were asked for; {range}", self.ring));
        }
        if self.to_kernel.len() > MAX_RULES {
            let n = self.to_kernel.len();
            return wrong(format!("`to_kernel` has {n} rules; one port may have {MAX_RULES}"));
        }
        if self.mode == Mode::ZeroCopy && self.attachment == Attachment::Generic {
            let remedy = "write attach = \"native\", or mode = \"copy\"";
            return wrong(format!("zero copy needs the program in the driver; {remedy}"));
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
    fn what_is_out_of_range_is_refused_with_its_remedy() {
        assert_eq!(with(|_| ()), Ok(()));
        for ring in [0, 64, 1000, 65_535] {
            let error = with(|o| o.ring = ring).unwrap_err().to_string();
            assert!(error.contains(&format!("rings of {ring} entries")), "{error}");
        }
        assert!(with(|o| o.queue_pairs = 0).is_err() && with(|o| o.queue_pairs = 129).is_err());
        assert!(with(|o| o.to_kernel = vec![Rule::EtherType(0x0806); 65]).is_err());
        assert!(with(|o| (o.mode, o.attachment) = (Mode::ZeroCopy, Attachment::Generic)).is_err());
        assert!(with(|o| o.place.interface = String::new()).is_err());
    }
}
