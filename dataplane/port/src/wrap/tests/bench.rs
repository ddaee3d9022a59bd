//! A wrapped pcap port, frames, and the captures that it writes.

use super::*;

/// Engine pair number of the release queue.
pub(super) const RELEASE_PAIR: u16 = 0x8000;
pub(super) const MS: u64 = 1_000_000;

/// A wrapped pcap port, with the queues that the engine would hold.
pub(super) struct Bench {
    pub(super) dir: tempfile::TempDir,
    pub(super) port: Box<dyn PortControl>,
    pub(super) engine: FakeEngine,
    /// Bursts not completed yet, at most two, as in a worker.
    pub(super) flying: VecDeque<Burst>,
    pub(super) received: BurstStats,
    pub(super) sent: BurstStats,
    pub(super) left_out: u64,
}

pub(super) fn frame(i: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![i as u8; len];
    bytes[..8].copy_from_slice(&(i as u64).to_be_bytes());
    bytes
}

/// Number at the start of a frame.
pub(super) fn number(bytes: &[u8]) -> usize {
    usize::from_be_bytes(*bytes.first_chunk().unwrap())
}

/// A capture file with these frames, one microsecond apart.
pub(super) fn file(path: &Path, frames: &[Vec<u8>]) -> Recording {
    let mut bytes = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 0, 1].map(u32::to_le_bytes).concat();
    for (i, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        bytes.extend([0, i as u32 * 1_000, len, len].map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
    Recording::read(path).unwrap()
}

impl Bench {
    /// A port that plays `frames` at full speed, and writes sent packets.
    pub(super) fn new(frames: &[Vec<u8>], wrappers: impl FnOnce(&Path) -> Wrappers) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let playing = Playback::new(file(&dir.path().join("in.pcap"), frames));
        let read = Some(Playback { pace: Pace::Fast, repeat: Repeat::Times(1), ..playing });
        let write = Some(Output::new(dir.path().join("out.pcapng")));
        let inner = Pcap::new(Options { name: "files".into(), read, write }).unwrap();
        let wrappers = wrappers(dir.path());
        let port = wrap(Box::new(inner), "red", &wrappers).unwrap();
        let (received, sent) = <(BurstStats, BurstStats)>::default();
        let engine = FakeEngine::default();
        let mut bench = Self { dir, port, engine, flying: VecDeque::new(), received, sent, left_out: 0 };
        bench.port.handle(Instant::now(), &mut bench.engine);
        bench
    }

    pub(super) fn faulty(frames: &[Vec<u8>], faults: Faults) -> Self {
        Self::new(frames, |_| Wrappers { fault: Some(faults), ..Wrappers::default() })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn rx(&mut self) -> &mut dyn RxQueue {
        self.engine.rx.get_mut(&0).unwrap().as_mut()
    }

    pub(super) fn tx(&mut self) -> &mut dyn TxQueue {
        self.engine.tx.get_mut(&0).unwrap().as_mut()
    }

    pub(super) fn release(&mut self) -> &mut dyn RxQueue {
        self.engine.rx.get_mut(&RELEASE_PAIR).unwrap().as_mut()
    }

    /// Frames received by one poll at `now`; completes the burst before the last one.
    pub(super) fn poll(&mut self, now: u64) -> Vec<Vec<u8>> {
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        burst.set_now(Now(now));
        self.rx().rx(&mut burst, &mut stats).unwrap();
        add(&mut self.received, &stats);
        burst.load_heads::<Portable>();
        let frames = (0..burst.len()).map(|i| whole(&burst, i)).collect();
        if !burst.is_untouched() {
            self.flying.push_back(burst);
        }
        if self.flying.len() > 2 {
            self.complete();
        }
        frames
    }

    pub(super) fn complete(&mut self) {
        if let Some(burst) = self.flying.pop_front() {
            self.rx().complete(burst.buf_ids());
        }
    }

    /// Polls at `now` until two polls return nothing.
    pub(super) fn drain(&mut self, now: u64) -> Vec<Vec<u8>> {
        let (mut frames, mut empty) = (Vec::new(), 0);
        while empty < 2 {
            let came = self.poll(now);
            empty = if came.is_empty() { empty + 1 } else { 0 };
            frames.extend(came);
            if empty > 0 {
                self.complete();
            }
        }
        frames
    }

    /// Sends frames at `now`, burst by burst.
    pub(super) fn send(&mut self, now: u64, frames: &[Vec<u8>]) {
        for (round, some) in (0..).zip(frames.chunks(crate::BURST)) {
            let dir = tempfile::tempdir().unwrap();
            let playing = Playback::new(file(&dir.path().join("x"), some));
            let read = Some(Playback { pace: Pace::Fast, ..playing });
            let mut source = Pcap::new(Options { read, ..Options::default() }).unwrap();
            let mut engine = FakeEngine::default();
            source.handle(Instant::now(), &mut engine);
            let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
            burst.begin(0);
            burst.set_now(Now(now + round));
            engine.rx.get_mut(&0).unwrap().rx(&mut burst, &mut stats).unwrap();
            burst.load_heads::<Portable>();
            let indices: Vec<u8> = (0..burst.len() as u8).collect();
            let mut stats = BurstStats::default();
            let done = self.tx().tx(&burst, &indices, &mut stats).unwrap();
            self.left_out += (indices.len() - done) as u64;
            add(&mut self.sent, &stats);
        }
    }

    /// Sends delayed packets that are due at `now`.
    pub(super) fn let_go(&mut self, now: u64) {
        for _ in 0..100 {
            let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
            burst.begin(0);
            burst.set_now(Now(now));
            self.release().rx(&mut burst, &mut stats).unwrap();
            assert!(burst.is_untouched() && stats == BurstStats::default(), "it brings no packets");
        }
    }

    /// Closes the port, which completes its files.
    pub(super) fn close(&mut self) {
        self.port.close(&mut self.engine);
        assert!(self.engine.rx.is_empty() && self.engine.tx.is_empty());
    }

    /// Frames in the output file.
    pub(super) fn outside(&self) -> Vec<Vec<u8>> {
        packets(&self.path("out.pcapng")).into_iter().map(|packet| packet.bytes).collect()
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        let details = self.port.details();
        details.iter().find(|(known, _)| known.name() == name).map_or(0, |(_, n)| n.parse().unwrap())
    }
}

pub(super) fn add(total: &mut BurstStats, stats: &BurstStats) {
    total.packets += stats.packets;
    total.bytes += stats.bytes;
    total.drops.iter_mut().zip(stats.drops).for_each(|(total, n)| *total += n);
}

pub(super) fn whole(burst: &Burst, i: usize) -> Vec<u8> {
    let mut bytes = vec![0; burst.frame_len(i)];
    burst.frame(i).copy_to::<Portable>(&mut bytes);
    bytes
}

/// A packet of a capture file, read with an independent parser.
pub(in crate::wrap) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) whole: u32,
    pub(super) time: u64,
    pub(super) flags: u32,
    pub(super) comment: Option<String>,
}

