//! A ring that logs the pages it writes, while its guest migrates.
//!
//! The buffers taken from the ring are remembered until they are used. Each flush marks the written bytes of the
//! buffers used since the last one, and the areas of the ring that a device writes. A page is marked after it was
//! written and before the queue can be frozen, so that a front end which stops the ring has all marks.

use super::{DeviceRing, VisitPlain};
use crate::{BufId, Descriptor, Direction, Layout, RingFault};
use mem::{DirtyLog, GuestMemory, Translator};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// A range of guest memory: guest-physical address and length in bytes.
type Range = (u64, u64);

/// A descriptor of a taken buffer.
#[derive(Clone, Copy, Debug)]
struct Piece {
    address: u64,
    len: u32,
    id: u16,
    is_last: bool,
}

/// A ring with a log.
#[derive(Debug)]
pub struct Logged<R> {
    ring: R,
    layout: Layout,
    log: Option<Arc<DirtyLog>>,
    /// Whether buffers are recorded: a queue that only reads them writes nothing but the ring.
    records: bool,
    /// Areas of the ring that the device writes.
    areas: Vec<Range>,
    /// Device-writable descriptors of taken buffers, in order.
    taken: VecDeque<Piece>,
    /// Used entries between [`DeviceRing::cursor`] and [`DeviceRing::advance`].
    used: RefCell<Vec<(u16, u32)>>,
    /// Written since the last flush.
    written: Vec<Range>,
}

impl<R: DeviceRing> Logged<R> {
    /// Guest-physical addresses of the areas that the device writes.
    fn locate(&mut self, map: &GuestMemory) {
        let range =
            |(user, len): (u64, u32)| Some((map.guest_address(map.by_user(user, len)?)?, u64::from(len)));
        self.areas = R::device_areas(&self.layout).into_iter().filter_map(range).collect();
    }

    fn mark_areas(&self) {
        if let Some(log) = &self.log {
            log.mark(self.areas.iter().copied());
        }
    }

    /// Moves the bytes written to the buffer `id` from `taken` to `written`.
    fn note(&mut self, id: u16, mut left: u32) {
        if self.taken.front().is_none_or(|piece| piece.id != id) {
            return;
        }
        while let Some(piece) = self.taken.pop_front() {
            let written = piece.len.min(left);
            left -= written;
            self.written.push((piece.address, written.into()));
            if piece.is_last {
                return;
            }
        }
    }
}

/// Remembers plain buffers that the visitor takes.
struct Noting<'a, V> {
    visitor: &'a mut V,
    taken: &'a mut VecDeque<Piece>,
    records: bool,
}

impl<V: VisitPlain> VisitPlain for Noting<'_, V> {
    fn visit(&mut self, k: usize, buffer: Descriptor) -> bool {
        let is_taken = self.visitor.visit(k, buffer);
        if is_taken && self.records && buffer.flags & Descriptor::WRITE != 0 {
            let Descriptor { address, len, link, .. } = buffer;
            self.taken.push_back(Piece { address, len, id: link, is_last: true });
        }
        is_taken
    }
}

impl<R: DeviceRing> DeviceRing for Logged<R> {
    fn new(layout: &Layout, map: &Arc<GuestMemory>) -> Result<Self, RingFault> {
        let (taken, used) = (VecDeque::new(), RefCell::default());
        let ring = R::new(layout, map)?;
        let (areas, written) = (Vec::new(), Vec::new());
        let mut logged =
            Self { ring, layout: *layout, log: None, records: false, areas, taken, used, written };
        logged.locate(map);
        Ok(logged)
    }

    fn device_areas(layout: &Layout) -> Vec<(u64, u32)> {
        R::device_areas(layout)
    }

    fn set_log(&mut self, log: Arc<DirtyLog>, direction: Direction) {
        (self.log, self.records) = (Some(log), direction == Direction::Write);
        self.mark_areas();
    }

    fn set_record(&mut self, record: super::Record) {
        self.ring.set_record(record);
    }

    fn remap(&mut self, map: &Arc<GuestMemory>) -> Result<(), RingFault> {
        self.ring.remap(map)?;
        self.locate(map);
        Ok(())
    }

    fn pop_plain(
        &mut self,
        max: usize,
        direction: Option<Direction>,
        visitor: &mut impl VisitPlain,
    ) -> Result<usize, RingFault> {
        let noting = &mut Noting { visitor, taken: &mut self.taken, records: self.records };
        self.ring.pop_plain(max, direction, noting)
    }

    fn pop_chain(
        &mut self,
        translator: &mut Translator,
        chain: &mut Vec<Descriptor>,
    ) -> Result<Option<BufId>, RingFault> {
        let from = chain.len();
        let Some(buf_id) = self.ring.pop_chain(translator, chain)? else { return Ok(None) };
        if !self.records {
            return Ok(Some(buf_id));
        }
        let writable = chain[from..].iter().filter(|d| d.flags & Descriptor::WRITE != 0);
        let before = self.taken.len();
        let piece = |d: &Descriptor| Piece { address: d.address, len: d.len, id: buf_id.id, is_last: false };
        self.taken.extend(writable.map(piece));
        if self.taken.len() > before
            && let Some(last) = self.taken.back_mut()
        {
            last.is_last = true;
        }
        Ok(Some(buf_id))
    }

    fn has_beyond(&self, slots: u32) -> bool {
        self.ring.has_beyond(slots)
    }

    fn prefetch(&self) {
        self.ring.prefetch();
    }

    type Cursor = R::Cursor;

