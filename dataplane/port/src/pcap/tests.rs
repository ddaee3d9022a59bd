use super::*;
use crate::Remedy;
use crate::vhost_user::fake::FakeEngine;
use crate::{BURST, Burst, BurstStats, DropReason, Now, PortControl, PortState};
use mem::copy::Portable;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time in nanoseconds, and packet.
type Timed = (u64, Vec<u8>);

/// A pcap file.
fn pcap(big_endian: bool, nanoseconds: bool, link: u32, packets: &[Timed]) -> Vec<u8> {
    let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut file = Vec::new();
    file.extend(word(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
    file.extend([half(2), half(4)].concat());
    file.extend([0, 0, 262_144, link].map(word).concat());
    for (time, bytes) in packets {
        let part = (time % 1_000_000_000) as u32;
        let part = if nanoseconds { part } else { part / 1_000 };
        let len = bytes.len() as u32;
        file.extend([(time / 1_000_000_000) as u32, part, len, len].map(word).concat());
        file.extend(bytes);
    }
    file
}

/// A pcapng file as other tools write it: a name resolution block, then packets of the second interface.
fn pcapng(big_endian: bool, packets: &[Timed]) -> Vec<u8> {
    let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let (pad, padding) = (body.len().wrapping_neg() % 4, [0; 3]);
        let len = word((body.len() + pad + 12) as u32);
        [&word(kind), &len, body, &padding[..pad], &len].concat()
    };
    let interface = |resolution: u8| {
        let options = [&half(9)[..], &half(1), &[resolution, 0, 0, 0], &half(0), &half(0)].concat();
        [&half(1)[..], &half(0), &word(0), &options].concat()
    };
    let mut file = block(0x0a0d_0d0a, &[&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat());
    file.extend(block(1, &interface(6)));
    file.extend(block(4, &[half(0), half(0)].concat()));
    file.extend(block(1, &interface(9)));
    for (time, bytes) in packets {
        let len = bytes.len() as u32;
        let words = [1, (time >> 32) as u32, *time as u32, len, len].map(word).concat();
        file.extend(block(6, &[&words, &bytes[..]].concat()));
    }
    file
}

#[allow(clippy::needless_pass_by_value, reason = "callers have a file of their own")]
fn recording(bytes: Vec<u8>) -> Result<Recording, PcapError> {
    Recording::of(Path::new("x.pcap"), &*bytes, recording::Limits::default())
}

/// Times and bytes of a recording's packets, from the segments that are played.
fn content(recording: &Recording) -> Vec<Timed> {
    let region = &recording.map.regions()[0];
    let packet = |p: &recording::Packet| {
        let mut bytes = vec![0; p.len as usize];
        // SAFETY: the recording keeps its memory table alive, and the slice has the packet's length.
        unsafe { region.seg(p.offset, p.len).unwrap().copy_out::<Portable>(&mut bytes) };
        (p.time, bytes)
    };
    recording.packets.iter().map(packet).collect()
}

fn frame(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|k| (i * 31 + k) as u8).collect()
}

fn some_packets() -> Vec<Timed> {
    [(0, 60), (1_000, 14), (1_001_000, 1514), (2_000_001_000, 65_550)]
        .into_iter()
        .enumerate()
        .map(|(i, (time, len))| (1_700_000_000_000_000_000 + time, frame(i, len)))
        .collect()
}

/// Times relative to the first packet.
fn since_first(packets: &[Timed]) -> Vec<Timed> {
    packets.iter().map(|(time, bytes)| (time - packets[0].0, bytes.clone())).collect()
}

/// A port, with the queues that the engine would hold.
struct Bench {
    port: Pcap,
    engine: FakeEngine,
    now: Instant,
}

impl Bench {
    fn new(options: Options) -> Self {
        let mut bench =
            Self { port: Pcap::new(options).unwrap(), engine: FakeEngine::default(), now: Instant::now() };
        bench.port.handle(bench.now, &mut bench.engine);
        bench
    }

    fn playing(packets: &[Timed], pace: Pace, repeat: Repeat) -> Self {
        let playing = Playback::new(recording(pcapng(false, packets)).unwrap());
        Self::new(Options { read: Some(Playback { pace, repeat, ..playing }), ..Options::default() })
    }

    /// The burst received at `now`, with statistics.
    fn enter(&mut self, now: u64) -> (Burst, BurstStats) {
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        burst.set_now(Now(now));
        self.engine.rx.get_mut(&0).unwrap().rx(&mut burst, &mut stats).unwrap();
        burst.load_heads::<Portable>();
        (burst, stats)
    }

    fn frames(&mut self, now: u64) -> Vec<Vec<u8>> {
        let burst = self.enter(now).0;
        (0..burst.len()).map(|i| whole(&burst, i)).collect()
    }

    fn leave(&mut self, burst: &Burst) -> BurstStats {
        let (mut stats, indices) = (BurstStats::default(), (0..burst.len() as u8).collect::<Vec<_>>());
        let done = self.engine.tx.get_mut(&0).unwrap().tx(burst, &indices, &mut stats).unwrap();
        stats.drop(DropReason::QueueFull, (indices.len() - done) as u64);
        stats
    }

    fn detail(&self, name: &str) -> String {
        let details = self.port.details();
        let found = details.iter().find(|(known, _)| known.name() == name);
        found.unwrap_or_else(|| panic!("no {name} in {details:?}")).1.clone()
    }
}

fn whole(burst: &Burst, i: usize) -> Vec<u8> {
    let mut bytes = vec![0; burst.frame_len(i)];
    assert_eq!(burst.frame(i).copy_to::<Portable>(&mut bytes), bytes.len());
    bytes
}

fn is_readable(fd: impl AsFd, seconds: i64) -> bool {
    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).unwrap() == 1
}

