//! A burst that exceeded the budget of its turn, with the state to continue it in a later turn.

use crate::command::QueueKey;
use port::soft_offload::SoftGso;
use port::{Batch, Burst, EditId, Edits, Flooded, Now, PortId};

/// A burst that was received and not yet sent to all outputs.
pub(crate) struct Carried {
    pub(super) burst: Burst,
    pub(super) from: QueueKey,
    pub(super) delivery: Delivery,
    /// Whether the pipeline has classified it; if not, `delivery` is not valid.
    pub(super) is_classified: bool,
    /// Units of work so far.
    pub(super) cost: u64,
    /// Remaining part of the charge in front of the handoff queue that it arrived through.
    pub(super) credit: u64,
    /// Units spent beyond that.
    pub(super) owed: u64,
    /// `owed` per packet, as far as known.
    pub(super) price: u64,
    /// When it was received, in ticks, if it is sampled.
    pub(super) received: Option<u64>,
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
            received: None,
        })
    }

    /// Releases packets and memory tables.
    pub(super) fn clear(&mut self) {
        self.burst.unpin();
        self.delivery.derived.unpin();
        self.delivery.rests.clear();
        self.delivery.edits.clear();
        if let Some(edited) = &mut self.delivery.edited {
            edited.unpin();
        }
        (self.delivery.cut, self.delivery.deadline) = (None, None);
        (self.is_classified, self.cost) = (false, 0);
        (self.credit, self.owed, self.price) = (0, 0, 0);
        self.received = None;
    }

    /// Records `units` of work. Returns the part beyond the credit.
    pub(super) fn spend(&mut self, units: u64) -> u64 {
        let beyond = units.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(units);
        self.owed += beyond;
        beyond
    }
}

/// The unsent part of a burst.
#[derive(Default)]
pub(super) struct Delivery {
    pub(super) rests: Vec<Unsent>,
    /// Edits of `rests`.
    pub(super) edits: Edits,
    /// Flooded packets of the burst.
    pub(super) flooded: Flooded,
    /// Whether each packet has at most one output, so that its buffers may be handed over.
    pub(super) alone: bool,
    /// The packet being segmented.
    pub(super) cut: Option<Segmentation>,
    /// Edited form of that packet, if the output needs one.
    pub(super) edited: Option<Box<Burst>>,
    /// Its current segments.
    pub(super) derived: Burst,
    /// Deadline for waiting for full queues; one for the burst, independent of the number of outputs.
    pub(super) deadline: Option<Now>,
}

/// Packet `packet` of the burst during segmentation.
pub(super) struct Segmentation {
    pub(super) packet: u8,
    /// Whether its edited form is segmented.
    pub(super) edited: bool,
    pub(super) segments: SoftGso,
}

/// The unsent part for one output.
pub(super) struct Unsent {
    batch: Batch,
    /// Number of finished emissions.
    done: usize,
    /// For the packet being segmented, which is the first one left: progress of this output. `None` if this output
    /// does not take part.
    pub(super) cut: Option<OutputProgress>,
}

/// Progress of one output in a segmented packet: `sent` of the current segments are sent or counted; `left` segments
/// remain in total.
#[derive(Clone, Copy)]
pub(super) struct OutputProgress {
    pub(super) sent: usize,
    pub(super) left: usize,
}

impl Unsent {
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

    /// Indices of the packets that are left.
    pub(super) fn left(&self) -> &[u8] {
        &self.batch.indices().as_slice()[self.done..]
    }

    /// The edit of emission `place` of those left.
    pub(super) fn edit(&self, place: usize) -> EditId {
        self.batch.edit(self.done + place)
    }

    /// The next `n` emissions.
    pub(super) fn next(&self, n: usize) -> Emissions<'_> {
        Emissions { batch: &self.batch, from: self.done, to: self.done + n }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left().is_empty()
    }

    /// Marks `n` more emissions as finished.
    pub(super) fn advance(&mut self, n: usize) {
        self.done += n;
    }

    /// Puts back emissions of those that were finished last.
    pub(super) fn put_back(&mut self, left: &Batch) {
        let mut all = *left;
        let behind = self.left().iter().enumerate();
        behind.for_each(|(k, &i)| all.push(i, self.batch.edit(self.done + k)));
        (self.batch, self.done) = (all, 0);
    }

    /// Number of packets still to be sent or counted as lost, with a packet in segmentation counted as its segments.
    pub(super) fn packets(&self) -> u64 {
        self.packets_by_index().map(|(_, packets)| packets).sum()
    }

    /// [`Unsent::packets`] for each index.
    pub(super) fn packets_by_index(&self) -> impl Iterator<Item = (u8, u64)> {
        let first = self.cut.map_or(1, |part| part.left as u64);
        self.left().iter().zip(std::iter::once(first).chain(std::iter::repeat(1))).map(|(&i, n)| (i, n))
    }
}

/// A range of the emissions to one output.
#[derive(Clone, Copy)]
pub(super) struct Emissions<'a> {
    batch: &'a Batch,
    from: usize,
    to: usize,
}

impl<'a> Emissions<'a> {
    /// All emissions.
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

    /// Indices of the packets.
    #[inline(always)]
    pub(super) fn indices(self) -> &'a [u8] {
        &self.batch.indices().as_slice()[self.from..self.to]
    }

    /// The edit of the emission at index `place`.
    pub(super) fn edit(self, place: usize) -> EditId {
        self.batch.edit(self.from + place)
    }
}
