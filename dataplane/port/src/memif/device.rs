//! Memory of a client for one connection: one sealed file with rings followed by buffers, and an eventfd per ring.

use super::RingFault;
use super::buffers::Own;
use super::message::AddRing;
use super::queue::Queue;
use super::ring::Ring;
use crate::PortFault;
use crate::eventfd;
use crate::memory::Memory;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Number of rings in each direction, ring size and buffer size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) to_server: u16,
    pub(super) to_client: u16,
    pub(super) log2: u8,
    pub(super) buffer_size: u32,
}

impl Shape {
    fn rings(self) -> u32 {
        u32::from(self.to_server) + u32::from(self.to_client)
    }

    fn bytes(self) -> u64 {
        bytes(self.to_server, self.to_client, self.log2, self.buffer_size)
    }

    fn ring_bytes(self) -> u32 {
        Ring::bytes(self.log2).next_multiple_of(64)
    }

    fn buffer_bytes(self) -> u64 {
        u64::from(Own::stride(self.buffer_size)) << self.log2
    }
}

/// Size of a device in bytes.
pub(super) fn bytes(to_server: u16, to_client: u16, log2: u8, buffer_size: u32) -> u64 {
    let shape = Shape { to_server, to_client, log2, buffer_size };
    u64::from(shape.rings()) * (u64::from(shape.ring_bytes()) + shape.buffer_bytes())
}

/// One ring of a device and its location in the file.
#[derive(Debug)]
struct Part {
    ring: AddRing,
    queue: Queue<Own>,
}

/// Memory, rings and eventfds of one connection.
#[derive(Debug)]
pub(super) struct Device {
    memory: Memory,
    parts: Vec<Part>,
}

impl Device {
    /// Creates new memory with empty rings.
    pub(super) fn new(shape: Shape) -> Result<Self, PortFault> {
        let device = Self::over(shape, Memory::new(shape.bytes())?, event)?;
        for Queue { ring, buffers, .. } in device.parts.iter().map(|part| &part.queue) {
            buffers.describe_all(ring);
            ring.lay_out();
        }
        Ok(device)
    }

    /// The device of another process: its memory, and the eventfd of each ring.
    pub(super) fn adopt(
        shape: Shape,
        memory: OwnedFd,
        mut events: impl Iterator<Item = OwnedFd>,
    ) -> Result<Self, PortFault> {
        let event = || {
            let event = events.next().ok_or(PortFault::State("it has too few rings"))?;
            eventfd::check(&event).map_err(|why| PortFault::BadDescriptor("interrupt", why))?;
            Ok(Arc::new(event))
        };
        let device = Self::over(shape, Memory::adopt(memory, shape.bytes())?, event)?;
        let has_rings = device.parts.iter().all(|part| part.queue.ring.has_cookie());
        has_rings.then_some(device).ok_or(PortFault::State("its memory has no rings"))
    }

    fn over(
        shape: Shape,
        memory: Memory,
        mut event: impl FnMut() -> Result<Arc<OwnedFd>, PortFault>,
    ) -> Result<Self, PortFault> {
        let Shape { to_server, to_client, log2, .. } = shape;
        let there = (0..to_server).map(|index| (true, index));
        let back = (0..to_client).map(|index| (false, index));
        let make = |(number, (to_server, index)): (u32, (bool, u16))| {
            let queue = queue(&memory, shape, number, event()?)?;
            let offset = number * shape.ring_bytes();
            Ok(Part {
                ring: AddRing { to_server, index, region: 0, offset, log2_size: log2, private_header: 0 },
                queue,
            })
        };
        let parts = (0..).zip(there.chain(back)).map(make).collect::<Result<_, PortFault>>()?;
        Ok(Self { memory, parts })
    }

    /// The shared memory.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Size of the shared memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.spec.len
    }

    /// The message that announces ring `number`, and its eventfd.
    pub(super) fn ring(&self, number: usize) -> Option<(AddRing, BorrowedFd<'_>)> {
        self.parts.get(number).map(|part| (part.ring, part.queue.wake.as_fd()))
    }

    /// The memory file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Rings of one direction, by index.
    pub(super) fn queues(&self, to_server: bool) -> impl Iterator<Item = Queue<Own>> {
        self.parts.iter().filter(move |part| part.ring.to_server == to_server).map(|part| part.queue.clone())
    }
}

/// Ring `number` with its buffers.
fn queue(memory: &Memory, shape: Shape, number: u32, wake: Arc<OwnedFd>) -> Result<Queue<Own>, PortFault> {
    let ring_at = u64::from(number * shape.ring_bytes());
    let buffers_at = u64::from(shape.rings() * shape.ring_bytes()) + u64::from(number) * shape.buffer_bytes();
    let part = |at: u64, len: u32| memory.map.by_user(Memory::user(at), len);
    let ring = Ring::new(&memory.map, part(ring_at, Ring::bytes(shape.log2)), shape.log2)?;
    let whole = u32::try_from(shape.buffer_bytes()).ok().and_then(|len| part(buffers_at, len));
    let first = u32::try_from(buffers_at).map_err(|_| RingFault::Place)?;
    let buffers = Own::new(memory, &ring, (whole, first), shape.buffer_size)?;
    Ok(Queue { ring, buffers, wake })
}

fn event() -> Result<Arc<OwnedFd>, PortFault> {
    let made = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    made.map(Arc::new).map_err(|e| PortFault::BadDescriptor("interrupt", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::ring::Word;
    use super::*;

    #[test]
    fn rings_and_buffers_do_not_overlap_and_fit() {
        let shape = Shape { to_server: 2, to_client: 1, log2: 7, buffer_size: 200 };
        let device = Device::new(shape).unwrap();
        let mut places: Vec<(u64, u64)> = vec![];
        for number in 0..3 {
            let (ring, _) = device.ring(number).unwrap();
            assert_eq!((ring.to_server, ring.log2_size), (number < 2, 7));
            places.push((u64::from(ring.offset), u64::from(Ring::bytes(7))));
        }
        for queue in device.queues(true).chain(device.queues(false)) {
            for slot in 0..128 {
                assert_eq!(queue.ring.word(slot), Word::new(0, 200));
                places.push((u64::from(queue.ring.offset(slot)), 200));
            }
            assert!(queue.ring.has_cookie());
        }
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert!(places.last().is_some_and(|(at, len)| at + len <= device.bytes()));
        assert!(places.iter().all(|(at, _)| at % 64 == 0));
        assert!(device.ring(3).is_none());
    }
}
