//! Tunnels between two switches, whose underlays are connected.

mod options;

use super::*;
use crate::pipeline::tunnel_runs::SIMPLE;
use ::tunnel::{Interface, Key as TunnelKey, Kind, Tunnel, open};
use port::Offload;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, channel};
use wire::MacAddress;
use wire::checksum::Sum;

type Frame = (PortId, Box<[u8]>, u32);

/// Engine ports: two guests on the bridge `br0`, its tunnel, and the port of the bridge `under`.
const GUEST: u16 = 0;
const OTHER: u16 = 1;
const TUNNEL: u16 = 2;
const UPLINK: u16 = 3;

/// A switch, and the frames that control sends.
struct Site {
    switch: FlowSwitch,
    worker: Box<dyn Pipeline>,
    waiting: Receiver<Frame>,
    now: Now,
}

fn addresses(site: u8) -> [IpAddr; 2] {
    [format!("192.0.2.{site}").parse().unwrap(), format!("2001:db8::{site}").parse().unwrap()]
}

fn normal() -> Action {
    Action::Output { port: PortNo::NORMAL, max_len: 0 }
}

impl Site {
    /// Site 1 or 2; `tunnel` leads to the other one.
    fn new(site: u8, tunnel: Tunnel, learning: Arc<dyn Pipelines>) -> Self {
        let switch = FlowSwitch::new(learning);
        switch.add_bridge("br0").unwrap();
        switch.add_bridge("under").unwrap();
        for (port, bridge) in [(GUEST, "br0"), (OTHER, "br0"), (TUNNEL, "br0"), (UPLINK, "under")] {
            switch.add_port(PortId(port), bridge, None).unwrap();
        }
        switch.add_tunnel(PortId(TUNNEL), tunnel).unwrap();
        let (sender, waiting) = channel();
        switch.connect(move |port, frame, stage| sender.send((port, frame, stage)).is_ok());
        let worker = switch.worker(0);
        let own = addresses(site).map(|address| {
            let prefix = if address.is_ipv4() { 24 } else { 64 };
            format!("{address}/{prefix}").parse().unwrap()
        });
        let interface = Interface {
            network: 0,
            mac: MacAddress::new([2, 0, 0, 0, 1, site]),
            mtu: 1500,
            addresses: own.to_vec(),
            routes: Vec::new(),
        };
        let now = Now(1_000_000_000);
        let site = Self { switch, worker, waiting, now };
        site.flows("br0", &[flow(1, &by_port(1), vec![output(3)]), flow(1, &by_port(3), vec![output(1)])]);
        site.flows("under", &[flow(1, &Match::any(), vec![normal()])]);
        site.switch.set_underlay(vec![("under".to_owned(), interface)], [7; 16], now).unwrap();
        site
    }

    fn flows(&self, bridge: &str, changes: &[Modification]) {
        self.switch.modify(bridge, changes, self.now).unwrap();
    }

    /// Sends a frame to a port. Frames for the bridge itself reach control.
    fn send(&mut self, from: u16, frame: &[u8]) -> Outcome {
        let context = Context::received(PortId(from), self.now);
        self.run(&context, frame)
    }

    /// [`Site::send`] for a packet whose checksum is known to be valid, which takes the general path through a tunnel.
    fn send_valid(&mut self, from: u16, frame: &[u8]) -> Outcome {
        let context = Context::received(PortId(from), self.now);
        run_long(self.worker.as_mut(), &context, (frame, Offload::VALID)).0
    }

    fn run(&mut self, context: &Context, frame: &[u8]) -> Outcome {
        let (outcome, punted) = run_long(self.worker.as_mut(), context, (frame, Offload::NONE));
        let mut observer = self.switch.observer().unwrap();
        for packet in punted {
            observer.punted(packet);
        }
        outcome
    }

    /// Runs control, and returns the frames that it sends to the uplink.
    fn serve(&mut self) -> Vec<Vec<u8>> {
        self.now = Now(self.now.0 + 10_000_000);
        self.switch.serve_underlay(self.now);
        let mut sent = Vec::new();
        while let Ok((port, frame, stage)) = self.waiting.try_recv() {
            let context = Context { injected: true, stage, ..Context::received(port, self.now) };
            for (port, frames) in self.run(&context, &frame).sent {
                if port == UPLINK {
                    sent.extend(frames);
                }
            }
        }
        sent
    }