pub(in crate::wrap) fn packets(path: &Path) -> Vec<Packet> {
    let bytes = std::fs::read(path).unwrap();
    let (mut rest, mut packets) = (&bytes[..], Vec::new());
    while let Ok((behind, block)) = pcap_parser::parse_block_le(rest) {
        if let Block::EnhancedPacket(block) = block {
            let option = |code| {
                block.options.iter().find(|o| o.code == OptionCode(code)).map(|o| &o.value[..o.len as usize])
            };
            packets.push(Packet {
                bytes: block.data[..block.caplen as usize].to_vec(),
                whole: block.origlen,
                time: u64::from(block.ts_high) << 32 | u64::from(block.ts_low),
                flags: option(2).map_or(0, |o| u32::from_le_bytes(o.try_into().unwrap())),
                comment: option(1).map(|o| String::from_utf8(o.to_vec()).unwrap()),
            });
        }
        rest = behind;
    }
    assert!(rest.is_empty(), "the file is whole");
    packets
}

pub(super) fn frames(n: usize, len: usize) -> Vec<Vec<u8>> {
    (0..n).map(|i| frame(i, len)).collect()
}

/// Number of differing bits.
pub(super) fn difference(one: &[u8], other: &[u8]) -> u32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum()
}

pub(super) fn is_readable(queue: &dyn RxQueue, seconds: i64) -> bool {
    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(queue.kick_fd().unwrap(), PollFlags::IN)], Some(&limit)).unwrap() == 1
}
