//! Device of one connection: its memory, divided into rings and buffers, and the eventfds for notifications.

use super::Negotiated;
use super::buffers::Buffers;
use super::options::Options;
use super::script::{self, Attached, Line};
use crate::eventfd;
use crate::memory::Memory;
use crate::state::{DriverQueue, OTHER_KIND, QueueState};
use crate::vhost::Features;
use crate::{Capabilities, PortFault};
use ring::driver::DriverRing;
use ring::{Layout, RingFault};
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::Arc;

/// Everything needed to start a queue.
#[derive(Clone, Debug)]
pub(super) struct QueueSetup {
    pub(super) layout: Layout,
    pub(super) packed: bool,
    pub(super) mergeable: bool,
    /// Offloads that may be left: by the back end on a receive ring, to the back end on a transmit ring.
    pub(super) work: Capabilities,
    pub(super) buffers: Buffers,
    /// Written to kick the back end.
    pub(super) kick: Arc<OwnedFd>,
    /// Readable after a call from the back end.
    pub(super) call: Arc<OwnedFd>,
}

impl QueueSetup {
    /// Returns the ring that continues from `state`, with the validated state. The ring is empty if the state is
    /// fresh.
    pub(super) fn ring<R: DriverRing>(&self, state: QueueState) -> Result<(R, DriverQueue), PortFault> {
        let map = self.buffers.map();
        match state {
            QueueState::Fresh => {
                Ok((R::new(&self.layout, map).map_err(PortFault::UsedRing)?, DriverQueue::default()))
            }
            QueueState::Driver(state) => {
                let ring = R::thaw(&self.layout, map, &state.ring).map_err(|fault| match fault {
                    RingFault::State(why) => PortFault::State(why),
                    fault => PortFault::UsedRing(fault),
                })?;
                Ok((ring, *state))
            }
            _ => Err(OTHER_KIND),
        }
    }
}

/// Memory, rings and buffers of one connection.
#[derive(Debug)]
pub(super) struct Device {
    memory: Memory,
    /// Ring 2 * pair receives, ring 2 * pair + 1 transmits.
    rings: Vec<QueueSetup>,
}

impl Device {
    /// Creates the device for `options` and the negotiated features, with empty rings.
    pub(super) fn new(options: Options, agreed: Negotiated) -> Result<Self, PortFault> {
        Self::over(options, agreed, Memory::new(bytes(options))?, event)
    }

    /// The device of another process: its memory, and the call and kick eventfds of each ring.
    pub(super) fn adopt(
        options: Options,
        agreed: Negotiated,
        memory: OwnedFd,
        events: Vec<OwnedFd>,
    ) -> Result<Self, PortFault> {
        let mut events = events.into_iter();
        let event = || {
            let event = events.next().ok_or(PortFault::State("it has too few rings"))?;
            eventfd::check(&event).map_err(|why| PortFault::BadDescriptor("kick or call", why))?;
            Ok(Arc::new(event))
        };
        Self::over(options, agreed, Memory::adopt(memory, bytes(options))?, event)
    }

    fn over(
        options: Options,
        agreed: Negotiated,
        memory: Memory,
        mut event: impl FnMut() -> Result<Arc<OwnedFd>, PortFault>,
    ) -> Result<Self, PortFault> {
        let (rings, room) = (rings(options), options.room());
        let (for_ring, for_buffers) = (Layout::bytes(options.queue_size), buffer_bytes(options));
        let header = agreed.features.header_len();
        let mut make = |ring: u64| {
            let (call, kick) = (event()?, event()?);
            let at = rings * for_ring + ring * for_buffers;
            let buffers = Buffers::new(&memory, at, options.queue_size, room, header);
            Ok(QueueSetup {
                layout: layout(options, ring * for_ring, agreed.features),
                packed: agreed.features.has(Features::RING_PACKED),
                mergeable: agreed.features.has(Features::MRG_RXBUF),
                work: if ring.is_multiple_of(2) {
                    agreed.features.to_guest()
                } else {
                    agreed.features.from_guest()
                },
                buffers: buffers.map_err(PortFault::UsedRing)?,
                kick,
                call,
            })
        };
        let rings = (0..rings).map(&mut make).collect::<Result<_, PortFault>>()?;
        Ok(Self { memory, rings })
    }

    /// Receive and transmit ring of each pair.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&QueueSetup, &QueueSetup)> {
        self.rings.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
    }

    /// The shared memory.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Size of the shared memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.spec.len
    }

    /// Requests that describe this device to the back end.
    pub(super) fn lines(&self, agreed: Negotiated) -> VecDeque<Line> {
        let mut lines = VecDeque::from([script::memory(agreed, self.memory.spec)]);
        for (index, ring) in (0..).zip(&self.rings) {
            lines.extend(script::ring(index, &ring.layout, true, true));
            lines.extend(script::barrier(agreed));
        }
        lines.extend(script::ready(agreed, self.rings.len() as u32));
        lines.extend(script::barrier(agreed));
        lines
    }

    /// The descriptor sent with a request.
    pub(super) fn file(&self, attached: Attached) -> Option<BorrowedFd<'_>> {
        let ring = |index: u8| self.rings.get(usize::from(index));
        match attached {
            Attached::Nothing => None,
            Attached::Memory => Some(self.memory.as_fd()),
            Attached::Call(index) => ring(index).map(|ring| ring.call.as_fd()),
            Attached::Kick(index) => ring(index).map(|ring| ring.kick.as_fd()),
        }
    }
}

fn event() -> Result<Arc<OwnedFd>, PortFault> {
    let made = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    made.map(Arc::new).map_err(|e| PortFault::BadDescriptor("kick or call", e.to_string()))
}

/// Size of a device in bytes.
pub(super) fn bytes(options: Options) -> u64 {
    rings(options) * (Layout::bytes(options.queue_size) + buffer_bytes(options))
}

fn rings(options: Options) -> u64 {
    2 * u64::from(options.queue_pairs)
}

/// Size of one ring's buffers in bytes.
fn buffer_bytes(options: Options) -> u64 {
    u64::from(options.queue_size) * Buffers::stride(options.room())
}

fn layout(options: Options, at: u64, agreed: Features) -> Layout {
    Layout {
        base: script::fresh_base(agreed),
        event_idx: agreed.has(Features::EVENT_IDX),
        in_order: options.ring.is_in_order(),
        ..Layout::fresh(Memory::user(at), options.queue_size)
    }
}