    fn counts(&mut self) -> (u64, u64, u64) {
        self.now = Now(self.now.0 + 1_000_000);
        self.worker.tick(self.now);
        let CacheCounts { head, megaflow, tables, .. } = self.switch.cache_counts("br0").unwrap();
        (head, megaflow, tables)
    }
}

/// Runs a frame of any length. Software offloads are completed, as an output without capabilities needs.
pub(super) fn run_long(
    worker: &mut dyn Pipeline,
    context: &Context,
    (frame, offload): (&[u8], Offload),
) -> (Outcome, Vec<Punted>) {
    let (mut burst, mut verdicts, mut punts) = (Burst::new(), Verdicts::new(16), Controllers::default());
    burst.begin(0);
    assert!(burst.push_lent(frame));
    if offload != Offload::NONE {
        burst.set_offload(0, offload);
    }
    Passes::default().run(worker, &mut burst, context, &mut verdicts, &mut punts);
    let mut outcome = Outcome::default();
    for batch in verdicts.batches() {
        for (place, &i) in batch.indices().as_slice().iter().enumerate() {
            let (mut made, mut finished) = (Burst::new(), Burst::new());
            made.begin_from(&burst);
            made.push_edited(&burst, i.into(), verdicts.edits(), batch.edit(place)).unwrap();
            let sent = outcome.sent.entry(batch.port().0).or_default();
            if made.offload(0).is_work() {
                let mut work = port::soft_offload::SoftGso::start(&made, 0).unwrap();
                assert!(work.fill(&made, 0, &mut finished));
                sent.push(bytes(&finished, 0));
            } else {
                sent.push(bytes(&made, 0));
            }
        }
    }
    for reason in DropReason::ALL {
        let n = verdicts.dropped().map_or(0, |dropped| dropped.drops[reason as usize]);
        (n > 0).then(|| outcome.drops.insert(reason.name(), n));
    }
    (outcome, punts.0)
}

fn bytes(burst: &Burst, i: usize) -> Vec<u8> {
    let mut bytes = vec![0; burst.frame_len(i)];
    burst.frame(i).copy_to::<mem::copy::Portable>(&mut bytes);
    bytes
}

/// Two sites that have resolved each other.
fn connected(tunnel: impl Fn(u8) -> Tunnel) -> [Site; 2] {
    connected_over(&(Arc::new(Normal) as Arc<dyn Pipelines>), tunnel)
}

fn connected_over(normal: &Arc<dyn Pipelines>, tunnel: impl Fn(u8) -> Tunnel) -> [Site; 2] {
    let site = |own, other| Site::new(own, tunnel(other), normal.clone());
    let mut sites = [(1, 2), (2, 1)].map(|(own, other)| site(own, other));
    for first in [0, 1] {
        let dropped = sites[first].send(GUEST, &udp(1, 2, (1, 2), 64));
        assert_eq!(dropped.drops["tunnel-unresolved"], 1);
        // The second one knows the first one from its request.
        for request in sites[first].serve() {
            sites[1 - first].send(UPLINK, &request);
        }
        for reply in sites[1 - first].serve() {
            sites[first].send(UPLINK, &reply);
        }
        sites[first].serve();
    }
    sites
}

fn to(kind: Kind, site: u8, is_v6: bool) -> Tunnel {
    let key = if kind.key_bits() == 0 { TunnelKey::None } else { TunnelKey::Fixed(7) };
    Tunnel { key, ..Tunnel::new(kind, Some(addresses(site)[usize::from(is_v6)])) }
}

/// The frame that a site sends to its uplink.
fn only(outcome: &Outcome) -> Vec<u8> {
    assert_eq!(outcome.sent.keys().copied().collect::<Vec<_>>(), [UPLINK], "{outcome:?}");
    outcome.sent[&UPLINK][0].clone()
}

