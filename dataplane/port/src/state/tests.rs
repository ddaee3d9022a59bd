//! A stream of frames between two queues that are frozen and thawed at any point.

use crate::{BURST, Burst, BurstStats, PLACES, Retained, Retainer, RxQueue, TxQueue};
use mem::copy::Portable;
use mem::{GuestMemory, Region};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the memory from which frames are sent.
const BYTES: u64 = 1 << 16;
const STEPS: usize = 3000;

pub(crate) type Ends = (Box<dyn TxQueue>, Box<dyn RxQueue>);

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 8) as u8
}

/// A sequence of numbers that is the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

struct Stream {
    numbers: Numbers,
    map: Arc<GuestMemory>,
    /// Bytes of the map's region.
    all: Vec<u8>,
    burst: Burst,
    retainer: Retainer,
    /// Frames on their way, by their place in `all`.
    sent: VecDeque<Range<usize>>,
    retained: Option<(Retained, Vec<u8>)>,
    received: usize,
}

impl Stream {
    fn send(&mut self, tx: &mut dyn TxQueue, longest: usize) {
        let mut burst = Burst::new();
        burst.begin(0);
        burst.pin(&self.map);
        let mut frames = vec![];
        for _ in 0..self.numbers.below(BURST) {
            let (at, len) =
                (self.numbers.below(BYTES as usize - longest), 60 + self.numbers.below(longest - 60));
            assert!(burst.push_kept(self.map.regions()[0].seg(at as u64, len as u32).unwrap()));
            frames.push(at..at + len);
        }
        burst.load_heads::<Portable>();
        let mut stats = BurstStats::default();
        let done = tx.tx(&burst, &PLACES[..burst.len()], &mut stats).unwrap();
        assert_eq!((stats.packets, stats.lost), (done as u64, 0));
        self.sent.extend(frames.into_iter().take(done));
    }

    fn receive(&mut self, rx: &mut dyn RxQueue) {
        let Self { all, burst, sent, retained, retainer, numbers, received, .. } = self;
        burst.begin(0);
        rx.rx(burst, &mut BurstStats::default()).unwrap();
        burst.load_heads::<Portable>();
        for i in 0..burst.len() {
            let mut bytes = vec![0; burst.frame_len(i)];
            burst.frame(i).copy_to::<Portable>(&mut bytes);
            assert_eq!(Some(&bytes[..]), sent.pop_front().map(|place| &all[place]), "frame {received}");
            *received += 1;
            if retained.is_none() && numbers.below(100) == 0 {
                *retained = burst.retain::<Portable>(i, retainer).map(|packet| (packet, bytes));
            }
        }
        rx.complete(burst.buf_ids());
    }

    /// The bytes of a retained packet outlive the queue.
    fn release(&mut self) {
        if let Some((packet, bytes)) = self.retained.take() {
            let mut now = vec![0; bytes.len()];
            assert_eq!(packet.copy_to(&mut now), bytes.len());
            assert_eq!(now, bytes);
        }
    }
}

/// Sends frames of up to `longest` bytes from one queue to the other; `thaw` replaces queues by others that continue.
/// Every frame arrives once, in order, with its bytes, and no buffer is lost.
pub(crate) fn stream((mut tx, mut rx): Ends, longest: usize, mut thaw: impl FnMut(usize, Ends) -> Ends) {
    let region = Arc::new(Region::heap(0, 0, BYTES));
    let all: Vec<u8> = (0..BYTES as usize).map(byte).collect();
    // SAFETY: the region is held, and its segment has these bytes.
    unsafe { region.seg(0, BYTES as u32).unwrap().copy_in::<Portable>(&all) };
    let mut stream = Stream {
        numbers: Numbers(1),
        map: Arc::new(GuestMemory::new(vec![region]).unwrap()),
        all,
        burst: Burst::new(),
        retainer: Retainer::new(16).unwrap(),
        sent: VecDeque::new(),
        retained: None,
        received: 0,
    };
    for _ in 0..STEPS {
        match stream.numbers.below(8) {
            0..=2 => stream.send(tx.as_mut(), longest),
            3..=5 => stream.receive(rx.as_mut()),
            6 => stream.release(),
            _ => {
                // A burst with a lent buffer is gone before its queue continues.
                stream.burst.unpin();
                (tx, rx) = thaw(stream.numbers.below(3), (tx, rx));
            }
        }
    }
    stream.release();
    for _ in 0..STEPS {
        stream.send(tx.as_mut(), longest);
        stream.receive(rx.as_mut());
    }
    while !stream.sent.is_empty() {
        let before = stream.sent.len();
        stream.receive(rx.as_mut());
        assert!(stream.sent.len() < before, "{before} frames are lost");
    }
    assert!(stream.received > 2 * STEPS, "{} frames", stream.received);
}
