//! A switch with two workers; bursts are processed one at a time.

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

/// Outcome of one burst.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BurstOutcome {
    /// Output ports of each packet, with its bytes at each.
    pub(crate) sent: Vec<BTreeMap<u16, Vec<u8>>>,
    /// Lost packets by reason.
    pub(crate) lost: BTreeMap<&'static str, u64>,
}

pub(crate) struct Lab {
    pub(crate) switch: Arc<Switch>,
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

/// A frame of 60 bytes, 64 if tagged, from station `source` to station `destination`.
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

/// A RARP frame in which `station` announces itself (RFC 903), as sent after a migration.
pub(crate) fn rarp(station: u64) -> Vec<u8> {
    let own = mac(station).octets();
    let mut frame = [&[0xff; 6][..], &own, &[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]].concat();
    frame.extend([&own[..], &[0; 4], &own, &[0; 4]].concat());
    frame.resize(60, 0);
    frame
}

/// A gratuitous ARP in which `station` announces an IPv4 address (RFC 5227).
pub(crate) fn gratuitous_arp(station: u64, ip: [u8; 4]) -> Vec<u8> {
    let own = mac(station).octets();
    let mut frame = [&[0xff; 6][..], &own, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend([&own[..], &ip, &[0; 6], &ip].concat());
    frame.resize(60, 0);
    frame
}

impl Lab {
    /// A lab with bridge `br0` and these ports.
    pub(crate) fn with(ports: impl IntoIterator<Item = (u16, PortConfig)>) -> Self {
        Self::configured(BridgeConfig::default(), ports)
    }

    pub(crate) fn configured(
        config: BridgeConfig,
        ports: impl IntoIterator<Item = (u16, PortConfig)>,
    ) -> Self {
        let switch = Arc::new(Switch::new(PORTS));
        switch.add_bridge("br0", config).expect("a valid bridge");
        for (port, config) in ports {
            switch.add_port(PortId(port), "br0", &config).expect("a valid port");
        }
        let pipelines = switch.wrap(switch.clone());
        let workers = (0..2).map(|index| pipelines.worker(index)).collect();
        Self { switch, workers, burst: Burst::new(), out: Verdicts::new(PORTS), now: 0 }
    }

    /// A bridge with transparent ports.
    pub(crate) fn plain(ports: u16) -> Self {
        Self::with((0..ports).map(|port| (port, PortConfig::default())))
    }

    /// [`Lab::plain`] with unrestricted moves.
    pub(crate) fn free(ports: u16) -> Self {
        let config = BridgeConfig { mac_moves: MacMoves::Free, ..BridgeConfig::default() };
        Self::configured(config, (0..ports).map(|port| (port, PortConfig::default())))
    }

    /// Reports that the last queue of a port has stopped.
    pub(crate) fn stop(&mut self, port: u16) {
        let mut observer = self.switch.observer().expect("a bridge follows its ports");
        observer.stopped(PortId(port), Now(self.now));
    }

    /// Reports whether the link of a port is up.
    pub(crate) fn set_link(&mut self, port: u16, is_up: bool) {
        let mut observer = self.switch.observer().expect("a bridge follows its ports");
        observer.changed(PortId(port), is_up, Now(self.now));
    }

    /// Passes a frame that was punted on a port to the bridge.
    pub(crate) fn punt(&mut self, port: u16, frame: &[u8]) {
        let mut observer = self.switch.observer().expect("a bridge follows its ports");
        let context = Context::received(PortId(port), Now(self.now));
        let reason = port::PuntReason::Protocol;
        observer.punted(port::Punted { context, reason, note: None, frame: frame.into() });
    }

    /// Sends a burst through worker 0.
    pub(crate) fn send(&mut self, from: u16, frames: &[Vec<u8>]) -> BurstOutcome {
        self.send_by(0, from, frames)
    }

    /// Output ports of one frame.
    pub(crate) fn ports(&mut self, from: u16, frame: Vec<u8>) -> Vec<u16> {
        let fate = self.send(from, &[frame]);
        fate.sent[0].keys().copied().collect()
    }

    /// Drop reason of one frame.
    pub(crate) fn loss(&mut self, from: u16, frame: Vec<u8>) -> Option<&'static str> {
        self.send(from, &[frame]).lost.into_keys().next()
    }

    pub(crate) fn send_by(&mut self, worker: usize, from: u16, frames: &[Vec<u8>]) -> BurstOutcome {
        self.process(worker, from, frames, false)
    }

    /// Processes a frame generated by the switch on behalf of a port's front end.
    pub(crate) fn inject(&mut self, worker: usize, from: u16, frame: Vec<u8>) -> BurstOutcome {
        self.process(worker, from, &[frame], true)
    }

    /// Output ports of a frame that control sends on a port.
    pub(crate) fn transmit(&mut self, port: u16, frame: Vec<u8>) -> Vec<u16> {
        let context = Context { injected: true, stage: Context::TRANSMIT, ..self.context(port) };
        let fate = self.process_in(0, &[frame], &context);
        fate.sent[0].keys().copied().collect()
    }

    fn context(&self, from: u16) -> Context {
        Context::received(PortId(from), Now(self.now))
    }

    fn process(&mut self, worker: usize, from: u16, frames: &[Vec<u8>], injected: bool) -> BurstOutcome {
        let context = Context { injected, ..self.context(from) };
        self.process_in(worker, frames, &context)
    }

    fn process_in(&mut self, worker: usize, frames: &[Vec<u8>], context: &Context) -> BurstOutcome {
        self.fill(frames);
        self.out.clear();
        self.workers[worker].process(&mut self.burst, context, &mut self.out);
        self.out.finish(frames.len());
        let mut fate = BurstOutcome { sent: vec![BTreeMap::new(); frames.len()], ..BurstOutcome::default() };
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

    /// Puts frames longer than a private head into shared memory, like a guest's.
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

    fn deliver(&self, batch: &Batch, fate: &mut BurstOutcome) {
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

    /// Number of packets of the last burst that were punted.
    pub(crate) fn punted(&self) -> u64 {
        self.out.punted()
    }

    /// Whether the last burst's first packet is marked as flooded.
    pub(crate) fn is_flooded(&self) -> bool {
        self.out.flooded().contains(0)
    }

    /// Checks that each packet is sent at least once or lost once, that the copies add up, and that packets with
    /// several outputs are marked as flooded.
    fn check_sums(&self, fate: &BurstOutcome) {
        if !self.switch.mirrors("br0").expect("the bridge is there").is_empty() {
            let sent: usize = fate.sent.iter().map(BTreeMap::len).sum();
            let lost = self.out.dropped().map_or(0, |dropped| dropped.lost) as usize;
            return assert_eq!(fate.sent.len() + self.out.replicated() as usize, sent + lost);
        }
        for (i, ports) in (0..).zip(&fate.sent) {
            assert!(ports.len() < 2 || self.out.flooded().contains(i), "packet {i}: {ports:?}");
        }
        let copies: usize = fate.sent.iter().map(BTreeMap::len).sum();
        let forwarded = fate.sent.iter().filter(|ports| !ports.is_empty()).count();
        let dropped = self.out.dropped().map_or(0, |dropped| dropped.lost);
        let lost = dropped + self.out.punted();
        let entered = fate.sent.len() as u64 + self.out.replicated();
        assert_eq!(entered, copies as u64 + lost);
        // A copy to a bond can be lost alone, and membership messages are forwarded and punted.
        let rest = fate.sent.len() - forwarded;
        if !fate.lost.contains_key("bond-down") {
            assert!(dropped as usize <= rest && lost as usize >= rest);
        }
    }
}

pub(crate) fn access(id: u16) -> PortConfig {
    PortConfig { vlan: Vlan::Access(vlan(id)), ..PortConfig::default() }
}

pub(crate) fn trunk(allowed: &str, native: Option<u16>) -> PortConfig {
    let allowed = allowed.parse().expect("a valid list");
    PortConfig { vlan: Vlan::Trunk { allowed, native: native.map(vlan) }, ..PortConfig::default() }
}
