//! Memory messages.
//!
//! A new map is complete before it replaces the old one, so a rejected message changes nothing. Running queues switch
//! to it at their next burst boundary. `engine.refresh()` returns when no worker holds the old map; only then is the
//! removal of regions acknowledged to the front end.

use super::vring::Vring;
use super::{RequestError, Session};
use crate::{Attach, memory};
use mem::{GuestMemory, Region, RegionSpec};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Maximum memory of one front end in bytes, so that a few hostile front ends cannot exhaust the address space (128
/// TiB).
pub const MAX_BYTES: u64 = 4 << 40;

impl Session {
    pub(super) fn set_mem_table(
        &mut self,
        regions: &[RegionSpec],
        descriptors: impl Iterator<Item = OwnedFd>,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        check_total(regions.iter(), self.offer.memory)?;
        let files: Vec<_> = regions.iter().copied().zip(descriptors).collect();
        let regions = files.iter().map(|(spec, fd)| map(fd, *spec)).collect::<Result<Vec<_>, _>>()?;
        self.replace(GuestMemory::new(regions), engine)?;
        self.files = files;
        // An invalid ring was in the old memory: it counts as stopped.
        self.vrings.iter_mut().filter(|vring| vring.grace.is_some()).for_each(Vring::stop);
        Ok(())
    }

    pub(super) fn add_mem_reg(
        &mut self,
        region: RegionSpec,
        mut descriptor: impl Iterator<Item = OwnedFd>,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let Some(fd) = descriptor.next() else {
            return Err(RequestError::Failed("ADD_MEM_REG came without its descriptor".into()));
        };
        let current = self.memory.load();
        // QEMU before 8.1 adds each region once per queue pair.
        if current.regions().iter().any(|known| known.spec() == region) {
            return Ok(());
        }
        let specs: Vec<_> = current.regions().iter().map(|r| r.spec()).chain([region]).collect();
        check_total(specs.iter(), self.offer.memory)?;
        self.replace(current.with(map(&fd, region)?), engine)?;
        self.files.push((region, fd));
        Ok(())
    }

    pub(super) fn rem_mem_reg(
        &mut self,
        region: RegionSpec,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let current = self.memory.load();
        // QEMU removes it as often as it added it; later requests have no effect.
        if !current.regions().iter().any(|known| overlap(known.spec(), region)) {
            return Ok(());
        }
        self.replace(current.without(region.guest, region.user, region.len), engine)?;
        let left = self.memory.load();
        self.files.retain(|(spec, _)| left.regions().iter().any(|region| region.spec() == *spec));
        Ok(())
    }

    fn replace(
        &mut self,
        map: Result<GuestMemory, mem::GuestMemoryError>,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let map = map.map_err(|error| RequestError::Failed(error.to_string()))?;
        let old = self.memory.replace(map);
        engine.refresh();
        drop(old);
        Ok(())
    }
}

fn map(fd: &OwnedFd, spec: RegionSpec) -> Result<Arc<Region>, RequestError> {
    let failed =
        |why: String| RequestError::Failed(format!("the region at {:#x} is refused: {why}", spec.guest));
    if memory::is_served_remotely(fd).map_err(|e| failed(e.to_string()))? {
        return Err(failed("its file system is remote or in user space, and could delay page faults; use memfd, huge pages or a local file".into()));
    }
    Region::map(fd.as_fd(), spec).map(Arc::new).map_err(|error| failed(error.to_string()))
}

fn overlap(one: RegionSpec, other: RegionSpec) -> bool {
    let end = |region: RegionSpec| region.guest.saturating_add(region.len);
    one.guest < end(other) && other.guest < end(one)
}

fn check_total<'a>(
    mut regions: impl Iterator<Item = &'a RegionSpec>,
    limit: u64,
) -> Result<(), RequestError> {
    match regions.try_fold(0u64, |sum, r| sum.checked_add(r.len)) {
        Some(sum) if sum <= limit => Ok(()),
        _ => {
            let mib = limit >> 20;
            Err(RequestError::Failed(format!("the regions have more than {mib} MiB together, the limit")))
        }
    }
}
