//! Both ends of a connection in one process: the client creates the memory, the server maps it.

use super::buffers::{Borrowed, address};
use super::device::{Device, Shape};
use super::options::Options;
use super::queue::{Queue, Rings};
use super::ring::Ring;
use crate::PortFault;
use mem::{GuestMemory, Region, RegionSpec};
use std::sync::Arc;

/// A connection without a socket.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Owns the memory; the pages are released when it is dropped.
    device: Device,
    /// The memory as mapped by the server.
    map: Arc<GuestMemory>,
    size: u16,
}

impl Joined {
    /// Creates new memory with empty rings, and returns the rings of each end.
    ///
    /// # Errors
    /// [`PortFault::NoMemory`] and other errors of system calls.
    pub(crate) fn new(options: Options) -> Result<(Self, [Rings; 2]), PortFault> {
        let pairs = options.queue_pairs;
        let (log2, buffer_size) = (options.log2(), options.buffer_size);
        let device = Device::new(Shape { to_server: pairs, to_client: pairs, log2, buffer_size })?;
        let at = address(0, 0);
        let spec = RegionSpec { guest: at, user: at, len: device.bytes(), offset: 0 };
        let no_memory = |why: &dyn std::fmt::Display| PortFault::NoMemory(why.to_string());
        let region = Region::map(device.file(), spec).map_err(|e| no_memory(&e))?;
        let map = Arc::new(GuestMemory::new(vec![Arc::new(region)]).map_err(|e| no_memory(&e))?);
        let joined = Self { device, map, size: options.ring_size };
        let rings = joined.rings()?;
        Ok((joined, rings))
    }

    /// The rings of the client and of the server.
    pub(super) fn rings(&self) -> Result<[Rings; 2], PortFault> {
        let Self { device, map, .. } = self;
        let client = Rings::Client(device.queues(false).collect(), device.queues(true).collect());
        Ok([client, Rings::Server(there(device, map, true)?, there(device, map, false)?)])
    }

    /// Ring size and memory size in bytes.
    pub(crate) fn shape(&self) -> (u16, u64) {
        (self.size, self.device.bytes())
    }

    /// The memory file, for tests that write to it.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn file(&self) -> rustix::fd::BorrowedFd<'_> {
        self.device.file()
    }
}

/// The rings of one direction, as used by the end that did not create them.
fn there(
    device: &Device,
    map: &Arc<GuestMemory>,
    to_server: bool,
) -> Result<Vec<Queue<Borrowed>>, PortFault> {
    let rings = (0..).map_while(|number| device.ring(number)).map(|(ring, _)| ring);
    let wakes = device.queues(to_server).map(|queue| queue.wake);
    let rings = rings.filter(|ring| ring.to_server == to_server).zip(wakes);
    rings
        .map(|(ring, wake)| {
            let place = map.by_user(address(ring.region, ring.offset), Ring::bytes(ring.log2_size));
            let ring = Ring::new(map, place, ring.log2_size)?;
            Ok(Queue { ring, buffers: Borrowed::new(map), wake })
        })
        .collect()
}