/// A frame of `len` bytes, with a packet over IPv4 or IPv6.
fn frame(len: usize, is_v6: bool) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]].concat();
    if is_v6 {
        frame.extend([0x86, 0xdd]);
        let ends = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        frame.extend(wire::ipv6_header((len - 54) as u16, 59, 64, ends.0, ends.1));
    } else {
        frame.extend([8, 0, 0x45, 2]);
        frame.extend(((len - 14) as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 9, 99, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let header = Sum::of(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&header);
    }
    frame.extend((frame.len()..len).map(|at| at as u8));
    frame
}

#[test]
fn packets_leave_another_switch_as_they_came() {
    for (kind, is_v6) in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let [mut here, mut there] = connected(|site| to(kind, site, is_v6));
        for (len, inner_v6) in
            [(60, false), (60, true), (128, false), (200, true), (1000, false), (1400, true)]
        {
            let sent = frame(len, inner_v6);
            let outer = only(&here.send(GUEST, &sent));
            let opened = open(kind, &outer[14..], outer.len() - 14).unwrap();
            assert_eq!((opened.ttl, opened.tos & 3), (64, if inner_v6 { 0 } else { 2 }));
            let received = there.send(UPLINK, &outer);
            assert_eq!(received.sent.keys().copied().collect::<Vec<_>>(), [GUEST], "{kind} {received:?}");
            let received = &received.sent[&GUEST][0];
            if kind.is_ethernet() {
                assert_eq!(*received, sent, "{kind}");
            } else {
                assert_eq!((&received[..12], &received[12..]), (&[0; 12][..], &sent[12..]), "{kind}");
            }
        }
        here.counts();
        let report = &here.switch.tunnels()[0];
        let ethernet = if kind.is_ethernet() { 0 } else { 6 * 14 };
        assert_eq!((report.counts.tx_packets, report.counts.tx_bytes), (6, 2848 - ethernet));
        there.counts();
        assert_eq!(there.switch.tunnels()[0].counts.rx_packets, 6);
    }
}

/// A UDP packet of `len` bytes with a traffic class.
fn long_udp(len: usize, tos: u8) -> Vec<u8> {
    let mut frame = udp(1, 2, (1, 2), 64);
    frame.extend((frame.len()..len).map(|at| at as u8));
    frame[15] = tos;
    frame[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    frame[24..26].fill(0);
    let header = Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&header);
    frame
}

#[test]
fn simple_packets_pass_tunnels_as_all_others() {
    for (kind, is_v6) in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let [mut here, mut there] = connected(|site| to(kind, site, is_v6));
        let (mut packets, before) = (0, SIMPLE.get());
        for (len, tos) in [(60, 0), (60, 0x29), (100, 3), (128, 0xff), (129, 0), (1000, 0x88), (1400, 2)] {
            let packet = long_udp(len, tos);
            assert!(crate::translate::simple_flow(&packet, len).is_some());
            let [simple, general] =
                [here.send(GUEST, &packet), here.send_valid(GUEST, &packet)].map(|outcome| {
                    let mut frame = only(&outcome);
                    if !is_v6 {
                        // Identification, and the checksum of the header.
                        frame[18..20].fill(0);
                        frame[24..26].fill(0);
                    }
                    frame
                });
            let same_length = simple.len() == general.len();
            assert!(kind == Kind::Erspan && same_length || simple == general, "{kind} {len} {tos}");
            let outer = only(&here.send(GUEST, &packet));
            let received = [there.send(UPLINK, &outer), there.send_valid(UPLINK, &outer)];
            assert_eq!(received[0].sent, received[1].sent, "{kind} {len} {tos}");
            assert_eq!(received[0].sent.len(), 1, "{kind} {len} {tos}: {:?}", received[0]);
            packets += 3;
        }
        here.counts();
        there.counts();
        let (sent, received) = (here.switch.tunnels()[0].counts, there.switch.tunnels()[0].counts);
        assert_eq!((sent.tx_packets, received.rx_packets), (packets, packets * 2 / 3));
        // Two of three packets that enter, and one of two that leave, unless these are congested.
        let (enters, leaves) = match kind {
            Kind::Erspan | Kind::Ipip | Kind::Gtpu => (0, kind == Kind::Erspan),
            // The general path verifies checksums of UDP, which IPv6 always has.
            Kind::Vxlan | Kind::Geneve if is_v6 => (0, false),
            _ => (2 * 7, true),
        };
        assert_eq!(SIMPLE.get() - before, enters + if leaves { 5 } else { 0 }, "{kind} {is_v6}");
    }
}