#[test]
fn every_format_and_byte_order_yields_the_same_packets() {
    let packets = some_packets();
    for (case, file) in [
        ("pcap, microseconds, little-endian", pcap(false, false, 1, &packets)),
        ("pcap, microseconds, big-endian", pcap(true, false, 1, &packets)),
        ("pcap, nanoseconds, little-endian", pcap(false, true, 1, &packets)),
        ("pcap, nanoseconds, big-endian", pcap(true, true, 1, &packets)),
        ("pcapng, little-endian", pcapng(false, &packets)),
        ("pcapng, big-endian", pcapng(true, &packets)),
        ("two sections", [pcapng(false, &packets[..2]), pcapng(true, &packets[2..])].concat()),
    ] {
        let read = recording(file).unwrap_or_else(|e| panic!("{case}: {e}"));
        assert_eq!(content(&read), since_first(&packets), "{case}");
        assert!(read.notes().is_empty(), "{case}: {:?}", read.notes());
    }
}

#[test]
fn packet_without_a_time_follows_at_once() {
    let mut file = pcapng(false, &some_packets());
    let simple = [3_u32, 36, 20, 0x0101_0101, 0, 0, 0, 0, 36].map(u32::to_le_bytes).concat();
    file.extend(simple);
    let read = content(&recording(file).unwrap());
    assert_eq!((read.len(), read[4].0, read[4].1.len()), (5, read[3].0, 20));
}

#[test]
fn broken_file_is_rejected_with_offset_and_reason() {
    let packets = some_packets();
    let broken = |mut file: Vec<u8>, at: usize, byte: u8| {
        file[at] = byte;
        file
    };
    let unknown = |remedy: &str| format!("neither pcap nor pcapng; {remedy}");
    // A section header of 28 bytes, two interfaces of 32, a block of 16: the first packet starts at 108.
    for (case, file, expected) in [
        ("nothing", vec![], unknown("name a capture")),
        ("a picture", b"\x89PNG\r\n\x1a\n".repeat(9), unknown("name a capture")),
        ("compressed", b"\x1f\x8b\x08\0".repeat(9), unknown("it is compressed")),
        ("no packet", pcap(true, true, 1, &[]), "has no complete packet".into()),
        ("other links", pcap(false, false, 113, &packets), "packet 1, at byte 24, has link type 113".into()),
        (
            "an impossible length",
            broken(pcap(false, false, 1, &packets), 24 + 16 + 60 + 11, 0x7f),
            "broken at byte 100, behind 1 packets: a packet of invalid length".into(),
        ),
        (
            "an interface that is not there",
            broken(pcapng(false, &packets), 108 + 8, 9),
            "broken at byte 108, behind 0 packets: a packet of an undefined interface".into(),
        ),
        (
            "a packet longer than its block",
            broken(pcapng(false, &packets), 108 + 20, 99),
            "broken at byte 108, behind 0 packets: a block with contradicting lengths".into(),
        ),
        (
            "lengths that differ",
            broken(pcapng(false, &packets), 108 + 88, 99),
            "broken at byte 108, behind 0 packets: a block with contradicting lengths".into(),
        ),
        (
            "no byte order",
            broken(pcapng(false, &packets), 8, 9),
            "a section with an unknown byte order".into(),
        ),
    ] {
        let error = recording(file).expect_err(case).in_one_line();
        assert!(error.contains(&expected), "{case}: {error}");
    }
}

