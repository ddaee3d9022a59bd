//! Tests of the queues over a SEQPACKET socket, which preserves packet boundaries like TUN, without an interface or
//! root. The end-to-end tests cover whole ports.

use super::options::Io;
use super::slots::{MAX_FRAME, SLOTS};
use super::waiting::Waiting;
use super::{rx, tx, uring};
use crate::interface::LinkState;
use crate::{
    BURST, Burst, BurstStats, Capabilities, DropReason, OFFLOAD_HEADER, Offload, QueueState, RxQueue, TxQueue,
};
use mem::copy::Portable;
use mem::{GuestMemory, Region, RegionSpec};
use ring::BufId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::sync::Arc;

/// A socket in place of an interface descriptor, and its other end.
fn pair() -> (Arc<[OwnedFd]>, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (ours, other) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    for end in [&ours, &other] {
        rustix::net::sockopt::set_socket_send_buffer_size(end, 1 << 21).unwrap();
    }
    (vec![ours].into(), other)
}

/// All receive modes supported by this kernel.
fn receivers(queues: &Arc<[OwnedFd]>) -> Vec<Box<dyn RxQueue>> {
    let modes = if uring::probe().is_ok() { 3 } else { 1 };
    (0..modes).map(|mode| receiver(queues, mode, Waiting::default())).collect()
}

fn receiver(queues: &Arc<[OwnedFd]>, mode: usize, waiting: Waiting) -> Box<dyn RxQueue> {
    let queue = match mode {
        0 => rx::start(queues, 0, waiting),
        mode => uring::start_rx(queues, 0, mode == 2, waiting),
    };
    queue.unwrap()
}

fn senders(queues: &Arc<[OwnedFd]>) -> Vec<Box<dyn TxQueue>> {
    let ways: &[Io] = if uring::probe().is_ok() { &[Io::Calls, Io::Uring] } else { &[Io::Calls] };
    ways.iter().map(|io| tx::start(queues, &LinkState::default(), Capabilities::ALL, *io).unwrap()).collect()
}

fn packet(header: [u8; OFFLOAD_HEADER], frame: &[u8]) -> Vec<u8> {
    [&header[..], frame].concat()
}

/// Sleeps until a kick.
fn wait(queue: &dyn RxQueue) {
    let (kick, second) = (queue.kick_fd().unwrap(), Timespec { tv_sec: 1, tv_nsec: 0 });
    poll(&mut [PollFd::new(&kick, PollFlags::IN)], Some(&second)).unwrap();
}

/// Receives until `n` packets were counted, sleeping in between like a worker.
fn receive(
    queue: &mut dyn RxQueue,
    burst: &mut Burst,
    stats: &mut BurstStats,
    n: u64,
    mut each: impl FnMut(&Burst),
) {
    for _ in 0..1000 {
        burst.begin(0);
        queue.rx(burst, stats).unwrap();
        burst.load_heads::<Portable>();
        each(burst);
        queue.complete(burst.buf_ids());
        if stats.packets >= n {
            return;
        }
        if !queue.enable_notification().unwrap() {
            wait(queue);
        }
        queue.disable_notification();
    }
    panic!("{} of {n} packets came", stats.packets);
}

#[test]
fn received_frames_are_validated_and_slots_reused() {
    let work = Offload::with_checksum(34, 16);
    let frame = [7; 60];
    for n in 0..receivers(&pair().0).len() {
        let (queues, other) = pair();
        let mut queue = receivers(&queues).swap_remove(n);
        let (mut burst, mut stats, mut good, mut sent) = (Burst::new(), BurstStats::default(), 0, 0);
        while sent < 3 * SLOTS as u64 {
            for bytes in [
                packet(work.header(&frame), &frame),
                packet(Offload::with_checksum(60, 16).header(&frame), &frame),
                packet([0; OFFLOAD_HEADER], &frame[..13]),
            ] {
                rustix::net::send(&other, &bytes, rustix::net::SendFlags::empty()).unwrap();
                sent += 1;
            }
            receive(queue.as_mut(), &mut burst, &mut stats, sent, |burst| {
                for i in 0..burst.len() {
                    assert_eq!((burst.head(i), burst.offload(i)), (&frame[..], work));
                    good += 1;
                }
            });
        }
        assert_eq!(good, sent / 3);
        assert_eq!(stats.drops[DropReason::BadOffload as usize], sent / 3);
        assert_eq!(stats.drops[DropReason::TooShort as usize], sent / 3);
    }
}

