//! A switch with two workers, and one packet's fate at a time.

use bridge::Switch;
use bridge::{BridgeConfig, MacMoves, PortConfig, Vlan};
use engine::{Context, Now, Pipeline, Pipelines, Verdicts};
use mem::copy::Portable;
use mem::{GuestMemory, Region};
use port::{Batch, Burst, DropReason, HEAD, PortId};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{MacAddress, VlanId};

pub(crate) const PORTS: usize = 16;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const BROADCAST: u64 = 0xffff_ffff_ffff;

/// What became of one burst.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// For each packet, the ports it left by and its bytes there.
    pub(crate) sent: Vec<BTreeMap<u16, Vec<u8>>>,
    /// Packets lost, by reason.
    pub(crate) lost: BTreeMap<&'static str, u64>,
}

pub(crate) struct Lab {
    pub(crate) switch: Switch,
    workers: Vec<Box<dyn Pipeline>>,
    burst: Burst,
    out: Verdicts,
    pub(crate) now: u64,
}

pub(crate) fn mac(station: u64) -> MacAddress {
    MacAddress::from_u64(if station == BROADCAST { BROADCAST } else { 0x5254_0000_0000 + station })
}

pub(crate) fn vlan(id: u16) -> VlanId {
    VlanId::new(id).expect("tests use real VLANs")
}

/// A frame of 60 bytes from station `source` to station `destination`, with four more where it is tagged.
pub(crate) fn frame(source: u64, destination: u64, tag: Option<u16>) -> Vec<u8> {
    raw_frame(mac(source), mac(destination), tag)
}