#[test]
fn truncated_end_is_reported_and_skipped() {
    let packets = some_packets()[..3].to_vec();
    for (file, last) in [(pcap(false, true, 1, &packets), 16 + 1514), (pcapng(true, &packets), 32 + 1516)] {
        let whole = file.len() - last;
        for cut in [1, 2, 500, last - 20, last - 9, last - 1] {
            let read = recording(file[..file.len() - cut].to_vec()).unwrap();
            assert_eq!(content(&read), since_first(&packets[..2]), "{cut}");
            let note = format!("the file ends within the packet at byte {whole}, which is skipped");
            assert_eq!(read.notes(), [note], "{cut}");
        }
    }
}

#[test]
fn backward_time_is_ignored() {
    let packets =
        [(5_000, frame(0, 60)), (9_000, frame(1, 60)), (1_000, frame(2, 60)), (9_500, frame(3, 60))];
    let times: Vec<_> = content(&recording(pcapng(false, &packets)).unwrap()).iter().map(|p| p.0).collect();
    assert_eq!(times, [0, 4_000, 4_000, 4_500]);
}

#[test]
fn packets_enter_when_due_and_wake_the_worker() {
    let packets: Vec<_> = (0..3).map(|i| (i * 1_000_000, frame(i as usize, 60))).collect();
    let mut bench = Bench::playing(&packets, Pace::default(), Repeat::default());
    assert_eq!(bench.frames(5_000_000), [packets[0].1.clone()]);
    assert!(bench.frames(5_999_999).is_empty());
    let queue = bench.engine.rx.get_mut(&0).unwrap();
    assert!(queue.enable_notification().unwrap(), "one nanosecond is not worth a sleep");
    assert_eq!(bench.frames(6_000_000), [packets[1].1.clone()]);
    let queue = bench.engine.rx.get_mut(&0).unwrap();
    assert!(!queue.enable_notification().unwrap());
    assert!(is_readable(queue.kick_fd().unwrap(), 60), "the timer wakes for the third");
    queue.disable_notification();
    assert!(!is_readable(queue.kick_fd().unwrap(), 0));
    assert_eq!(bench.frames(9_000_000), [packets[2].1.clone()], "late is better than never");
    assert!(bench.frames(u64::MAX).is_empty());
    assert!(
        !bench.engine.rx.get_mut(&0).unwrap().enable_notification().unwrap(),
        "an ended file may be slept on"
    );
}

#[test]
fn factor_scales_times_and_repeats_follow() {
    let packets: Vec<_> = (0..2).map(|i| (i * 1_000, frame(i as usize, 60))).collect();
    let mut bench = Bench::playing(&packets, Pace::Recorded(0.5), Repeat::Times(2));
    let came: Vec<_> = (0..10).map(|t| bench.frames(t * 1_000).len()).collect();
    assert_eq!(came, [1, 0, 1, 0, 1, 0, 1, 0, 0, 0]);
    assert!(bench.port.has_ended_for_tests());
}

#[test]
fn fast_pace_fills_bursts_and_endless_repeat_never_ends() {
    let packets: Vec<_> = (0..50).map(|i| (i * 1_000_000_000, frame(i as usize, 60))).collect();
    let mut bench = Bench::playing(&packets, Pace::Fast, Repeat::Forever);
    let entered: Vec<_> = (0..5).flat_map(|_| bench.frames(7)).collect();
    assert_eq!(entered.len(), 5 * BURST);
    assert!(entered.iter().enumerate().all(|(i, bytes)| *bytes == packets[i % 50].1));
    assert!(bench.engine.rx.get_mut(&0).unwrap().enable_notification().unwrap());
}

#[test]
fn frames_of_invalid_length_are_counted_and_others_enter() {
    let packets: Vec<_> = [13, 14, 65_550, 65_551].map(|len| (0, frame(len, len))).into();
    let mut bench = Bench::playing(&packets, Pace::Fast, Repeat::default());
    let (burst, stats) = bench.enter(1);
    assert_eq!((0..burst.len()).map(|i| burst.frame_len(i)).collect::<Vec<_>>(), [14, 65_550]);
    assert_eq!((stats.packets, stats.bytes), (4, 13 + 14 + 65_550 + 65_551));
    assert_eq!(stats.drops[DropReason::TooShort as usize], 1);
    assert_eq!(stats.drops[DropReason::TooLong as usize], 1);
}

