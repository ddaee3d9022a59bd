//! Transmit queue of a vhost-user port, on a guest's receive ring.
//!
//! Buffers are taken ahead of need into a private avail cache ([`Core`]), translated, and prefetched for writing, so
//! that the destination of the next frame is already in this core's cache. Used entries are published once per call.
//! [`RingTx`] implements the rest, for one worker or several.

use super::avail_cache::Core;
use super::setup::QueueSetup;
use crate::transmit::RingTx;
use crate::vhost::Features;
use crate::{PortFault, TxQueue};
use mem::copy::Kernel;
use ring::device::{DeviceRing, Logged, Packed, Split};

/// Creates transmit queues. Selects the ring kind and the copy kernel once.
#[derive(Debug)]
pub(super) struct VhostTx;

impl VhostTx {
    /// Creates a queue that continues the ring described by `setup`, at its base.
    pub(super) fn start(setup: &QueueSetup) -> Result<Box<dyn TxQueue>, PortFault> {
        mem::with_kernel!(mem::copy::chosen(), K => {
            match (setup.features.has(Features::RING_PACKED), &setup.log) {
                (false, None) => Ok(Box::new(queue::<Split, K>(setup)?) as Box<dyn TxQueue>),
                (true, None) => Ok(Box::new(queue::<Packed, K>(setup)?) as Box<dyn TxQueue>),
                (false, Some(_)) => Ok(Box::new(queue::<Logged<Split>, K>(setup)?) as Box<dyn TxQueue>),
                (true, Some(_)) => Ok(Box::new(queue::<Logged<Packed>, K>(setup)?) as Box<dyn TxQueue>),
            }
        })
    }
}

fn queue<R: DeviceRing, K: Kernel>(setup: &QueueSetup) -> Result<RingTx<Core<R>, K>, PortFault> {
    Ok(RingTx::new(Core::new(setup)?, setup.call.clone(), setup.features.to_guest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transmit::tests::{SIZE, hang};
    use mem::{GuestMemory, MemTable};
    use ring::mock::{BUFFERS, Mock, Shape};
    use std::sync::Arc;

    /// A ring in which every buffer is available.
    fn full() -> (Mock, Core<Split>) {
        let shape = Shape { packed: false, size: SIZE, in_order: false, event_idx: false, indirect: false };
        let mock = Mock::new(shape);
        for at in 0..SIZE {
            let address = BUFFERS + u64::from(at) * 256;
            mock.split_descriptor(mock.layout.descriptors, at, address, 256, ring::Descriptor::WRITE, 0);
            mock.offer(at, at);
        }
        mock.available_index(SIZE);
        let setup = QueueSetup {
            memory: Arc::new(MemTable::new(GuestMemory::new(mock.map.regions().to_vec()).unwrap())),
            size: SIZE,
            descriptors: mock.layout.descriptors,
            driver: mock.layout.driver,
            device: mock.layout.device,
            base: 0,
            features: Features(Features::VERSION_1),
            record: None,
            log: None,
            kick: None,
            call: None,
        };
        (mock, Core::new(&setup).unwrap())
    }

    #[test]
    fn memory_does_not_grow_while_a_worker_hangs() {
        let (mock, core) = full();
        hang(core, |_| mock.used_index().into());
    }
}
