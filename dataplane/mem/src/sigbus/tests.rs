use super::*;
use crate::copy::Portable;
use crate::scale::scale;
use crate::{Region, RegionSpec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};

const LEN: u64 = 1 << 20;

fn memfd(len: u64) -> OwnedFd {
    let fd = memfd_create("linerate-sigbus-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, len).unwrap();
    fd
}

fn region(fd: &OwnedFd, len: u64) -> Region {
    Region::map(fd.as_fd(), RegionSpec { guest: 0, user: 0, len, offset: 0 }).unwrap()
}

fn fill(region: &Region, byte: u8) {
    let all = vec![byte; LEN as usize];
    // SAFETY: the region is alive, and the lengths are equal.
    unsafe { region.seg(0, LEN as u32).unwrap().copy_in::<Portable>(&all) };
}

fn last_page(region: &Region) -> Vec<u8> {
    let mut page = vec![0xaa; 4096];
    // SAFETY: the region is alive, and the lengths are equal.
    unsafe { region.seg(LEN - 4096, 4096).unwrap().copy_out::<Portable>(&mut page) };
    page
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn truncated_file_affects_only_its_region() {
    let (cut, whole) = (memfd(LEN), memfd(LEN));
    let (lost, kept) = (region(&cut, LEN), region(&whole, LEN));
    fill(&lost, 1);
    fill(&kept, 2);
    let started = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !lost.is_lost() {
                last_page(&lost);
                started.store(true, Ordering::Relaxed);
            }
        });
        while !started.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        ftruncate(&cut, 0).unwrap();
    });
    assert_eq!(last_page(&lost), [0; 4096]);
    fill(&lost, 3);
    assert_eq!(last_page(&lost), [3; 4096], "the pages are our own now");
    assert!(!kept.is_lost());
    assert_eq!(last_page(&kept), [2; 4096]);
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn lost_region_is_reported_by_its_own_translator_only() {
    let (cut, whole) = (memfd(LEN), memfd(LEN));
    let translator =
        |fd| crate::Translator::new(crate::GuestMemory::new(vec![region(fd, LEN).into()]).unwrap().into());
    let (mut lost, mut kept) = (translator(&cut), translator(&whole));
    assert!(!lost.is_lost() && !kept.is_lost());
    let before = trips();
    ftruncate(&cut, 0).unwrap();
    last_page(&lost.map().regions()[0]);
    assert!(trips() > before);
    assert!(lost.is_lost() && lost.is_lost(), "what is lost stays lost");
    assert!(!kept.is_lost());
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn every_kernel_survives_lost_source_or_destination() {
    for choice in crate::copy::supported() {
        for foreign_source in [false, true] {
            let fd = memfd(LEN);
            let region = region(&fd, LEN);
            ftruncate(&fd, 4096).unwrap();
            let seg = region.seg(4096 - 100, 1514).unwrap();
            let mut bytes = [7; 1514];
            // SAFETY: the region is alive, and the lengths are equal.
            crate::with_any_kernel!(choice, K => unsafe {
                if foreign_source { seg.copy_out::<K>(&mut bytes) } else { seg.copy_in::<K>(&bytes) }
            });
            assert!(region.is_lost(), "{choice}");
            if foreign_source {
                assert_eq!(bytes[100..], [0; 1414], "{choice}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn concurrent_faults_on_one_region_are_handled() {
    for _ in 0..50 {
        let fd = memfd(LEN);
        let region = region(&fd, LEN);
        ftruncate(&fd, 0).unwrap();
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| assert_eq!(last_page(&region), [0; 4096]));
            }
        });
        assert!(region.is_lost());
    }
}

#[test]
#[ignore = "needs a free huge page of 2 MiB: run by `cargo xtask test --all`"]
fn huge_page_region_is_replaced_completely() {
    const HUGE: u64 = 2 << 20;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let fd = memfd_create("linerate-sigbus-test", flags).unwrap();
    ftruncate(&fd, HUGE).unwrap();
    let region = Region::map(fd.as_fd(), RegionSpec { guest: 0, user: 0, len: HUGE, offset: 0 }).unwrap();
    ftruncate(&fd, 0).unwrap();
    let mut bytes = [1; 64];
    // SAFETY: the region is alive, and the lengths are equal.
    unsafe { region.seg(HUGE - 64, 64).unwrap().copy_out::<Portable>(&mut bytes) };
    assert_eq!(bytes, [0; 64]);
    assert!(region.is_lost());
}

#[test]
fn slots_are_found_only_while_registered_across_chunks() {
    // Unmapped addresses: the table does not access them.
    const BASE: usize = 1 << 50;
    // Each look-up scans the table, of which a chunk has 512 entries; Miri is too slow to look up all.
    let (watched, step) = scale((1500, 1), (520, 130));
    let address = |i: usize| BASE + i * 0x10000;
    // SAFETY: nothing is mapped there, so no fault matches these ranges.
    let watches: Vec<_> = (0..watched).map(|i| unsafe { Watch::new(address(i), 0x1000) }).collect();
    for i in (0..watched).step_by(step) {
        assert!(table::find(address(i)).is_some_and(|(_, start, len)| (start, len) == (address(i), 0x1000)));
        assert!(table::find(address(i) + 0xfff).is_some());
        assert!(table::find(address(i) + 0x1000).is_none());
        assert!(table::find(address(i) - 1).is_none());
    }
    drop(watches);
    assert!((0..watched).step_by(step).all(|i| table::find(address(i)).is_none()));
}

#[test]
fn reused_slot_has_not_tripped() {
    for _ in 0..3 {
        // SAFETY: nothing is mapped there.
        let watch = unsafe { Watch::new(1 << 51, 0x1000) };
        assert!(!watch.tripped());
        table::find(1 << 51).unwrap().0.trip();
        assert!(watch.tripped());
    }
}

const CHILD: &str = "LINERATE_TEST_FAULT";

#[test]
#[cfg_attr(miri, ignore = "needs processes")]
fn unwatched_fault_terminates_the_process() {
    if let Ok(kind) = std::env::var(CHILD) {
        fault_unwatched(&kind);
        std::process::exit(0);
    }
    for kind in ["access", "kill"] {
        let name = "sigbus::tests::unwatched_fault_terminates_the_process";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([name, "--exact", "--nocapture"]).env(CHILD, kind);
        assert_eq!(child.output().unwrap().status.signal(), Some(libc::SIGBUS), "{kind}");
    }
}

fn fault_unwatched(kind: &str) {
    let fd = memfd(4096);
    let watched = region(&fd, 4096);
    let limit = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, limit).unwrap();
    if kind == "kill" {
        // SAFETY: no precondition.
        unsafe { libc::raise(libc::SIGBUS) };
        return;
    }
    let other = memfd(0);
    let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
    // SAFETY: a fresh mapping; the read raises the signal on purpose.
    unsafe {
        let page = rustix::mm::mmap(core::ptr::null_mut(), 4096, prot, flags, &other, 0).unwrap();
        page.cast::<u8>().read_volatile();
    }
    drop(watched);
}