#[test]
fn ended_playback_is_reported_and_the_port_stays() {
    let mut bench = Bench::playing(&some_packets(), Pace::Fast, Repeat::default());
    assert_eq!((bench.detail("playing"), bench.detail("read_packets")), ("on".into(), "4".into()));
    assert!(bench.port.deadline().is_some());
    bench.enter(1);
    assert!(is_readable(bench.port.poll_fd().unwrap(), 0), "control is notified of the end");
    bench.port.handle(bench.now, &mut bench.engine);
    assert_eq!((bench.detail("playing"), bench.detail("played")), ("ended".into(), "4".into()));
    assert_eq!((bench.port.status().state, bench.port.deadline()), (PortState::Connected, None));
    assert!(!is_readable(bench.port.poll_fd().unwrap(), 0), "an idle port costs nothing");
    bench.port.close(&mut bench.engine);
    assert_eq!(bench.port.status().state, PortState::Closed);
}

/// Plays `packets` and writes them to `path`; returns the file after the deadline, while the port runs.
fn copied(packets: &[Timed], path: &Path) -> Recording {
    let mut from = Bench::playing(packets, Pace::Recorded(1.0), Repeat::default());
    let mut to =
        Bench::new(Options { write: Some(Output::new(path)), name: "x".into(), ..Options::default() });
    let mut now = 1_000;
    while !from.port.has_ended_for_tests() {
        let (burst, _) = from.enter(now);
        now += 1_000_000;
        let stats = to.leave(&burst);
        assert_eq!((stats.packets, stats.lost), (burst.len() as u64, 0));
        let is_scheduled = to.port.deadline().is_some() || is_readable(to.port.poll_fd().unwrap(), 0);
        assert!(burst.is_empty() || is_scheduled, "control is notified or has a deadline");
        to.port.handle(to.now, &mut to.engine);
    }
    // The most recent packets were held back and are written by the next deadline.
    to.now = to.port.deadline().unwrap();
    to.port.handle(to.now, &mut to.engine);
    let read = Recording::read(path).unwrap();
    assert_eq!(to.detail("written"), packets.len().to_string());
    to.port.handle(to.now + Duration::from_secs(1), &mut to.engine);
    assert_eq!(to.port.deadline(), None, "an idle port costs nothing");
    to.port.close(&mut to.engine);
    assert_eq!(content(&Recording::read(path).unwrap()), content(&read));
    read
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_files_read_back_equal(
        lens in prop::collection::vec(prop_oneof![14_usize..200, 200_usize..3_000, 65_000_usize..=65_550], 1..90),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let packets: Vec<_> = lens.iter().enumerate()
            .map(|(i, len)| (i as u64 * 1_000_000, frame(i, *len)))
            .collect();
        prop_assert_eq!(content(&copied(&packets, &dir.path().join("x.pcapng"))), packets);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..2_000) {
        fuzz::fuzz_recording(&bytes);
        for mut file in [pcapng(false, &some_packets()[..3]), pcap(true, false, 1, &some_packets()[..3])] {
            let at = at.min(file.len());
            let end = (at + bytes.len().min(6)).min(file.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
            fuzz::fuzz_recording(&file);
        }
    }
}

#[test]
fn existing_file_is_overwritten_only_if_requested() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcapng");
    std::fs::write(&path, "dear").unwrap();
    let options =
        |overwrite| Options { write: Some(Output { path: path.clone(), overwrite }), ..Options::default() };
    let error = Pcap::new(options(false)).unwrap_err().in_one_line();
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"dear");
    Pcap::new(options(true)).unwrap();
    assert!(matches!(Recording::read(&path), Err(PcapError::Empty(_))), "a capture without packets");
}

#[test]
fn missing_directory_or_non_file_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    for (path, expected) in
        [("/dev/null".into(), "not a regular file"), (dir.path().join("a/b"), "cannot be written")]
    {
        let write = Some(Output { path, overwrite: true });
        let error = Pcap::new(Options { write, ..Options::default() }).unwrap_err().in_one_line();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn full_spool_is_a_full_queue() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcapng");
    let packets: Vec<_> = (0..64).map(|i| (0, frame(i, 65_550))).collect();
    let burst = Bench::playing(&packets, Pace::Fast, Repeat::default()).enter(1).0;
    let mut to = Bench::new(Options { write: Some(Output::new(&path)), ..Options::default() });
    let (first, second) = (to.leave(&burst), to.leave(&burst));
    assert!(first.packets == 63 && first.drops[DropReason::QueueFull as usize] == 1, "{first:?}");
    assert_eq!(second.drops[DropReason::QueueFull as usize], 64);
    to.port.handle(to.now, &mut to.engine);
    assert_eq!(to.leave(&burst).packets, 63, "the spool was emptied");
    to.port.close(&mut to.engine);
    assert_eq!(Recording::read(&path).unwrap().packets(), 126);
}