#[test]
fn packets_of_a_burst_that_leave_a_tunnel_share_a_pass_unless_their_outer_headers_differ() {
    let [mut here, mut there] = connected(|site| to(Kind::Vxlan, site, false));
    let outer = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    let with_tos = |tos| {
        let mut other = outer.clone();
        other[15] = tos;
        other[24..26].fill(0);
        let header = Sum::of(&other[14..34]).finish();
        other[24..26].copy_from_slice(&header);
        other
    };
    // Congestion is the business of the general path, which drops a packet that cannot be marked.
    let (other, congested) = (with_tos(4), with_tos(3));
    // Flows of br0 match the traffic class of the outer header.
    let by_tos = by_port(3).with(Field::TunTos, 4);
    there.flows("br0", &[flow(7, &by_tos, vec![output(2)])]);
    let (mut burst, mut verdicts, mut punts) = (Burst::new(), Verdicts::new(16), Controllers::default());
    burst.begin(0);
    for frame in [&outer, &outer, &other, &congested, &outer] {
        assert!(burst.push_own(frame));
    }
    let context = Context::received(PortId(UPLINK), there.now);
    Passes::default().run(there.worker.as_mut(), &mut burst, &context, &mut verdicts, &mut punts);
    let sent = |port| {
        let batches = verdicts.batches().iter().filter(move |batch| batch.port() == PortId(port));
        batches.flat_map(|batch| batch.indices().as_slice()).copied().collect::<Vec<_>>()
    };
    assert_eq!((sent(GUEST), sent(OTHER)), (vec![0, 1, 4], vec![2]));
    assert_eq!(verdicts.dropped().unwrap().drops[DropReason::TunnelCongested as usize], 1);
}

#[test]
fn encapsulated_packet_costs_one_lookup() {
    let [mut here, _] = connected(|site| to(Kind::Vxlan, site, false));
    let packet = udp(1, 2, (1, 2), 64);
    here.send(GUEST, &packet);
    let before = here.counts();
    assert!(!only(&here.send(GUEST, &packet)).is_empty());
    let after = here.counts();
    assert_eq!((after.0 - before.0, after.1 - before.1, after.2 - before.2), (1, 0, 0));
    assert_eq!(here.switch.cache_counts("under").unwrap().head, 0);
    // The source port tells flows apart.
    let port = |frame: Vec<u8>| u16::from_be_bytes([frame[34], frame[35]]);
    let one = port(only(&here.send(GUEST, &packet)));
    let other = port(only(&here.send(GUEST, &udp(1, 2, (9, 2), 64))));
    assert!(one >= 49_152 && other >= 49_152 && one != other);
}

#[test]
fn flows_of_the_underlay_apply_to_outer_headers_and_change_cached_results() {
    let [mut here, mut there] = connected(|site| to(Kind::Vxlan, site, false));
    let packet = udp(1, 2, (1, 2), 64);
    let plain = only(&here.send(GUEST, &packet));
    let from_bridge = Match::any().with(Field::InPort, PortNo::LOCAL.0.into());
    let tagged = vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1000 | 5), output(1)];
    here.flows("under", &[flow(9, &from_bridge, tagged)]);
    let outer = only(&here.send(GUEST, &packet));
    assert_eq!((&outer[12..16], outer.len()), (&[0x81, 0, 0, 5][..], plain.len() + 4));
    // A flow on the source port needs a lookup for each packet.
    let port = u16::from_be_bytes([plain[34], plain[35]]);
    let selected =
        from_bridge.with(Field::EthType, 0x800).with(Field::IpProto, 17).with(Field::UdpSrc, port.into());
    here.flows("under", &[flow(10, &selected, vec![output(1)])]);
    assert_eq!(only(&here.send(GUEST, &packet))[12..14], [8, 0]);
    assert_eq!(only(&here.send(GUEST, &udp(1, 2, (9, 2), 64)))[12..14], [0x81, 0]);
    here.flows("under", &[flow(11, &from_bridge, vec![])]);
    assert_eq!(here.send(GUEST, &packet).drops["flow-drop"], 1);
    assert!(there.send(UPLINK, &plain).sent.contains_key(&GUEST));
}