pub(crate) fn raw_frame(source: MacAddress, destination: MacAddress, tag: Option<u16>) -> Vec<u8> {
    let mut frame = [destination.octets(), source.octets()].concat();
    if let Some(tag) = tag {
        frame.extend([0x81, 0x00]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    frame.extend((0..46).map(|byte| byte ^ source.octets()[5]));
    frame
}

/// A reverse ARP in which `station` announces itself (RFC 903), as switches expect it after a migration.
pub(crate) fn rarp(station: u64) -> Vec<u8> {
    let own = mac(station).octets();
    let mut frame = [&[0xff; 6][..], &own, &[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]].concat();
    frame.extend([&own[..], &[0; 4], &own, &[0; 4]].concat());
    frame.resize(60, 0);
    frame
}

/// An ARP in which `station` announces an IPv4 address to all (RFC 5227).
pub(crate) fn gratuitous_arp(station: u64, ip: [u8; 4]) -> Vec<u8> {
    let own = mac(station).octets();
    let mut frame = [&[0xff; 6][..], &own, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend([&own[..], &ip, &[0; 6], &ip].concat());
    frame.resize(60, 0);
    frame
}

impl Lab {
    /// A bridge `br0` with these ports.
    pub(crate) fn with(ports: impl IntoIterator<Item = (u16, PortConfig)>) -> Self {
        Self::configured(BridgeConfig::default(), ports)
    }

    pub(crate) fn configured(
        config: BridgeConfig,
        ports: impl IntoIterator<Item = (u16, PortConfig)>,
    ) -> Self {
        let switch = Switch::new(PORTS);
        switch.add_bridge("br0", config).expect("a valid bridge");
        for (port, config) in ports {
            switch.add_port(PortId(port), "br0", &config).expect("a valid port");
        }
        let workers = (0..2).map(|index| switch.worker(index)).collect();
        Self { switch, workers, burst: Burst::new(), out: Verdicts::new(PORTS), now: 0 }
    }

    /// A bridge with transparent ports.
    pub(crate) fn plain(ports: u16) -> Self {
        Self::with((0..ports).map(|port| (port, PortConfig::default())))
    }

    /// The same, and stations move at once.
    pub(crate) fn free(ports: u16) -> Self {
        let config = BridgeConfig { mac_moves: MacMoves::Free, ..BridgeConfig::default() };
        Self::configured(config, (0..ports).map(|port| (port, PortConfig::default())))
    }

    /// Says that the last queue of a port has stopped.
    pub(crate) fn stop(&mut self, port: u16) {
        let mut observer = self.switch.observer().expect("a bridge follows its ports");
        observer.stopped(PortId(port), Now(self.now));
    }

    /// Sends a burst through worker 0.
    pub(crate) fn send(&mut self, from: u16, frames: &[Vec<u8>]) -> Fate {
        self.send_by(0, from, frames)
    }

    /// One frame's ports.
    pub(crate) fn ports(&mut self, from: u16, frame: Vec<u8>) -> Vec<u16> {
        let fate = self.send(from, &[frame]);
        fate.sent[0].keys().copied().collect()
    }

    /// One frame's reason of loss.
    pub(crate) fn loss(&mut self, from: u16, frame: Vec<u8>) -> Option<&'static str> {
        self.send(from, &[frame]).lost.into_keys().next()
    }

    pub(crate) fn send_by(&mut self, worker: usize, from: u16, frames: &[Vec<u8>]) -> Fate {
        self.process(worker, from, frames, false)
    }

    /// A frame that the switch makes on behalf of a port's front end.
    pub(crate) fn inject(&mut self, worker: usize, from: u16, frame: Vec<u8>) -> Fate {
        self.process(worker, from, &[frame], true)
    }

    fn process(&mut self, worker: usize, from: u16, frames: &[Vec<u8>], injected: bool) -> Fate {
        self.fill(frames);
        self.out.clear();
        let context = Context { injected, ..Context::received(PortId(from), Now(self.now)) };
        self.workers[worker].process(&mut self.burst, &context, &mut self.out);
        self.out.finish(frames.len());
        let mut fate = Fate { sent: vec![BTreeMap::new(); frames.len()], ..Fate::default() };
        for batch in self.out.batches() {
            self.deliver(batch, &mut fate);
        }
        for reason in DropReason::ALL {
            let n = self.out.dropped().map_or(0, |dropped| dropped.drops[reason as usize]);
            (n > 0).then(|| fate.lost.insert(reason.name(), n));
        }
        self.check_sums(&fate);
        fate
    }

    /// Frames of which one is longer than a private head lie in memory, as a guest's do.
    fn fill(&mut self, frames: &[Vec<u8>]) {
        self.burst.begin(0);
        if frames.iter().all(|frame| frame.len() <= HEAD) {
            assert!(frames.iter().all(|frame| self.burst.push_own(frame)), "the frames do not fit a burst");
            return;
        }
        let region = Arc::new(Region::of_bytes(frames.concat().into()).expect("memory for a burst"));
        self.burst.pin(&Arc::new(GuestMemory::new(vec![region.clone()]).expect("one region")));
        let mut at = 0;
        for frame in frames {
            let seg = region.seg(at, frame.len() as u32).expect("frames lie behind each other");
            assert!(self.burst.push_kept(seg));
            at += frame.len() as u64;
        }
        self.burst.load_heads::<Portable>();
    }

    fn deliver(&self, batch: &Batch, fate: &mut Fate) {
        let indices = batch.indices().as_slice();
        assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "packets keep their order: {indices:?}");
        let mut made = Burst::new();
        made.begin_from(&self.burst);
        for (place, &i) in indices.iter().enumerate() {
            let (edits, edit) = (self.out.edits(), batch.edit(place));
            made.push_edited(&self.burst, i.into(), edits, edit).expect("an edit fits its packet");
            let mut frame = vec![0; made.frame_len(place)];
            assert_eq!(made.frame(place).copy_to::<Portable>(&mut frame), frame.len());
            fate.sent[usize::from(i)].insert(batch.port().0, frame);
        }
    }

    /// Every packet is sent at least once or lost once, and the copies add up.
    fn check_sums(&self, fate: &Fate) {
        let copies: usize = fate.sent.iter().map(BTreeMap::len).sum();
        let forwarded = fate.sent.iter().filter(|ports| !ports.is_empty()).count();
        assert_eq!(
            self.out.dropped().map_or(0, |dropped| dropped.lost) as usize,
            fate.sent.len() - forwarded
        );
        assert_eq!(self.out.replicated() as usize, copies - forwarded);
    }
}

pub(crate) fn access(id: u16) -> PortConfig {
    PortConfig { vlan: Vlan::Access(vlan(id)), ..PortConfig::default() }
}

pub(crate) fn trunk(allowed: &str, native: Option<u16>) -> PortConfig {
    let allowed = allowed.parse().expect("a valid list");
    PortConfig { vlan: Vlan::Trunk { allowed, native: native.map(vlan) }, ..PortConfig::default() }
}