    fn cursor(&self) -> R::Cursor {
        self.ring.cursor()
    }

    fn put_used(&self, cursor: &mut R::Cursor, buf_id: BufId, len: u32) {
        self.ring.put_used(cursor, buf_id, len);
        if self.records {
            self.used.borrow_mut().push((buf_id.id, len));
        }
    }

    fn put_read(&self, cursor: &mut R::Cursor, buf_ids: &[BufId]) {
        self.ring.put_read(cursor, buf_ids);
    }

    fn advance(&mut self, cursor: R::Cursor) {
        self.ring.advance(cursor);
        let mut used = self.used.take();
        used.drain(..).for_each(|(id, len)| self.note(id, len));
        self.used.replace(used);
    }

    fn is_in_order(&self) -> bool {
        self.ring.is_in_order()
    }

    fn flush_used(&mut self) {
        self.ring.flush_used();
        let Some(log) = &self.log else { return };
        log.mark(self.written.drain(..).chain(self.areas.iter().copied()));
    }

    fn needs_notification(&mut self) -> bool {
        self.ring.needs_notification()
    }

    fn enable_notification(&mut self) -> bool {
        let is_available = self.ring.enable_notification();
        self.mark_areas();
        is_available
    }

    fn disable_notification(&mut self) {
        self.ring.disable_notification();
        self.mark_areas();
    }

    fn base(&self) -> u32 {
        self.ring.base()
    }

    fn rewind(&mut self, buf_ids: &[BufId]) {
        self.ring.rewind(buf_ids);
        for buf_id in buf_ids.iter().rev() {
            if self.taken.back().is_none_or(|piece| piece.id != buf_id.id) {
                continue;
            }
            self.taken.pop_back();
            while self.taken.back().is_some_and(|piece| !piece.is_last) {
                self.taken.pop_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Packed, Split};
    use crate::mock::{BUFFERS, Mock, Shape};

    const SIZE: u16 = 8;
    const PAGE: u64 = mem::dirty_log::PAGE;

    fn mock() -> Mock {
        Mock::new(Shape { packed: false, size: SIZE, in_order: false, event_idx: false, indirect: false })
    }

    /// A ring in which the buffers at these addresses are available.
    fn logged(mock: &Mock, buffers: &[(u64, u32)]) -> (Logged<Split>, Arc<DirtyLog>) {
        for (at, (address, len)) in (0..).zip(buffers) {
            mock.split_descriptor(mock.layout.descriptors, at, *address, *len, Descriptor::WRITE, 0);
            mock.offer(at, at);
        }
        mock.available_index(buffers.len() as u16);
        let mut ring = Logged::<Split>::new(&mock.layout, &mock.map).unwrap();
        let log = Arc::new(DirtyLog::heap(1 << 12));
        ring.set_log(log.clone(), Direction::Write);
        (ring, log)
    }

    fn take(ring: &mut Logged<Split>) -> Vec<BufId> {
        let mut ids = Vec::new();
        ring.pop_plain(64, Some(Direction::Write), &mut |d: Descriptor| {
            ids.push(d.buf_id());
            true
        })
        .unwrap();
        ids
    }

    #[test]
    fn written_bytes_and_the_used_ring_are_marked_at_the_flush() {
        let mock = mock();
        let first = BUFFERS.next_multiple_of(PAGE) + 8 * PAGE;
        let (mut ring, log) = logged(&mock, &[(first, 3 * PAGE as u32), (first + 4 * PAGE, 64)]);
        let ids = take(&mut ring);
        ring.push_used(ids[0], PAGE as u32 + 1);
        assert!(!log.is_marked(first), "nothing is marked before it is published");
        ring.flush_used();
        let marks = [0, 1, 2, 4].map(|page| log.is_marked(first + page * PAGE));
        assert_eq!(marks, [true, true, false, false], "only the bytes that were written");
        let used = mock.map.guest_address(mock.map.by_user(mock.layout.device, 4).unwrap()).unwrap();
        assert!(log.is_marked(used));
        ring.push_used(ids[1], 64);
        ring.flush_used();
        assert!(log.is_marked(first + 4 * PAGE));
    }

    #[test]
    fn buffers_that_were_taken_back_are_not_confused_with_others() {
        let mock = mock();
        let at = |page: u64| BUFFERS.next_multiple_of(PAGE) + (8 + page) * PAGE;
        let (mut ring, log) = logged(&mock, &[(at(0), 64), (at(1), 64), (at(2), 64)]);
        let ids = take(&mut ring);
        ring.rewind(&ids[1..]);
        assert_eq!(take(&mut ring), ids[1..]);
        for id in ids {
            ring.push_used(id, 60);
        }
        ring.flush_used();
        assert_eq!([0, 1, 2].map(|page| log.is_marked(at(page))), [true; 3]);
    }

    #[test]
    fn a_queue_that_reads_records_no_buffers() {
        let mock = mock();
        let (mut ring, log) = logged(&mock, &[(BUFFERS, 64)]);
        ring.set_log(log, Direction::Read);
        take(&mut ring);
        assert!(ring.taken.is_empty(), "a guest could offer such buffers without end");
    }

    #[test]
    fn areas_are_those_that_a_device_writes() {
        let layout = Layout { size: 4, descriptors: 0x1000, driver: 0x2000, device: 0x3000, ..mock().layout };
        assert_eq!(Split::device_areas(&layout), [(0x3000, 4 + 4 * 8 + 2)]);
        assert_eq!(Packed::device_areas(&layout), [(0x1000, 64), (0x3000, 4)]);
    }
}
