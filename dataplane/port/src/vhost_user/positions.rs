//! Positions of packed rings in a file, from which a switch continues them after it was killed.
//!
//! A front end that connects again tells the position at which its rings were stopped last, which is not that of a
//! back end that was killed; a packed ring has its position nowhere else. The file has a slot for each ring: its
//! addresses, and a [`ring::device::Record`] that the ring's worker writes once per flush. When the port is created,
//! the slots of the process before are read once; a ring with the same addresses and size continues from its slot, if
//! its descriptors agree ([`ring::device::recover`]). The file has no data of guests. A port without a file works as
//! before.

use super::setup::QueueSetup;
use crate::vhost::message::VringAddress;
use mem::{GuestMemory, Region, RegionSpec};
use ring::device::{Record, recover};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Error, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// First bytes of a file.
const MAGIC: [u8; 8] = *b"lrrings1";
/// Length of the head and of each slot: a cache line, so that no two workers write to one.
const SLOT: usize = 64;
/// Offset of the record in a slot.
const RECORD: usize = 32;

/// Slots of a port.
#[derive(Debug)]
pub(super) struct Positions {
    path: PathBuf,
    file: File,
    map: Arc<GuestMemory>,
    /// Whether the file belongs to this process, which removes it at the end.
    owned: AtomicBool,
    /// By ring: the slot of the process before, until the ring starts.
    before: Mutex<Vec<Option<Slot>>>,
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    descriptors: u64,
    driver: u64,
    device: u64,
    size: u64,
    record: (u32, u32),
}

impl Slot {
    fn of(address: &VringAddress, size: u16, record: (u32, u32)) -> Self {
        let VringAddress { descriptor, available, used, .. } = *address;
        Self { descriptors: descriptor, driver: available, device: used, size: size.into(), record }
    }

    /// Returns `None` for an empty slot.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let record = word(RECORD)?;
        let slot = Self {
            descriptors: word(0)?,
            driver: word(8)?,
            device: word(16)?,
            size: word(24)?,
            record: (record as u32, (record >> 32) as u32),
        };
        (slot.size > 0).then_some(slot)
    }

    fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let words = [self.descriptors, self.driver, self.device, self.size];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

impl Positions {
    /// Opens or creates the file of a port with `rings` rings. With `recovers`, rings continue from the slots of the
    /// process before, and the file belongs to this process; otherwise to the one that runs the port.
    pub(super) fn open(path: &Path, rings: usize, recovers: bool) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let create = |_| open(path, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
        let found = open(path, flags, Mode::empty());
        let is_new = matches!(found, Err(Errno::NOENT));
        let file = if is_new { found.or_else(create)? } else { found? };
        Self::over(File::from(file), path, rings, recovers).inspect_err(|_| {
            if is_new {
                // Nothing would remove it later.
                let _ = std::fs::remove_file(path);
            }
        })
    }

