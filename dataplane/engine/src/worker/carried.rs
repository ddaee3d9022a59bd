//! A burst that its turn did not suffice for, with everything that is needed to go on with it in a later one.

use crate::command::QueueKey;
use port::soft_offload::SoftGso;
use port::{Batch, Burst, EditId, Edits, Now, PortId};

/// A burst that was received and not yet sent everywhere.
pub(crate) struct Carried {
    pub(super) burst: Burst,
    pub(super) from: QueueKey,
    pub(super) delivery: Delivery,
    /// Whether the pipeline has seen it; if not, nothing of `delivery` means anything.
    pub(super) is_classified: bool,
    /// Units of work so far.
    pub(super) cost: u64,
    /// What was charged in front of the handoff queue that it came by, and is not used up yet.
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
        self.delivery.edits.clear();
        if let Some(edited) = &mut self.delivery.edited {
            edited.unpin();
        }
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
    /// The edits of those.
    pub(super) edits: Edits,
    /// Whether each packet leaves by one port at most, so that its buffers may go along.
    pub(super) alone: bool,
    /// The packet that is being cut into segments.
    pub(super) cut: Option<Cut>,
    /// That packet as its output wants it, where that is not as it was received.
    pub(super) edited: Option<Box<Burst>>,
    /// Its segments of this moment.
    pub(super) made: Burst,
    /// When full queues are waited for no longer. One for the burst, however many outputs there are.
    pub(super) deadline: Option<Now>,
}

/// Packet `packet` of the burst on its way through the segmentation.
pub(super) struct Cut {
    pub(super) packet: u8,
    /// Whether it is cut as it was edited.
    pub(super) edited: bool,
    pub(super) segments: SoftGso,
}

/// What is left to be sent to one output.
pub(super) struct Rest {
    batch: Batch,
    /// Emissions that are done with.
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
    pub(super) fn new(batch: &Batch) -> Self {
        Self { batch: *batch, done: 0, cut: None }
    }

    /// The output.
    pub(super) fn port(&self) -> PortId {
        self.batch.port()
    }

    pub(super) fn is_edited(&self) -> bool {
        self.batch.is_edited()
    }

    /// The packets that are left.
    pub(super) fn left(&self) -> &[u8] {
        &self.batch.indices().as_slice()[self.done..]
    }

    /// The edit of the first emission that is left.
    pub(super) fn first_edit(&self) -> EditId {
        self.batch.edit(self.done)
    }

    /// The next `n` emissions.
    pub(super) fn next(&self, n: usize) -> Emissions<'_> {
        Emissions { batch: &self.batch, from: self.done, to: self.done + n }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left().is_empty()
    }

    /// `n` more emissions are done with.
    pub(super) fn advance(&mut self, n: usize) {
        self.done += n;
    }

    /// These emissions, of those that were done with last, are not.
    pub(super) fn put_back(&mut self, left: &Batch) {
        let mut all = *left;
        let behind = self.left().iter().enumerate();
        behind.for_each(|(k, &i)| all.push(i, self.batch.edit(self.done + k)));
        (self.batch, self.done) = (all, 0);
    }

    /// Packets that are still to be sent, or counted as lost: of one that is being cut, its segments.
    pub(super) fn packets(&self) -> u64 {
        let whole = self.left().len();
        self.cut.map_or(whole, |part| part.left + whole - 1) as u64
    }
}

/// Some of the emissions to one output.
#[derive(Clone, Copy)]
pub(super) struct Emissions<'a> {
    batch: &'a Batch,
    from: usize,
    to: usize,
}

impl<'a> Emissions<'a> {
    /// All of them.
    #[inline(always)]
    pub(super) fn all(batch: &'a Batch) -> Self {
        Self { batch, from: 0, to: batch.indices().as_slice().len() }
    }

    /// The output.
    #[inline(always)]
    pub(super) fn port(self) -> PortId {
        self.batch.port()
    }

    #[inline(always)]
    pub(super) fn is_edited(self) -> bool {
        self.batch.is_edited()
    }

    /// The packets.
    #[inline(always)]
    pub(super) fn indices(self) -> &'a [u8] {
        &self.batch.indices().as_slice()[self.from..self.to]
    }

    /// The edit of the emission at this place.
    pub(super) fn edit(self, place: usize) -> EditId {
        self.batch.edit(self.from + place)
    }
}