#[test]
fn frames_that_a_stopped_queue_has_read_are_received_by_the_next_one() {
    for mode in 0..receivers(&pair().0).len() {
        let (queues, other) = pair();
        let mut queue = receiver(&queues, mode, Waiting::default());
        let (mut burst, mut stats, mut got) = (Burst::new(), BurstStats::default(), Vec::new());
        for number in 0..100 {
            let bytes = packet([0; OFFLOAD_HEADER], &[number; 60]);
            rustix::net::send(&other, &bytes, rustix::net::SendFlags::empty()).unwrap();
        }
        // Every queue stops after a few of the frames that the kernel has passed to it.
        for _ in 0..100 {
            if stats.packets == 100 {
                break;
            }
            burst.begin_limited(0, 7);
            queue.rx(&mut burst, &mut stats).unwrap();
            burst.load_heads::<Portable>();
            got.extend((0..burst.len()).map(|i| burst.head(i)[0]));
            queue.complete(burst.buf_ids());
            if !queue.enable_notification().unwrap() {
                wait(&*queue);
            }
            let QueueState::Frames(frames) = queue.freeze() else { panic!("another state") };
            queue = receiver(&queues, mode, frames.into());
        }
        assert_eq!(got, (0..100).collect::<Vec<_>>(), "mode {mode}");
    }
}

#[test]
fn maximum_frame_passes_and_a_longer_one_is_counted() {
    for n in 0..receivers(&pair().0).len() {
        let (queues, other) = pair();
        let mut queue = receivers(&queues).swap_remove(n);
        let (mut burst, mut stats, mut lengths) = (Burst::new(), BurstStats::default(), vec![]);
        for len in [MAX_FRAME, MAX_FRAME + 1, MAX_FRAME + 200, 14] {
            let bytes = packet([0; OFFLOAD_HEADER], &vec![1; len]);
            rustix::net::send(&other, &bytes, rustix::net::SendFlags::empty()).unwrap();
        }
        receive(queue.as_mut(), &mut burst, &mut stats, 4, |burst| {
            lengths.extend((0..burst.len()).map(|i| burst.frame_len(i)));
        });
        assert_eq!(lengths, [MAX_FRAME, 14]);
        assert_eq!(stats.drops[DropReason::TooLong as usize], 2);
    }
}

/// A burst of `n` numbered packets of 300 bytes, each in `pieces` pieces of `map`.
fn burst(map: &Arc<GuestMemory>, n: usize, pieces: usize) -> Burst {
    let mut burst = Burst::new();
    burst.begin(0);
    burst.pin(map);
    for i in 0..n {
        let segs: Vec<_> = (0..pieces)
            .map(|piece| {
                let len = if piece == 0 { 300 - (pieces - 1) } else { 1 };
                map.regions()[0].seg((4096 * i + 512 * piece.min(1)) as u64, len as u32).unwrap()
            })
            .collect();
        burst.push_chain(BufId::default(), &segs);
    }
    burst.load_heads::<Portable>();
    for i in 0..n {
        burst.head_mut(i)[0] = i as u8;
        burst.set_offload(i, Offload::with_checksum(34, 16));
    }
    burst
}

