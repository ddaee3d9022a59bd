//! Outputs of a sampled packet, read from the verdicts of its passes.

use port::{Burst, EditId, PortId, Verdicts};
use wire::{Ethernet, Tag};

/// Where a packet was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Number of copies.
    pub count: u16,
    /// Port of the first copy.
    pub first: Option<PortId>,
    /// VLAN tag of the first copy.
    pub tag: Option<Tag>,
    /// Whether a copy went to a controller or a protocol of the switch.
    pub punted: bool,
}

impl Outputs {
    /// Adds what the verdicts of a pass say about packet `i`.
    pub(super) fn add(&mut self, burst: &Burst, i: usize, verdicts: &Verdicts, scratch: &mut Burst) {
        self.punted |= verdicts.is_punted(i);
        for batch in verdicts.batches() {
            for (place, _) in
                batch.indices().as_slice().iter().enumerate().filter(|(_, at)| **at as usize == i)
            {
                self.count = self.count.saturating_add(1);
                if self.first.is_none() {
                    self.first = Some(batch.port());
                    self.tag = tag(burst, i, (verdicts, batch.edit(place)), scratch);
                }
            }
        }
    }
}

/// VLAN tag of a packet after an edit.
fn tag(burst: &Burst, i: usize, (verdicts, edit): (&Verdicts, EditId), scratch: &mut Burst) -> Option<Tag> {
    if edit == EditId::NONE {
        return Ethernet::new(burst.head(i)).ok()?.tag();
    }
    scratch.begin_from(burst);
    let made = scratch.push_edited(burst, i, verdicts.edits(), edit);
    let tag = made.ok().and_then(|()| Ethernet::new(scratch.head(0)).ok()?.tag());
    scratch.unpin();
    tag
}