#[test]
fn ports_and_groups_of_the_underlay_change_cached_results() {
    let [mut here, _] = connected(|site| to(Kind::Vxlan, site, false));
    let packet = udp(1, 2, (1, 2), 64);
    here.switch.add_port(PortId(4), "under", None).unwrap();
    let text = "group_id=1,type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_port:2,actions=output:2";
    let group = crate::text::parse_group(text, crate::GroupCommand::Add, &crate::text::NoNames).unwrap();
    let from_bridge = Match::any().with(Field::InPort, PortNo::LOCAL.0.into());
    here.flows("under", &[Modification::Group(group), flow(9, &from_bridge, vec![Action::Group(1)])]);
    let ports = |here: &mut Site| here.send(GUEST, &packet).sent.into_keys().collect::<Vec<_>>();
    assert_eq!(ports(&mut here), [UPLINK]);
    here.switch.set_live(PortId(UPLINK), false);
    assert_eq!(ports(&mut here), [4]);
    here.switch.set_live(PortId(UPLINK), true);
    assert_eq!(ports(&mut here), [UPLINK]);
    here.switch.remove_port(PortId(UPLINK));
    assert_eq!(ports(&mut here), [4]);
}

#[test]
fn flooding_of_a_tunnel_changes_cached_results() {
    let [mut here, _] = connected(|site| to(Kind::Vxlan, site, false));
    let packet = udp(1, 2, (1, 2), 64);
    let flood = Action::Output { port: PortNo::FLOOD, max_len: 0 };
    here.flows("br0", &[flow(9, &by_port(1), vec![flood])]);
    let ports = |here: &mut Site| here.send(GUEST, &packet).sent.into_keys().collect::<Vec<_>>();
    assert_eq!(ports(&mut here), [OTHER, UPLINK]);
    here.switch.configure_port(PortId(TUNNEL), SILENT);
    assert_eq!(ports(&mut here), [OTHER]);
    here.switch.configure_port(PortId(TUNNEL), PortConfig::default());
    assert_eq!(ports(&mut here), [OTHER, UPLINK]);
    here.switch.set_reserved(PortId(TUNNEL), true);
    assert_eq!(ports(&mut here), [OTHER]);
}

#[test]
fn flows_choose_the_remote_end_and_see_the_key() {
    let any = |_| Tunnel { key: TunnelKey::Flow, ..Tunnel::new(Kind::Geneve, None) };
    let choose = |site: u8| {
        let IpAddr::V4(remote) = addresses(site)[0] else { unreachable!() };
        vec![set(Field::TunDst, remote.to_bits().into()), set(Field::TunnelId, 0x0042), output(3)]
    };
    let mut sites = [1, 2].map(|site| Site::new(site, any(site), Arc::new(Normal)));
    sites[0].flows("br0", &[flow(1, &by_port(1), choose(2))]);
    let source = addresses(1)[0];
    let IpAddr::V4(source) = source else { unreachable!() };
    let selected = Match::any().with(Field::TunnelId, 0x42).with(Field::TunSrc, source.to_bits().into());
    sites[1].flows("br0", &[flow(9, &selected, vec![output(2)]), flow(1, &by_port(3), vec![])]);
    let packet = udp(1, 2, (1, 2), 64);
    assert_eq!(sites[0].send(GUEST, &packet).drops["tunnel-unresolved"], 1);
    for request in sites[0].serve() {
        sites[1].send(UPLINK, &request);
    }
    for reply in sites[1].serve() {
        sites[0].send(UPLINK, &reply);
    }
    sites[0].serve();
    let outer = only(&sites[0].send(GUEST, &packet));
    assert_eq!(open(Kind::Geneve, &outer[14..], outer.len() - 14).unwrap().key, Some(0x42));
    assert_eq!(sites[1].send(UPLINK, &outer).sent[&OTHER], [packet]);
}