#[test]
fn burst_is_sent_in_order_with_headers() {
    let map = Arc::new(GuestMemory::new(vec![Arc::new(Region::heap(0, 0, 4096 * BURST as u64))]).unwrap());
    for pieces in [1, 2, 40, 150] {
        for n in 0..senders(&pair().0).len() {
            let (queues, other) = pair();
            let mut queue = senders(&queues).swap_remove(n);
            let (burst, mut stats) = (burst(&map, BURST, pieces), BurstStats::default());
            let indices: Vec<u8> = (0..BURST as u8).rev().collect();
            assert_eq!(queue.tx(&burst, &indices, &mut stats).unwrap(), BURST);
            assert_eq!((stats.packets, stats.bytes, stats.lost), (64, 64 * 300, 0));
            for pick in indices {
                let mut got = [0; 1000];
                let len = rustix::io::read(&other, &mut got).unwrap();
                let header = Offload::with_checksum(34, 16).header(&[]);
                assert_eq!((len, &got[..10], got[10]), (310, &header[..], pick), "in {pieces} pieces");
            }
        }
    }
}

#[test]
fn full_queue_drops_and_counts() {
    let map = Arc::new(GuestMemory::new(vec![Arc::new(Region::heap(0, 0, 4096 * BURST as u64))]).unwrap());
    for n in 0..senders(&pair().0).len() {
        let (queues, _other) = pair();
        let mut queue = senders(&queues).swap_remove(n);
        let (burst, mut stats, mut offered, mut done) = (burst(&map, BURST, 1), BurstStats::default(), 0, 0);
        let indices: Vec<u8> = (0..BURST as u8).collect();
        while stats.lost == 0 && done == offered {
            offered += BURST;
            done += queue.tx(&burst, &indices, &mut stats).unwrap();
        }
        assert_eq!(stats.packets + stats.lost, done as u64);
        assert_eq!(stats.lost, stats.drops[DropReason::QueueFull as usize]);
    }
}

#[test]
fn lost_source_memory_drops_only_its_packets() {
    for n in 0..senders(&pair().0).len() {
        let (queues, other) = pair();
        let mut queue = senders(&queues).swap_remove(n);
        let file = rustix::fs::memfd_create("cut", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096 * 8).unwrap();
        let region =
            Region::map(file.as_fd(), RegionSpec { guest: 0, user: 0, len: 4096 * 8, offset: 0 }).unwrap();
        let map = Arc::new(GuestMemory::new(vec![Arc::new(region)]).unwrap());
        let (burst, mut stats) = (burst(&map, 8, 2), BurstStats::default());
        rustix::fs::ftruncate(&file, 4096 * 4).unwrap();
        assert_eq!(queue.tx(&burst, &[0, 1, 2, 3, 4, 5, 6, 7], &mut stats).unwrap(), 8);
        assert_eq!((stats.packets, stats.drops[DropReason::Refused as usize]), (4, 4));
        let mut got = [0; 1000];
        let seen: Vec<_> =
            std::iter::from_fn(|| rustix::io::read(&other, &mut got).ok().map(|_| got[10])).collect();
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}

#[test]
fn workers_use_separate_descriptors_if_available() {
    let (one, first) = pair();
    let (two, second) = pair();
    let both: Vec<OwnedFd> = [&one[0], &two[0]].map(|fd| fd.try_clone().unwrap()).into();
    let mut queue = tx::start(&both.into(), &LinkState::default(), Capabilities::ALL, Io::Calls).unwrap();
    let (mut other, mut third) = (queue.fork(), queue.fork());
    let map = Arc::new(GuestMemory::new(vec![Arc::new(Region::heap(0, 0, 4096))]).unwrap());
    let (burst, mut stats) = (burst(&map, 1, 1), BurstStats::default());
    for handle in [&mut queue, &mut other, &mut third] {
        assert_eq!(handle.tx(&burst, &[0], &mut stats).unwrap(), 1);
    }
    let waiting = |end: &OwnedFd| std::iter::from_fn(|| rustix::io::read(end, &mut [0; 400]).ok()).count();
    assert_eq!((waiting(&first), waiting(&second)), (2, 1));
}
