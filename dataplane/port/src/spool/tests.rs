use super::file::RecordFile;
use super::*;
use crate::Burst;
use mem::copy::Portable;
use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn spool(path: &Path, format: Format, snap: Option<u32>) -> Spool {
    let doorbell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    Spool::create(&Output::new(path), format, "red", snap, doorbell).unwrap()
}

fn burst(frame: &[u8]) -> Burst {
    let mut burst = Burst::new();
    burst.begin(0);
    assert!(burst.push_own(frame));
    burst
}

fn put(feed: &mut Feed, now: u64, frame: &[u8]) -> Spooled {
    let record = Record { now, len: frame.len() as u32, direction: Direction::In, ..Record::default() };
    let put = feed.put::<Portable>(&record, &burst(frame).frame(0));
    feed.notify();
    put
}

/// Packet lengths in a text log, in order.
fn sizes(path: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(' ').nth(3).unwrap().parse().unwrap()).collect()
}

#[test]
fn records_round_trip() {
    let record = Record {
        now: 77,
        len: 1514,
        direction: Direction::Out,
        fate: Outcome::Lost(crate::DropReason::PortFault),
        offload: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        interface: 513,
        trace: Some(TraceStep { number: 7, verdict_ns: 8, since_ns: 9, skipped: 10 }),
    };
    assert_eq!(Record::decode(&record.encode(60)), (record, 60));
    let queued = Record { fate: Outcome::Queued, ..record };
    assert_eq!(Record::decode(&queued.encode(60)), (queued, 60));
    assert_eq!(Record::decode(&Record::default().encode(0)), (Record::default(), 0));
}

#[test]
fn packets_of_several_workers_are_sorted_and_the_newest_delayed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut spool = spool(&path, Format::Text, None);
    let (mut one, now) = (spool.feed(), Instant::now());
    let mut two = one.another();
    for k in 1..=4 {
        put(&mut one, k * 2 * SLACK, &[0; 20][..k as usize + 13]);
        put(&mut two, (k * 2 - 1) * SLACK, &[0; 40][..k as usize + 33]);
    }
    spool.handle(now, 0);
    assert_eq!(sizes(&path), [34, 14, 35, 15, 36, 16, 37], "the last may have an older one behind it");
    put(&mut two, 8 * SLACK - 1, &[0; 50]);
    spool.handle(now, 0);
    assert_eq!(sizes(&path).len(), 7);
    spool.handle(spool.deadline().unwrap(), 0);
    assert_eq!(sizes(&path)[7..], [50, 17]);
    assert_eq!((spool.deadline(), spool.written(), spool.missed()), (None, 9, 0));
}

#[test]
fn clock_drift_is_smoothed_and_a_clock_step_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut spool = spool(&path, Format::Text, None);
    let mut feed = spool.feed();
    let mut at = |now, epoch| {
        put(&mut feed, now, &[0; 60]);
        (0..2).for_each(|_| spool.handle(Instant::now(), epoch));
    };
    at(5_000_000_000, 7_000);
    at(5_000_000_100, 6_000);
    at(6_000_000_000, 6_000);
    at(6_000_000_001, 0);
    at(4_000_000_001, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    let times: Vec<_> = text.lines().map(|line| &line[17..29]).collect();
    assert_eq!(times, ["05.000007000", "05.000007000", "06.000006000", "06.000006000", "04.000000001"]);
}

#[test]
fn records_of_a_dropped_feed_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut spool = spool(&path, Format::Text, None);
    let mut feed = spool.feed();
    put(&mut feed, 1, &[0; 60]);
    drop(feed);
    spool.handle(Instant::now(), 0);
    spool.close(0);
    assert_eq!(sizes(&path), [60]);
    assert_eq!(put(&mut spool.feed(), 1, &[0; 60]), Spooled::Ended);
}

