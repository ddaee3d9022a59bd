//! Several workers send to one guest.

use crate::hand::{Guest, KINDS, burst_of, send};
use mem::copy::Portable;
use port::TxQueue;
use port::vhost::Features;
use ring::Direction;
use ring::driver::{self, DriverRing, Post, Used};
use ring::mock::{BUFFERS, Mock, USER};
use std::sync::atomic::{AtomicUsize, Ordering};

const WORKERS: usize = 3;
const EACH: usize = 2000;
const ROOM: u64 = 512;

/// Frame `number` of `worker`. Its length and all bytes are derived from the two.
fn frame(worker: usize, number: usize) -> Vec<u8> {
    let mut frame = vec![(worker * 91 + number) as u8; 60 + (number * 37 + worker * 11) % 300];
    frame[0] = worker as u8;
    frame[1..5].copy_from_slice(&(number as u32).to_le_bytes());
    frame
}

/// Sends all frames in order, in bursts of different sizes, until every frame was accepted.
fn work(worker: usize, tx: &mut dyn TxQueue, left: &AtomicUsize) {
    let mut at = 0;
    while at < EACH {
        let n = (1 + at % 23).min(EACH - at);
        let frames: Vec<_> = (at..at + n).map(|number| frame(worker, number)).collect();
        let burst = burst_of(&frames);
        let (indices, mut stats, mut done) =
            ((0..n as u8).collect::<Vec<_>>(), port::BurstStats::default(), 0);
        while done < n {
            done += tx.tx(&burst, &indices[done..], &mut stats).unwrap();
            std::thread::yield_now();
        }
        assert_eq!((stats.packets, stats.lost), (n as u64, 0));
        at += n;
    }
    left.fetch_sub(1, Ordering::SeqCst);
}

/// Guest side: posts buffers, collects frames, reposts.
struct Collector<'a, V> {
    mock: &'a Mock,
    driver: V,
    next: [usize; WORKERS],
}

impl<'a, V: DriverRing> Collector<'a, V> {
    fn new(mock: &'a Mock) -> Self {
        let driver = V::new(&mock.layout, &mock.map).unwrap();
        let mut collector = Self { mock, driver, next: [0; WORKERS] };
        (0..mock.layout.size).for_each(|id| collector.post(id));
        collector.driver.publish();
        collector
    }

    fn post(&mut self, id: u16) {
        let address = BUFFERS + u64::from(id) * ROOM;
        self.driver.post(Post { id, address, len: ROOM as u32, direction: Direction::Write });
    }

    fn collect(&mut self) {
        let mut out = [Used::default(); 16];
        let n = self.driver.take(&mut out).unwrap();
        for used in &out[..n] {
            self.check(*used);
            self.post(used.id);
        }
        self.driver.publish();
    }

    fn check(&mut self, used: Used) {
        let at = USER + BUFFERS + u64::from(used.id) * ROOM;
        let mut bytes = vec![0; used.len as usize];
        // SAFETY: the mock keeps its map alive; the segment has as many bytes as the vector.
        unsafe { self.mock.map.by_user(at, used.len).unwrap().copy_out::<Portable>(&mut bytes) };
        let got = &bytes[12..];
        let worker = usize::from(got[0]);
        assert!(got == frame(worker, self.next[worker]), "worker {worker}, frame {}", self.next[worker]);
        self.next[worker] += 1;
    }
}

fn run<V: DriverRing>(packed: bool) {
    let guest = Guest::new(packed, Features::VERSION_1);
    let mut collector = Collector::<V>::new(&guest.mock);
    let mut handles = vec![guest.tx()];
    for _ in 1..WORKERS {
        let another = handles[0].fork();
        handles.push(another);
    }
    let left = AtomicUsize::new(WORKERS);
    std::thread::scope(|s| {
        for (worker, tx) in handles.iter_mut().enumerate() {
            let left = &left;
            s.spawn(move || work(worker, tx.as_mut(), left));
        }
        while left.load(Ordering::SeqCst) > 0 && collector.next.iter().sum::<usize>() < WORKERS * EACH {
            collector.collect();
            std::thread::yield_now();
        }
    });
    (0..64).for_each(|_| collector.collect());
    assert_eq!(collector.next, [EACH; WORKERS], "none lost, none twice, each worker's in order");
}

#[test]
fn frames_of_all_workers_arrive_once_in_order() {
    run::<driver::Split>(KINDS[0]);
    run::<driver::Packed>(KINDS[1]);
}

#[test]
fn forked_queue_continues_its_position() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, Features::VERSION_1);
        (0..6).for_each(|k| guest.offer(&[(k * 512, 512)], crate::hand::WRITE));
        let mut tx = guest.tx();
        let burst = burst_of(&[frame(0, 0), frame(0, 1)]);
        send(tx.as_mut(), &burst).unwrap();
        let mut other = tx.fork();
        send(other.as_mut(), &burst).unwrap();
        send(tx.as_mut(), &burst).unwrap();
        assert_eq!(guest.used().iter().map(|u| u.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(tx.freeze(), other.freeze());
    }
}
