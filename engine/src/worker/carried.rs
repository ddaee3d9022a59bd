//! A burst that its turn did not suffice for, with everything that is needed to go on with it in a later one.

use crate::command::QueueKey;
use port::finish::Finishing;
use port::{Burst, Now, Picks, PortId};

/// A burst that was received and not yet sent everywhere.
pub(crate) struct Carried {
    pub(super) burst: Burst,
    pub(super) from: QueueKey,
    pub(super) delivery: Delivery,
    /// Whether the pipeline has seen it; if not, nothing of `delivery` means anything.
    pub(super) is_classified: bool,
    /// Units of work so far.
    pub(super) cost: u64,
    /// What was charged in front of the hop that it came by, and is not used up yet.
    pub(super) credit: u64,
    /// What was spent beyond that.
    pub(super) owed: u64,
    /// That for each packet, as far as is known.
    pub(super) price: u64,
}

impl Carried {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            burst: Burst::new(),
            from: QueueKey { port: PortId(0), pair: 0 },
            delivery: Delivery::default(),
            is_classified: false,
            cost: 0,
            credit: 0,
            owed: 0,
            price: 0,
        })
    }

    /// Lets go of packets and maps.
    pub(super) fn clear(&mut self) {
        self.burst.unpin();
        self.delivery.made.unpin();
        self.delivery.rests.clear();
        (self.delivery.cut, self.delivery.deadline) = (None, None);
        (self.is_classified, self.cost) = (false, 0);
        (self.credit, self.owed, self.price) = (0, 0, 0);
    }

    /// `units` more were spent. Returns what is beyond the credit.
    pub(super) fn spend(&mut self, units: u64) -> u64 {
        let beyond = units.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(units);
        self.owed += beyond;
        beyond
    }
}

/// What is left to be sent of a burst.
#[derive(Default)]
pub(super) struct Delivery {
    pub(super) rests: Vec<Rest>,
    /// Whether each packet leaves by one port at most, so that its buffers may go along.
    pub(super) alone: bool,
    /// The packet that is being cut into segments.
    pub(super) cut: Option<Cut>,
    /// Its segments of this moment.
    pub(super) made: Burst,
    /// When full queues are waited for no longer. One for the burst, however many outputs there are.
    pub(super) deadline: Option<Now>,
}

/// Packet `packet` of the burst on its way through the segmentation.
pub(super) struct Cut {
    pub(super) packet: u8,
    pub(super) segments: Finishing,
}

/// What is left to be sent to one output.
pub(super) struct Rest {
    pub(super) to: PortId,
    picks: Picks,
    /// Picks that are done with.
    done: usize,
    /// Of the packet that is being cut, which is the first one left: how many of the segments made are sent or counted, and
    /// how many there are in all from the first of those on. `None` if this output takes no part in it.
    pub(super) cut: Option<Part>,
}

/// An output's part in a packet that is being cut.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) sent: usize,
    pub(super) left: usize,
}

impl Rest {
    pub(super) fn new(to: PortId, picks: Picks) -> Self {
        Self { to, picks, done: 0, cut: None }
    }

    pub(super) fn left(&self) -> &[u8] {
        &self.picks.as_slice()[self.done..]
    }

    pub(super) fn is_done(&self) -> bool {
        self.left().is_empty()
    }

    /// `n` more picks are done with.
    pub(super) fn advance(&mut self, n: usize) {
        self.done += n;
    }

    /// These picks, of those that were done with last, are not.
    pub(super) fn put_back(&mut self, picks: &[u8]) {
        let mut all = Picks::EMPTY;
        picks.iter().chain(self.left()).for_each(|&pick| all.push(pick));
        (self.picks, self.done) = (all, 0);
    }

    /// Packets that are still to be sent, or counted as lost: of one that is being cut, its segments.
    pub(super) fn packets(&self) -> u64 {
        let whole = self.left().len();
        self.cut.map_or(whole, |part| part.left + whole - 1) as u64
    }
}