#[test]
fn trace_line_has_source_destination_and_summary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut spool = spool(&path, Format::Text, Some(128));
    let mut feed = spool.feed();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 10, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 1, 0]);
    let offload = crate::Offload::with_checksum(38, 16).header(&frame);
    let fates = [Outcome::Moved, Outcome::Lost(crate::DropReason::QueueFull)];
    for (fate, offload) in fates.into_iter().zip([offload, [0; 10]]) {
        let record =
            Record { now: 5, len: 58, direction: Direction::Out, fate, offload, ..Record::default() };
        assert_eq!(feed.put::<Portable>(&record, &burst(&frame).frame(0)), Spooled::Taken);
    }
    put(&mut feed, 6, &[9; 12]);
    put(&mut feed, 7, &[9; 60]);
    spool.handle(Instant::now(), 1_000_000_000);
    spool.close(1_000_000_000);
    let expected = "\
1970-01-01T00:00:01.000000005Z red out 58 B 02:00:00:00:00:01 > 02:00:00:00:00:02 VLAN 10 10.0.0.1:80 > 10.0.0.2:256 TCP, checksum at byte 54 not filled in, sent
1970-01-01T00:00:01.000000005Z red out 58 B 02:00:00:00:00:01 > 02:00:00:00:00:02 VLAN 10 10.0.0.1:80 > 10.0.0.2:256 TCP, lost: queue-full
1970-01-01T00:00:01.000000006Z red in 12 B no Ethernet header
1970-01-01T00:00:01.000000007Z red in 60 B 09:09:09:09:09:09 > 09:09:09:09:09:09 type 0x0909
";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn failing_file_ends_with_a_complete_record_and_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    std::fs::write(&path, "whole").unwrap();
    let mut read_only = RecordFile::open_for_tests(File::open(&path).unwrap(), 5);
    assert!(read_only.append(b"more").is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    let mut spool = spool(&dir.path().join("y.log"), Format::Text, None);
    spool.replace_file_for_tests(read_only);
    let mut feed = spool.feed();
    put(&mut feed, 1, &[0; 60]);
    (0..2).for_each(|_| spool.handle(Instant::now(), 0));
    assert!(spool.failure().unwrap().contains("Bad file descriptor"), "{:?}", spool.failure());
    assert_eq!((spool.missed(), spool.written(), spool.deadline()), (1, 0, None));
    assert_eq!(put(&mut feed, 2, &[0; 60]), Spooled::Ended);
}

#[test]
fn records_in_flight_at_the_end_count_as_missed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let (mut spool, now) = (spool(&path, Format::Text, None), Instant::now());
    let mut feed = spool.feed();
    spool.replace_file_for_tests(RecordFile::open_for_tests(File::open(&path).unwrap(), 0));
    assert_eq!(put(&mut feed, 1, &[0; 60]), Spooled::Taken);
    let late = Record { now: 2, len: 60, ..Record::default() };
    spool.handle(now, 0);
    spool.handle(now, 0);
    assert!(spool.failure().is_some());
    assert_eq!((spool.written(), spool.missed()), (0, 1));
    // Simulates a worker that checked for the end just before the file ended.
    feed.put_behind_the_end_for_tests(&late, &[0; 60]);
    feed.put_or_count::<Portable>(&late, &burst(&[0; 60]).frame(0));
    spool.handle(now, 0);
    assert_eq!((spool.written(), spool.missed()), (0, 3));
}

#[test]
fn unused_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    drop(spool(&path, Format::Text, None));
    assert!(!path.exists());
    let mut used = spool(&path, Format::Text, None);
    used.handle(Instant::now(), 0);
    drop(used);
    assert!(path.exists());
    let (again, doorbell) = (
        Output { overwrite: true, ..Output::new(&path) },
        Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()),
    );
    drop(Spool::create(&again, Format::Text, "red", None, doorbell));
    assert!(path.exists(), "the earlier file is kept");
}

#[test]
fn control_is_woken_once_while_idle() {
    let dir = tempfile::tempdir().unwrap();
    let doorbell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let output = Output::new(dir.path().join("x"));
    let mut spool = Spool::create(&output, Format::Pcapng, "red", None, doorbell.clone()).unwrap();
    let rings = || {
        let mut count = [0; 8];
        rustix::io::read(&doorbell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    };
    let mut feed = spool.feed();
    (0..10).for_each(|now| assert_eq!(put(&mut feed, now, &[0; 60]), Spooled::Taken));
    assert_eq!(rings(), 1);
    let now = Instant::now();
    spool.handle(now, 0);
    (0..10).for_each(|now| assert_eq!(put(&mut feed, now, &[0; 60]), Spooled::Taken));
    assert_eq!(rings(), 0, "control comes back by itself");
    spool.handle(now, 0);
    spool.handle(now, 0);
    assert_eq!(spool.deadline(), None);
    put(&mut feed, 99, &[0; 60]);
    assert_eq!(rings(), 1);
}

#[test]
fn concurrent_feeds_lose_no_record() {
    const EACH: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut spool = spool(&path, Format::Text, Some(64));
    let feeds = [spool.feed(), spool.feed()];
    let threads = feeds.map(|mut feed| {
        std::thread::spawn(move || {
            for now in 0..EACH {
                while put(&mut feed, now, &[0; 100]) == Spooled::Full {
                    feed.notify_now();
                    std::thread::yield_now();
                }
            }
        })
    });
    let now = Instant::now();
    while !threads.iter().all(std::thread::JoinHandle::is_finished) {
        spool.handle(now, 0);
    }
    spool.close(0);
    assert_eq!(sizes(&path).len() as u64, 2 * EACH);
}
