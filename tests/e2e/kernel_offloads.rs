//! Compares software offloads with the kernel's: a packet with pending offloads enters a namespace through one
//! interface and leaves it, bridged, through another one without offloads. The frames must equal those of our own
//! segmentation and checksums, byte for byte.

use std::sync::Arc;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::tun::{HEADER, Tun};
use mem::copy::Portable;
use mem::{GuestMemory, Region};
use port::soft_offload::SoftGso;
use port::{BufId, Burst, Offload, Segmentation};
use wire::checksum::{Sum, protocol};

const PACKETS: usize = 300;
const TIMEOUT: Duration = Duration::from_millis(500);
const FROM: [u8; 6] = [2, 0, 0, 0, 0x77, 1];

/// A random generator with the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A packet and its pending offloads.
struct Sample {
    frame: Vec<u8>,
    offload: Offload,
}

fn transport(random: &mut Random, udp: bool, len: usize) -> Vec<u8> {
    if udp {
        let mut header = vec![0x12, 0x34, 0, 53];
        header.extend((8 + len as u16).to_be_bytes());
        header.extend([0, 0]);
        return header;
    }
    let options = 4 * random.below(4);
    // ACK, and sometimes FIN, PSH and CWR.
    let flags = 0x10 | [0, 1][random.below(2)] | [0, 8][random.below(2)] | [0, 0x80][random.below(2)];
    let mut header = vec![0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, random.below(256) as u8, 0, 0, 0, 9];
    header.extend([((5 + options / 4) << 4) as u8, flags, 1, 0, 0, 0, 0, 0]);
    header.extend(vec![1; options]);
    header
}

fn network(random: &mut Random, v6: bool, proto: u8, len: usize) -> (Vec<u8>, Vec<u8>) {
    if v6 {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend((len as u16).to_be_bytes());
        header.extend([proto, 64, 0xfd]);
        header.extend([0; 14]);
        header.extend([1, 0xfd]);
        header.extend([0; 14]);
        header.push(2);
        let addresses = header[8..].to_vec();
        return (header, addresses);
    }
    let id = random.below(65_536) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, proto, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2];
    wire::rewrite_ipv4(&mut header, (20 + len) as u16, id);
    let addresses = header[12..].to_vec();
    (header, addresses)
}

fn sample(random: &mut Random) -> Sample {
    let (v6, udp, cut) = (random.below(2) == 1, random.below(2) == 1, random.below(4) > 0);
    let segment = 200 + random.below(1200);
    let payload: Vec<u8> = {
        // The kernel accepts at most 128 datagrams per packet (`UDP_MAX_SEGMENTS`), and packets of 64 KiB.
        let most = if cut { (segment * 40).min(60_000) } else { 1400 };
        (0..=random.below(most)).map(|_| random.below(256) as u8).collect()
    };
    let (proto, field) = if udp { (protocol::UDP, 6) } else { (protocol::TCP, 16) };
    let mut segment_header = transport(random, udp, payload.len());
    let len = segment_header.len() + payload.len();
    let (header, addresses) = network(random, v6, proto, len);
    let partial = Sum::pseudo(&addresses, proto, len as u32).partial();
    segment_header[field..field + 2].copy_from_slice(&partial);
    let mut frame = [[2, 0, 0, 0, 0x77, 2], FROM].concat();
    frame.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
    let start = frame.len() + header.len();
    frame.extend([header, segment_header, payload].concat());
    let kind = match (udp, v6) {
        (true, _) => Segmentation::Udp,
        (false, true) => Segmentation::Tcp6,
        (false, false) => Segmentation::Tcp4,
    };
    let offload = Offload::with_checksum(start as u16, field as u16);
    Sample { frame, offload: if cut { offload.with_segments(kind, segment as u16, false) } else { offload } }
}

/// Completes the offloads in software, with the packet in several pieces of memory.
fn finished(random: &mut Random, sample: &Sample) -> Vec<Vec<u8>> {
    let len = sample.frame.len();
    let region = Arc::new(Region::heap(0, 0, len as u64));
    let whole = region.seg(0, len as u32).expect("the region has the frame's length");
    // SAFETY: the region is alive and has the frame's length.
    unsafe { whole.copy_in::<Portable>(&sample.frame) };
    let (mut pieces, mut left) = (vec![], whole);
    while !left.is_empty() {
        let (piece, rest) = left.split_at(1 + random.below(5000));
        pieces.push(piece);
        left = rest;
    }
    let (mut burst, mut made, mut all) = (Burst::new(), Burst::new(), vec![]);
    burst.begin(0);
    burst.pin(&Arc::new(GuestMemory::new(vec![region]).expect("one region overlaps nothing")));
    burst.push_chain(BufId::default(), &pieces);
    burst.set_offload(0, sample.offload);
    burst.load_heads::<Portable>();
    let mut gso = SoftGso::start(&burst, 0).expect("the packet is in order");
    while gso.fill(&burst, 0, &mut made) {
        all.extend((0..made.len()).map(|i| {
            let mut bytes = vec![0; made.frame_len(i)];
            made.frame(i).copy_to::<Portable>(&mut bytes);
            bytes
        }));
    }
    all
}

/// Returns the frames that the kernel produces.
fn by_the_kernel(sample: &Sample, input: &Tun, output: &Tun, expected: usize) -> Vec<Vec<u8>> {
    let header = sample.offload.header(&sample.frame);
    assert_eq!(header.len(), HEADER);
    input.send(&[&header[..], &sample.frame].concat());
    let mut all = vec![];
    // Frames sent by the kernel itself have another source address.
    while all.len() < expected
        && let Some(frame) = output.receive(TIMEOUT)
    {
        if frame[6..12] == FROM {
            all.push(frame);
        }
    }
    all
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn software_offloads_equal_the_kernels() {
    let netns = Netns::new();
    let (input, output) = (Tun::new(&netns, "in", true), Tun::new(&netns, "out", false));
    netns.ip("link add name lan type bridge");
    netns.disable_ipv6();
    for interface in ["in", "out"] {
        netns.ip(&format!("link set {interface} master lan"));
    }
    for interface in ["in", "out", "lan"] {
        netns.ip(&format!("link set {interface} up"));
    }
    // The bridge forwards once its ports are up, shown by the first frame that arrives.
    let mut random = Random(2026);
    let first = sample(&mut random);
    let ready = (0..20).any(|_| !by_the_kernel(&first, &input, &output, 1).is_empty());
    assert!(ready, "nothing comes out of the bridge");
    while output.receive(TIMEOUT).is_some() {}
    let mut segments = 0;
    for n in 0..PACKETS {
        let sample = sample(&mut random);
        let ours = finished(&mut random, &sample);
        let kernels = by_the_kernel(&sample, &input, &output, ours.len());
        assert_eq!(ours.len(), kernels.len(), "packet {n}: {:?}", sample.offload);
        for (k, (ours, kernels)) in ours.iter().zip(&kernels).enumerate() {
            assert!(
                ours == kernels,
                "packet {n}, segment {k}, {:?}\n{ours:02x?}\n{kernels:02x?}",
                sample.offload
            );
        }
        segments += ours.len();
    }
    assert!(segments > 10 * PACKETS, "{segments} segments say little");
}
