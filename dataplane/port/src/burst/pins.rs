//! Maps pinned by a burst, and the buffers that it returns to their lender.

use super::Burst;
use crate::retain::Lender;
use mem::GuestMemory;
use std::sync::Arc;

/// A pinned map of one source, and the lender of its buffers if the source owns them.
#[derive(Clone)]
pub(super) struct Pin {
    pub(super) map: Arc<GuestMemory>,
    lender: Option<Lender>,
}

impl Burst {
    /// Unpins all maps and removes the packets in the burst.
    pub fn unpin(&mut self) {
        (self.n, self.returned) = (0, 0);
        self.spill.clear();
        self.pins.fill_with(|| None);
    }

    /// Pins `map`: it stays mapped while this burst may hold segments of it.
    #[inline]
    pub fn pin(&mut self, map: &Arc<GuestMemory>) {
        let pin = &mut self.pins[self.source];
        if pin.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.map, map) || old.lender.is_some()) {
            *pin = Some(Pin { map: map.clone(), lender: None });
        }
    }

    /// [`Burst::pin`] for a source that owns its buffers, so that packets can be retained in place.
    #[inline]
    pub(crate) fn pin_own(&mut self, map: &Arc<GuestMemory>, lender: &Lender) {
        let pin = &mut self.pins[self.source];
        if pin.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.map, map) || old.lender.is_none()) {
            *pin = Some(Pin { map: map.clone(), lender: Some(lender.clone()) });
        }
    }

    /// Map of this burst's packets and lender of their buffers, if the source owns them.
    pub(crate) fn lender(&self) -> Option<(Arc<GuestMemory>, Lender)> {
        let pin = self.pins.get(self.source)?.as_ref()?;
        Some((pin.map.clone(), pin.lender.clone()?))
    }

    /// Whether the burst still has to return all of these buffers.
    pub(crate) fn holds(&self, ids: &[u16]) -> bool {
        ids.iter().all(|id| self.buf_ids().iter().any(|buf_id| buf_id.id == *id))
    }

    /// Removes these buffers from those to return.
    pub(crate) fn take_out(&mut self, ids: &[u16]) {
        let mut to = 0;
        for from in 0..self.returned {
            self.buf_ids[to] = self.buf_ids[from];
            to += usize::from(!ids.contains(&self.buf_ids[from].id));
        }
        self.returned = to;
    }

    /// Unpins the maps of other sources, so that a burst kept for long does not keep them mapped.
    pub fn keep_own_pin(&mut self) {
        let own = self.source;
        let others = self.pins.iter_mut().enumerate().filter(|(source, _)| *source != own);
        others.for_each(|(_, pin)| *pin = None);
    }
}
