//! Offloads that a guest requests, and the offload header that another guest receives.

use crate::hand::{Guest, KINDS, WRITE, burst_of, frame, receive, send};
use port::vhost::Features;
use port::{BurstStats, Capabilities, DropReason, Offload, Segmentation};

const LEAVES: u64 = Features::VERSION_1 | Features::CSUM | Features::HOST_TSO4;
const TAKES: u64 = Features::VERSION_1 | Features::GUEST_CSUM | Features::GUEST_TSO4;
const LEN: usize = 200;

/// A virtio-net header of 12 bytes.
fn header(flags: u8, gso: u8, segment: u16, start: u16, offset: u16) -> Vec<u8> {
    let words = [0, segment, start, offset, 0].map(u16::to_le_bytes).concat();
    [vec![flags, gso], words].concat()
}

fn cut() -> Offload {
    Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp4, 100, false)
}

/// Layouts of a header of 12 bytes and a frame.
fn layouts() -> [Vec<(u64, u32)>; 3] {
    [vec![(0, 212)], vec![(0, 12), (4096, 200)], vec![(0, 3), (100, 9), (4096, 1), (6000, 199)]]
}

fn offer(guest: &mut Guest, layout: &[(u64, u32)], at: u64, bytes: &[u8]) {
    let mut left = bytes;
    let moved: Vec<_> = layout.iter().map(|&(from, len)| (from + at, len)).collect();
    for &(from, len) in &moved {
        let (here, rest) = left.split_at(len as usize);
        guest.write(from, here);
        left = rest;
    }
    guest.offer(&moved, 0);
}

#[test]
fn guest_offloads_are_received_in_any_layout() {
    for (packed, layout) in KINDS.into_iter().flat_map(|kind| layouts().map(|layout| (kind, layout))) {
        let mut guest = Guest::new(packed, LEAVES);
        let headers =
            [header(0, 0, 9, 9, 9), header(1, 1, 100, 34, 16), header(1, 0, 0, 20, 8), header(2, 0, 0, 0, 0)];
        for (n, header) in headers.iter().enumerate() {
            let bytes = [header.clone(), frame(LEN, n)].concat();
            offer(&mut guest, &layout, n as u64 * 8192, &bytes);
        }
        let (burst, stats) = receive(guest.rx().as_mut()).unwrap();
        assert_eq!((burst.len(), stats.packets, stats.lost), (4, 4, 0));
        let offloads: Vec<_> = (0..4).map(|i| burst.offload(i)).collect();
        assert_eq!(offloads, [Offload::NONE, cut(), Offload::with_checksum(20, 8), Offload::NONE]);
        assert_eq!(crate::hand::read(&burst, 1), frame(LEN, 1), "the packet is as it was");
    }
}

#[test]
fn invalid_header_drops_its_packet_only() {
    for (packed, layout) in KINDS.into_iter().flat_map(|kind| layouts().map(|layout| (kind, layout))) {
        let bad = [
            header(1, 0, 0, 199, 0),
            header(1, 1, 0, 34, 16),
            header(0, 1, 100, 34, 16),
            header(1, 3, 100, 34, 16),
            // Not negotiated.
            header(1, 4, 100, 34, 16),
            header(1, 0x81, 100, 34, 16),
        ];
        let mut guest = Guest::new(packed, LEAVES);
        for (n, header) in bad.iter().enumerate() {
            offer(&mut guest, &layout, n as u64 * 16384, &[header.clone(), frame(LEN, n)].concat());
            let good = [cut().header(&frame(LEN, n)).to_vec(), vec![0; 2], frame(LEN, n + 50)].concat();
            offer(&mut guest, &layout, n as u64 * 16384 + 8192, &good);
        }
        let (mut rx, n) = (guest.rx(), bad.len());
        let (mut burst, mut stats) = (port::Burst::new(), BurstStats::default());
        burst.begin(0);
        rx.rx(&mut burst, &mut stats).unwrap();
        burst.load_heads::<mem::copy::Portable>();
        assert_eq!((burst.len(), stats.packets), (n, 2 * n as u64));
        assert_eq!(stats.drops[DropReason::BadOffload as usize], n as u64);
        for i in 0..n {
            assert_eq!((burst.offload(i), burst.head(i)), (cut(), &frame(LEN, i + 50)[..128]));
        }
        rx.complete(burst.buf_ids());
        assert_eq!(guest.used(), (0..2 * n).map(|k| (k, 0)).collect::<Vec<_>>());
    }
}

/// virtio-net header that a guest receives with a frame that needs this offload.
fn sent_header(features: u64, buffers: &[(u64, u32)], forked: bool, offload: Offload) -> Vec<u8> {
    let mut guest = Guest::new(false, features);
    for &buffer in buffers {
        guest.offer(&[buffer], WRITE);
    }
    let mut burst = burst_of(&[frame(LEN, 3)]);
    burst.set_offload(0, offload);
    let mut tx = guest.tx();
    let mut other = forked.then(|| tx.fork());
    let (done, stats) = send(other.as_mut().unwrap_or(&mut tx).as_mut(), &burst).unwrap();
    assert_eq!((done, stats.packets), (1, 1));
    guest.dump()[..12].to_vec()
}

#[test]
fn guest_with_offloads_gets_them_in_the_header() {
    let merged = [(0_u64, 100_u32), (4096, 200)];
    for (buffers, number) in [(&[(0_u64, 2048_u32)][..], 1), (&merged[..], 2)] {
        for forked in [false, true] {
            let features = TAKES | Features::MRG_RXBUF;
            let expected = |offload: Offload| [&offload.header(&frame(LEN, 3))[..], &[number, 0]].concat();
            for offload in [cut(), Offload::with_checksum(34, 16), Offload::VALID, Offload::NONE] {
                assert_eq!(sent_header(features, buffers, forked, offload), expected(offload));
            }
        }
    }
}

#[test]
fn guest_without_offloads_gets_an_empty_header() {
    let empty = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    for offload in [Offload::VALID, Offload::NONE] {
        assert_eq!(sent_header(Features::VERSION_1, &[(0, 2048)], false, offload), empty);
    }
}

#[test]
fn capabilities_follow_from_negotiated_features() {
    let can = |features: u64| Guest::new(false, features).tx().capabilities();
    assert_eq!(can(Features::GUEST_TSO4), Capabilities::NONE, "cutting without checksums is nothing");
    assert_eq!(can(TAKES), Capabilities(Capabilities::CHECKSUM | Capabilities::TCP4));
    let one_version = Features::GUEST_CSUM | Features::GUEST_USO4;
    assert_eq!(
        can(one_version),
        Capabilities(Capabilities::CHECKSUM),
        "datagrams of either version, or none"
    );
    assert_eq!(
        can(one_version | Features::GUEST_USO6),
        Capabilities(Capabilities::CHECKSUM | Capabilities::UDP)
    );
}