#[test]
fn hostile_packets_are_dropped_under_their_reasons() {
    let [mut here, mut there] = connected(|site| to(Kind::Vxlan, site, false));
    let outer = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    let mut drop = |at: usize, byte: u8| {
        let mut changed = outer.clone();
        changed[at] = byte;
        if at < 34 {
            changed[24..26].fill(0);
            let sum = Sum::of(&changed[14..34]).finish();
            changed[24..26].copy_from_slice(&sum);
        }
        let outcome = there.send(UPLINK, &changed);
        assert!(outcome.sent.is_empty(), "{outcome:?}");
        outcome.drops.into_keys().next().unwrap_or("")
    };
    assert_eq!(drop(42, 0), "tunnel-invalid", "the flag of the VNI is missing");
    assert_eq!(drop(38, 0xff), "tunnel-invalid", "the length exceeds the packet");
    assert_eq!(drop(40, 0x12), "tunnel-invalid", "the checksum is wrong");
    assert_eq!(drop(48, 8), "tunnel-unknown", "another VNI");
    assert_eq!(drop(29, 9), "tunnel-unknown", "another sender");
    assert_eq!(drop(15, 3), "tunnel-congested", "congestion that the payload cannot carry");
}

#[test]
fn congestion_is_passed_on() {
    let [mut here, mut there] = connected(|site| to(Kind::Vxlan, site, false));
    let packet = frame(100, false);
    let mut outer = only(&here.send(GUEST, &packet));
    outer[15] |= 3;
    outer[24..26].fill(0);
    let sum = Sum::of(&outer[14..34]).finish();
    outer[24..26].copy_from_slice(&sum);
    let received = &there.send(UPLINK, &outer).sent[&GUEST][0];
    assert_eq!((received[15], Sum::of(&received[14..34]).finish()), (3, [0, 0]));
}

#[test]
fn packet_that_does_not_fit_is_answered() {
    let [mut here, _] = connected(|site| to(Kind::Vxlan, site, false));
    assert!(here.send(GUEST, &frame(1464, false)).sent.contains_key(&UPLINK));
    let outcome = here.send(GUEST, &frame(1465, false));
    assert_eq!(outcome.drops["tunnel-too-long"], 1);
    let mut answers = Vec::new();
    here.now = Now(here.now.0 + 10_000_000);
    here.switch.serve_underlay(here.now);
    while let Ok((port, frame, stage)) = here.waiting.try_recv() {
        let context = Context { injected: true, stage, ..Context::received(port, here.now) };
        answers.extend(here.run(&context, &frame).sent);
    }
    let [(GUEST, frames)] = &answers[..] else { panic!("{answers:?}") };
    let error = &frames[0];
    assert_eq!(
        (&error[..6], &error[34..36], &error[40..42]),
        (&[2, 0, 0, 0, 0, 1][..], &[3, 4][..], &1450_u16.to_be_bytes()[..])
    );
}

#[test]
fn tunnels_of_a_learning_bridge_get_packets() {
    /// Floods to the other ports of `br0`.
    struct Flood;

    impl Pipelines for Flood {
        fn worker(&self, _: usize) -> Box<dyn Pipeline> {
            Box::new(Flood)
        }
    }

    impl Pipeline for Flood {
        fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
            if context.from == PortId(UPLINK) {
                return ToNine.process(burst, context, verdicts);
            }
            let ports = [GUEST, OTHER, TUNNEL].into_iter().map(PortId);
            verdicts.flood(0..burst.len(), ports.filter(|port| *port != context.from));
        }
    }

    let [mut here, mut there] =
        connected_over(&(Arc::new(Flood) as Arc<dyn Pipelines>), |site| to(Kind::Vxlan, site, false));
    let packet = udp(1, 2, (1, 2), 64);
    here.flows("br0", &[flow(9, &Match::any(), vec![normal()])]);
    let sent = here.send(GUEST, &packet).sent;
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [OTHER, UPLINK]);
    assert_eq!(there.send(UPLINK, &sent[&UPLINK][0]).sent[&GUEST], [packet]);
}
