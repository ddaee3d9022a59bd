//! Freezes and thaws rings of a virtio-user port, and of a vhost-user port on the same memory, under traffic.

use super::device::{Device, QueueSetup};
use super::options::RingKind;
use super::{Negotiated, Options, rx, tx};
use crate::state::tests::{Ends, stream};
use crate::vhost::Features;
use crate::vhost::message::ProtocolFeatures;
use crate::vhost_user::{QUEUES, setup};
use crate::{PortFault, QueueState};
use mem::{GuestMemory, MemTable};
use ring::driver::Used;
use std::sync::Arc;

const SIZE: u16 = 128;

fn features(kind: RingKind) -> Features {
    let needed: u64 = kind.needs().iter().map(|need| need.0).sum();
    Features(Features::VERSION_1 | Features::MRG_RXBUF | needed)
}

fn device(kind: RingKind) -> Device {
    let options = Options { queue_size: SIZE, ring: kind, ..Options::default() };
    let (features, protocol) = (features(kind), ProtocolFeatures(0));
    Device::new(options, Negotiated { features, protocol, queue_pairs: 1, memory_slots: 1 }).unwrap()
}

/// The same ring as the back end sees it.
fn back_end(ring: &QueueSetup, features: Features, base: u32) -> setup::QueueSetup {
    let regions = ring.buffers.map().regions().to_vec();
    setup::QueueSetup {
        memory: Arc::new(MemTable::new(GuestMemory::new(regions).unwrap())),
        size: ring.layout.size,
        descriptors: ring.layout.descriptors,
        driver: ring.layout.driver,
        device: ring.layout.device,
        base,
        features,
        record: None,
        log: None,
        kick: None,
        call: None,
    }
}

fn base(state: &QueueState) -> u32 {
    let QueueState::Ring { base } = state else { panic!("{state:?}") };
    *base
}

#[test]
fn transmit_rings_resume_at_any_point() {
    for kind in RingKind::ALL {
        let (device, features) = (device(kind), features(kind));
        let (_, ring) = device.pairs().next().unwrap();
        let there = |base| (QUEUES.rx)(&back_end(ring, features, base)).unwrap();
        let ends = (tx::thaw(ring, QueueState::Fresh).unwrap(), there(ring.layout.base));
        stream(ends, 5000, |which, (tx, rx): Ends| match which {
            0 => (tx::thaw(ring, tx.freeze()).unwrap(), rx),
            1 => (tx, there(base(&rx.freeze()))),
            _ => {
                let mut tx = tx;
                // The state belongs to the queue, independent of the handle that freezes it.
                let other = tx.fork();
                drop(tx);
                (tx::thaw(ring, other.freeze()).unwrap(), there(base(&rx.freeze())))
            }
        });
    }
}

#[test]
fn receive_rings_resume_at_any_point() {
    for kind in RingKind::ALL {
        let (device, features) = (device(kind), features(kind));
        let (ring, _) = device.pairs().next().unwrap();
        let there = |base| (QUEUES.tx)(&back_end(ring, features, base)).unwrap();
        let ends = (there(ring.layout.base), rx::thaw(ring, QueueState::Fresh).unwrap());
        stream(ends, 5000, |which, (tx, rx): Ends| match which {
            0 => (tx, rx::thaw(ring, rx.freeze()).unwrap()),
            1 => (there(base(&tx.freeze())), rx),
            _ => (there(base(&tx.freeze())), rx::thaw(ring, rx.freeze()).unwrap()),
        });
    }
}

#[test]
fn mismatching_state_is_rejected() {
    let (device, packed) = (device(RingKind::Split), device(RingKind::Packed));
    let (receive, transmit) = device.pairs().next().unwrap();
    let (other, _) = packed.pairs().next().unwrap();
    let QueueState::Driver(good) = rx::thaw(receive, QueueState::Fresh).unwrap().freeze() else { panic!() };
    let refused =
        |result: Option<PortFault>| assert!(matches!(result, Some(PortFault::State(_))), "{result:?}");
    refused(rx::thaw(other, QueueState::Driver(good.clone())).err());
    refused(rx::thaw(receive, QueueState::Ring { base: 0 }).err());
    refused(tx::thaw(transmit, QueueState::Ring { base: 0 }).err());
    let mut waiting = good.clone();
    waiting.waiting.push(Used { id: 3, len: 0 });
    refused(rx::thaw(receive, QueueState::Driver(waiting.clone())).err());
    refused(tx::thaw(transmit, QueueState::Driver(waiting)).err());
    let mut links = good;
    links.links = vec![0; SIZE.into()];
    refused(rx::thaw(receive, QueueState::Driver(links.clone())).err());
    refused(tx::thaw(transmit, QueueState::Driver(links)).err());
}
