//! The `vhost` crate's front end, an independent implementation of the specification, against this crate's back end.

use crate::common::{Guest, Switch};
use port::PortState;
use port::vhost::Features;
use port::vhost_user::Options;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

fn region(guest: &Guest) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: guest.spec.guest,
        memory_size: guest.spec.len,
        userspace_addr: guest.spec.user,
        mmap_offset: 0,
        mmap_handle: guest.memory.as_raw_fd(),
    }
}

fn rings(front: &Frontend, guest: &Guest, events: &[EventFd]) {
    for index in 0..2 {
        let ring = guest.ring(index as u64, 0);
        front.set_vring_num(index, ring.size).unwrap();
        front.set_vring_base(index, 0).unwrap();
        let config = VringConfigData {
            queue_max_size: ring.size,
            queue_size: ring.size,
            flags: 0,
            desc_table_addr: ring.descriptors,
            used_ring_addr: ring.device,
            avail_ring_addr: ring.driver,
            log_addr: None,
        };
        front.set_vring_addr(index, &config).unwrap();
        front.set_vring_call(index, &events[0]).unwrap();
        front.set_vring_err(index, &events[1]).unwrap();
        front.set_vring_kick(index, &events[2]).unwrap();
    }
}

#[test]
fn vhost_crate_front_end_can_send_all_messages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, Options { queue_pairs: 2, mtu: Some(1500), ..Options::default() });
    let guest = Guest::new();
    let mut front = Frontend::connect(&path, 4).unwrap();
    front.set_owner().unwrap();
    let features = front.get_features().unwrap();
    front.set_features(features & !Features::RING_PACKED).unwrap();
    // The crate does not send SET_STATUS, without which rings would not start.
    let protocol = front.get_protocol_features().unwrap() - VhostUserProtocolFeatures::STATUS;
    front.set_protocol_features(protocol).unwrap();
    assert!(
        protocol
            .contains(VhostUserProtocolFeatures::REPLY_ACK | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    );
    front.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    assert_eq!(front.get_queue_num().unwrap(), 2);
    assert_eq!(front.get_max_mem_slots().unwrap(), 509);
    front.set_mem_table(&[region(&guest)]).unwrap();
    assert_eq!(switch.status().memory, (1, 1 << 20));

    let events: Vec<_> = (0..3).map(|_| EventFd::new(0).unwrap()).collect();
    rings(&front, &guest, &events);
    assert_eq!(switch.running(), (vec![], vec![]), "the rings are not enabled yet");
    front.set_vring_enable(0, true).unwrap();
    front.set_vring_enable(1, true).unwrap();
    assert_eq!(switch.running(), (vec![0], vec![0]));

    let mut hotplug = region(&Guest::new());
    let memory = Guest::new();
    (hotplug.guest_phys_addr, hotplug.userspace_addr) = (1 << 30, 1 << 30);
    hotplug.mmap_handle = memory.memory.as_raw_fd();
    front.add_mem_region(&hotplug).unwrap();
    assert_eq!(switch.status().memory.0, 2);
    front.remove_mem_region(&hotplug).unwrap();
    assert_eq!(switch.status().memory.0, 1);

    let (ours, theirs) = UnixStream::pair().unwrap();
    assert!(
        front.set_backend_request_fd(&theirs).is_err(),
        "it was not offered, because nothing would be sent"
    );
    drop((ours, theirs));
    assert_eq!(front.get_vring_base(0).unwrap(), 3);
    assert_eq!(front.get_vring_base(1).unwrap(), 3);
    assert_eq!(switch.running(), (vec![], vec![]));
    front.reset_device().unwrap();
    drop(front);
    switch.wait("the end", |s| matches!(s.state, PortState::Waiting(_)));
}

#[test]
fn vhost_crate_front_end_gets_an_error_for_unmappable_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, Options::default());
    let guest = Guest::new();
    let mut front = Frontend::connect(&path, 2).unwrap();
    front.set_owner().unwrap();
    let features = front.get_features().unwrap();
    front.set_features(features).unwrap();
    let protocol = front.get_protocol_features().unwrap();
    front.set_protocol_features(protocol).unwrap();
    front.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    let mut beyond = region(&guest);
    beyond.memory_size += 1;
    assert!(front.add_mem_region(&beyond).is_err());
    assert_eq!(switch.status().state, PortState::Connected);
    front.add_mem_region(&region(&guest)).unwrap();
}
