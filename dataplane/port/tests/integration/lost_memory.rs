//! A front end truncates the file behind its memory while packets flow: only its own port stops.

use crate::hand::{Guest, KINDS, WRITE, burst_of, frame, receive, send};
use mem::{GuestMemory, MemTable, Region, RegionSpec};
use port::PortFault;
use port::vhost::Features;
use ring::mock::USER;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

/// A guest whose regions are files: one for the rings, then two for buffers.
fn on_files(packed: bool) -> (Guest, Vec<OwnedFd>) {
    let mut guest = Guest::new(packed, Features::VERSION_1 | Features::MRG_RXBUF);
    let (mut regions, mut files) = (vec![], vec![]);
    for region in guest.mock.map.regions() {
        let file = memfd_create("lost-memory", MemfdFlags::CLOEXEC).unwrap();
        let (guest, len) = (region.spec().guest, region.spec().len);
        ftruncate(&file, len).unwrap();
        let spec = RegionSpec { guest, user: guest + USER, len, offset: 0 };
        regions.push(Arc::new(Region::map(file.as_fd(), spec).unwrap()));
        files.push(file);
    }
    guest.mock.map = Arc::new(GuestMemory::new(regions.clone()).unwrap());
    guest.memory = Arc::new(MemTable::new(GuestMemory::new(regions).unwrap()));
    (guest, files)
}

#[test]
fn receive_queue_reports_lost_buffers_with_the_next_burst() {
    for packed in KINDS {
        let (mut guest, files) = on_files(packed);
        let mut rx = guest.rx();
        (0..2).for_each(|_| guest.offer(&[(0, 100)], 0));
        assert_eq!(receive(rx.as_mut()).unwrap().0.len(), 2);
        guest.offer(&[(0, 100)], 0);
        ftruncate(&files[1], 0).unwrap();
        // Reading the frame's bytes triggers the loss; they are zeros of private pages.
        assert_eq!(receive(rx.as_mut()).unwrap().0.head(0), [0; 88]);
        assert_eq!(receive(rx.as_mut()).unwrap_err(), PortFault::MemoryLost);
        assert_eq!(receive(rx.as_mut()).unwrap_err(), PortFault::MemoryLost, "the loss is permanent");
    }
}

#[test]
fn transmit_queue_reports_lost_buffers_at_once() {
    for packed in KINDS {
        for forked in [false, true] {
            let (mut guest, files) = on_files(packed);
            (0..4).for_each(|k| guest.offer(&[(k * 4096, 4096)], WRITE));
            let mut tx = guest.tx();
            let mut handle = if forked { tx.fork() } else { tx };
            let burst = burst_of(&[frame(1514, 0)]);
            assert_eq!(send(handle.as_mut(), &burst).unwrap().0, 1);
            ftruncate(&files[1], 0).unwrap();
            assert_eq!(send(handle.as_mut(), &burst).unwrap_err(), PortFault::MemoryLost);
        }
    }
}

#[test]
fn lost_ring_is_reported() {
    for packed in KINDS {
        let (mut guest, files) = on_files(packed);
        let (mut rx, mut tx) = (guest.rx(), guest.tx());
        (0..2).for_each(|_| guest.offer(&[(0, 100)], 0));
        receive(rx.as_mut()).unwrap();
        ftruncate(&files[0], 0).unwrap();
        assert_eq!(receive(rx.as_mut()).unwrap_err(), PortFault::MemoryLost);
        let burst = burst_of(&[frame(60, 0)]);
        assert_eq!(send(tx.as_mut(), &burst).unwrap_err(), PortFault::MemoryLost);
        assert_eq!(send(tx.fork().as_mut(), &burst).unwrap_err(), PortFault::MemoryLost);
    }
}

#[test]
fn lost_memory_affects_no_other_port() {
    for packed in KINDS {
        let ((mut lost, files), (mut kept, _files)) = (on_files(packed), on_files(packed));
        let (mut rx, mut tx, mut bad) = (kept.rx(), kept.tx(), lost.tx());
        lost.offer(&[(0, 4096)], WRITE);
        ftruncate(&files[1], 0).unwrap();
        let burst = burst_of(&[frame(60, 0)]);
        assert_eq!(send(bad.as_mut(), &burst).unwrap_err(), PortFault::MemoryLost);
        assert_eq!(receive(rx.as_mut()).unwrap().0.len(), 0);
        kept.offer(&[(0, 4096)], WRITE);
        assert_eq!(send(tx.as_mut(), &burst).unwrap().0, 1);
    }
}

#[test]
fn memory_table_with_lost_memory_is_detected() {
    for packed in KINDS {
        let (mut guest, files) = on_files(packed);
        let mut rx = guest.rx();
        // The loss is detected elsewhere, before this queue takes over the memory table that contains the region.
        let whole = guest.memory.load();
        let spec = whole.regions()[2].spec();
        guest.memory.replace(whole.without(spec.guest, spec.user, spec.len).unwrap());
        rx.refresh().unwrap();
        ftruncate(&files[2], 0).unwrap();
        let seg = whole.regions()[2].seg(0, 8).unwrap();
        // SAFETY: `whole` keeps the map alive; the segment is aligned and has eight bytes.
        unsafe { seg.load_u64(0, std::sync::atomic::Ordering::Relaxed) };
        guest.offer(&[(0, 100)], 0);
        assert_eq!(receive(rx.as_mut()).unwrap().0.len(), 1);
        guest.memory.replace(GuestMemory::new(whole.regions().to_vec()).unwrap());
        rx.refresh().unwrap();
        assert_eq!(receive(rx.as_mut()).unwrap_err(), PortFault::MemoryLost);
    }
}