    fn over(mut file: File, path: &Path, rings: usize, recovers: bool) -> io::Result<Self> {
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::other("it is not a file of this user"));
        }
        let length = SLOT * (rings + 1);
        let mut bytes = Vec::new();
        (&file).take(length as u64).read_to_end(&mut bytes)?;
        let is_own = recovers && bytes.starts_with(&MAGIC);
        let slot = |ring: usize| Slot::decode(bytes.get(SLOT * (ring + 1)..)?).filter(|_| is_own);
        let before = Mutex::new((0..rings).map(slot).collect());
        file.set_len(length as u64)?;
        file.rewind()?;
        file.write_all(&MAGIC)?;
        let spec = RegionSpec { guest: 0, user: 0, len: length as u64, offset: 0 };
        let region = Region::map(file.as_fd(), spec).map_err(Error::other)?;
        let map = Arc::new(GuestMemory::new(vec![Arc::new(region)]).map_err(Error::other)?);
        let owned = AtomicBool::new(recovers);
        Ok(Self { path: path.to_owned(), file, map, owned, before })
    }

    /// Begins the slot of a ring that is about to start, at the position of the process before if it has one.
    pub(super) fn complete(&self, ring: usize, address: &VringAddress, setup: &mut QueueSetup) {
        let before = self.of_process_before(ring, address, setup.size);
        let recover = |words| recover(&setup.layout(), &setup.memory.load(), words);
        if let Some(base) = before.and_then(recover) {
            setup.base = base;
        }
        setup.record = self.begin(ring, address, setup.size, setup.base);
    }

    /// Returns the record of the process before for a ring at these addresses. Its slot is used once.
    fn of_process_before(&self, ring: usize, address: &VringAddress, size: u16) -> Option<(u32, u32)> {
        // A poisoned lock is valid: an entry changes in one step.
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = before.get_mut(ring)?.take()?;
        (slot == Slot::of(address, size, slot.record)).then_some(slot.record)
    }

    /// Begins the slot of a ring that starts at `base`. Returns `None` if the file cannot be written.
    fn begin(
        &self,
        ring: usize,
        address: &VringAddress,
        size: u16,
        base: u32,
    ) -> Option<(Arc<GuestMemory>, u64)> {
        let at = (SLOT * (ring + 1) + RECORD) as u64;
        Record::new(&self.map, at)?.begin(base);
        self.write(ring, &Slot::of(address, size, (0, 0)).encode()).ok()?;
        Some((self.map.clone(), at))
    }

    /// Empties the slot of a ring, whose front end knows its position.
    pub(super) fn end(&self, ring: usize) {
        // A file that cannot be written any more has an old slot, which the ring's descriptors contradict.
        let _ = self.write(ring, &[0; RECORD]);
    }

    fn write(&self, ring: usize, bytes: &[u8]) -> io::Result<()> {
        rustix::io::pwrite(&self.file, bytes, (SLOT * (ring + 1)) as u64)?;
        Ok(())
    }

    /// Sets whether the file belongs to this process, or to another one that takes the port over.
    pub(super) fn set_owned(&self, owned: bool) {
        self.owned.store(owned, Ordering::Relaxed);
    }
}

impl Drop for Positions {
    fn drop(&mut self) {
        if self.owned.load(Ordering::Relaxed) {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: VringAddress =
        VringAddress { index: 1, flags: 0, descriptor: 0x1000, used: 0x3000, available: 0x2000, log: 0 };

    #[test]
    fn slots_are_those_of_the_process_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rings");
        let first = Positions::open(&path, 4, true).unwrap();
        assert_eq!(first.of_process_before(1, &ADDRESS, 256), None);
        let (map, at) = first.begin(1, &ADDRESS, 256, 0x8005_8005).unwrap();
        let words = Record::new(&map, at).unwrap().words();
        first.set_owned(false);
        drop((first, map));
        let second = Positions::open(&path, 4, true).unwrap();
        let other = VringAddress { descriptor: 0x9000, ..ADDRESS };
        assert_eq!(second.of_process_before(0, &ADDRESS, 256), None, "another ring");
        assert_eq!(second.of_process_before(1, &ADDRESS, 256), Some(words));
        assert_eq!(second.of_process_before(1, &ADDRESS, 256), None, "it is used once");
        let third = Positions::open(&path, 4, true).unwrap();
        assert_eq!(third.of_process_before(1, &other, 256), None, "another address");
        second.end(1);
        assert_eq!(Positions::open(&path, 4, false).unwrap().of_process_before(1, &ADDRESS, 256), None);
        second.set_owned(false);
        drop(second);
        assert!(path.exists(), "it belongs to another process");
        drop(third);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_have_no_slots() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rings");
        std::fs::write(&path, [7; 1000]).unwrap();
        let positions = Positions::open(&path, 4, true).unwrap();
        assert_eq!(positions.of_process_before(1, &ADDRESS, 256), None);
        assert!(Positions::open(folder.path(), 4, true).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Positions::open(&link, 4, true).is_err());
        drop(positions);
    }
}
