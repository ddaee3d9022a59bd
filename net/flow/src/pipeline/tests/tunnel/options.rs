//! Options of Geneve between two switches.

use super::*;
use crate::options::OptionChange;
use crate::text::{NoNames, parse_flow, parse_option};
use crate::translate::ControllerOperation;

/// `tun_metadata0` (critical, 4 bytes) and `tun_metadata1` (8 bytes).
const OPTIONS: [&str; 2] =
    ["{class=0x102,type=0x80,len=4}->tun_metadata0", "{class=0x102,type=1,len=8}->tun_metadata1"];

fn bind(options: &[&str]) -> Modification {
    let options = options.iter().map(|text| parse_option(text).unwrap());
    Modification::Options(OptionChange::Add(options.collect()))
}

fn parsed(text: &str) -> Modification {
    Modification::Flow(Box::new(parse_flow(text, None, &NoNames).unwrap()))
}

/// Two sites with a Geneve tunnel and the same options.
fn with_options(is_v6: bool) -> [Site; 2] {
    let sites = connected(|site| to(Kind::Geneve, site, is_v6));
    for site in &sites {
        site.flows("br0", &[bind(&OPTIONS)]);
    }
    sites
}

/// Options of a Geneve packet over IPv4.
fn options(frame: &[u8]) -> &[u8] {
    let opened = open(Kind::Geneve, &frame[14..], frame.len() - 14).unwrap();
    &frame[14..][opened.options]
}

/// The packet with other options, of the same length.
fn with_raw(frame: &[u8], raw: &[u8]) -> Vec<u8> {
    let (mut frame, at) = (frame.to_vec(), 50);
    assert_eq!(options(&frame).len(), raw.len());
    frame[at..at + raw.len()].copy_from_slice(raw);
    frame
}

/// The drops of a packet that was received, and the ports that it was sent to.
fn fate(outcome: &Outcome) -> (Vec<&'static str>, Vec<u16>) {
    (outcome.drops.keys().copied().collect(), outcome.sent.keys().copied().collect())
}

#[test]
fn options_are_set_on_one_side_and_matched_on_the_other() {
    for is_v6 in [false, true] {
        let [mut here, mut there] = with_options(is_v6);
        here.flows(
            "br0",
            &[parsed(
                "priority=5,in_port=1,actions=set_field:0xabcd->tun_metadata0,set_field:7->tun_metadata1,3",
            )],
        );
        there.flows(
            "br0",
            &[parsed("priority=5,in_port=3,tun_metadata0=0xabcd,tun_metadata1=7/0xf,actions=2")],
        );
        let packet = udp(1, 2, (1, 2), 64);
        let [simple, general] =
            [here.send(GUEST, &packet), here.send_valid(GUEST, &packet)].map(|sent| only(&sent));
        let expected = [1, 2, 0x80, 1, 0, 0, 0xab, 0xcd, 1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!((options(&simple), options(&general)), (&expected[..], &expected[..]));
        for outcome in [there.send(UPLINK, &simple), there.send_valid(UPLINK, &simple)] {
            assert_eq!(fate(&outcome), (vec![], vec![OTHER]), "{outcome:?}");
            assert_eq!(outcome.sent[&OTHER][0], packet);
        }
    }
}

#[test]
fn an_absent_option_is_not_one_of_zeros_but_reads_as_0() {
    let [mut here, mut there] = with_options(false);
    there.flows(
        "br0",
        &[
            parsed("priority=5,in_port=3,tun_metadata0=0,actions=2"),
            parsed("priority=1,in_port=3,actions=move:tun_metadata0[0..7]->eth_src[0..7],1"),
        ],
    );
    let packet = udp(1, 2, (1, 2), 64);
    let plain = only(&here.send(GUEST, &packet));
    assert_eq!(options(&plain), []);
    let received = there.send(UPLINK, &plain);
    assert_eq!((fate(&received).1, received.sent[&GUEST][0][11]), (vec![GUEST], 0));
    here.flows("br0", &[parsed("priority=5,in_port=1,actions=set_field:0->tun_metadata0,3")]);
    let zero = only(&here.send(GUEST, &packet));
    assert_eq!(options(&zero), [1, 2, 0x80, 1, 0, 0, 0, 0]);
    assert_eq!(fate(&there.send(UPLINK, &zero)).1, [OTHER]);
    there.flows("br0", &[parsed("delete_strict priority=5,in_port=3,tun_metadata0=0")]);
    assert_eq!(there.send(UPLINK, &with_raw(&zero, &[1, 2, 0x80, 1, 0, 0, 0, 9])).sent[&GUEST][0][11], 9);
}

#[test]
fn options_that_do_not_fit_the_map_drop_the_packet() {
    let [mut here, mut there] = with_options(false);
    here.flows("br0", &[parsed("priority=5,in_port=1,actions=set_field:1->tun_metadata0,3")]);
    let sent = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    let ignored = with_raw(&sent, &[0, 9, 1, 1, 1, 1, 1, 1]);
    assert_eq!(fate(&there.send(UPLINK, &ignored)), (vec![], vec![GUEST]));
    for raw in [
        [0, 9, 0x81, 1, 1, 1, 1, 1],
        [1, 2, 1, 1, 0, 0, 0, 0],
        [1, 2, 0x80, 0, 0, 9, 1, 0],
        [0, 9, 1, 2, 0, 0, 0, 0],
    ] {
        for outcome in
            [there.send(UPLINK, &with_raw(&sent, &raw)), there.send_valid(UPLINK, &with_raw(&sent, &raw))]
        {
            assert_eq!(fate(&outcome), (vec!["tunnel-invalid"], vec![]), "{raw:?}");
        }
    }
    // Without a map, a critical option is not known.
    let free = Modification::Options(OptionChange::Clear);
    there.flows("br0", &[free]);
    assert_eq!(fate(&there.send(UPLINK, &sent)).0, ["tunnel-invalid"]);
    there.switch.set_standalone("br0", true).unwrap();
    assert_eq!(fate(&there.send(UPLINK, &sent)).0, ["tunnel-invalid"]);
}

#[test]
fn received_options_leave_by_another_tunnel_unless_they_are_deleted() {
    let [mut here, mut there] = with_options(false);
    here.flows("br0", &[parsed("priority=5,in_port=1,actions=set_field:0xab->tun_metadata0,3")]);
    let sent = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    let [back, without, changed] = [
        "priority=7,in_port=3,actions=in_port",
        "priority=8,in_port=3,actions=delete_field:tun_metadata0,in_port",
        "priority=9,in_port=3,actions=set_field:0x10/0xf0->tun_metadata0,set_field:2->tun_metadata1,in_port",
    ]
    .map(|text| {
        there.flows("br0", &[parsed(text)]);
        let outer = only(&there.send(UPLINK, &sent));
        options(&outer).to_vec()
    });
    assert_eq!((back, without), (vec![1, 2, 0x80, 1, 0, 0, 0, 0xab], vec![]));
    assert_eq!(changed, [1, 2, 0x80, 1, 0, 0, 0, 0x1b, 1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn options_outlast_connection_tracking() {
    let [mut here, mut there] = with_options(false);
    here.flows(
        "br0",
        &[parsed("priority=5,in_port=1,actions=set_field:0xab->tun_metadata0,set_field:3->tun_metadata1,3")],
    );
    let sent = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    there.flows(
        "br0",
        &[
            parsed("priority=5,in_port=3,ip,actions=set_field:4->tun_metadata1,ct(table=1)"),
            parsed("table=1,priority=2,ct_state=+trk,ip,tun_metadata0=0xab,tun_metadata1=4,actions=2"),
        ],
    );
    for _ in 0..3 {
        assert_eq!(fate(&there.send(UPLINK, &sent)), (vec![], vec![OTHER]));
    }
}

#[test]
fn packets_of_a_burst_with_equal_options_share_a_pass() {
    let [mut here, mut there] = with_options(false);
    here.flows("br0", &[parsed("priority=5,in_port=1,actions=set_field:0xab->tun_metadata0,3")]);
    there.flows("br0", &[parsed("priority=5,in_port=3,tun_metadata0=0xac,actions=2")]);
    let outer = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    let other = with_raw(&outer, &[1, 2, 0x80, 1, 0, 0, 0, 0xac]);
    let (mut burst, mut verdicts, mut punts) = (Burst::new(), Verdicts::new(16), Controllers::default());
    burst.begin(0);
    for frame in [&outer, &outer, &other, &outer] {
        assert!(burst.push_own(frame));
    }
    let before = SIMPLE.get();
    let context = Context::received(PortId(UPLINK), there.now);
    Passes::default().run(there.worker.as_mut(), &mut burst, &context, &mut verdicts, &mut punts);
    let sent = |port| {
        let batches = verdicts.batches().iter().filter(move |batch| batch.port() == PortId(port));
        batches.flat_map(|batch| batch.indices().as_slice()).copied().collect::<Vec<_>>()
    };
    assert_eq!((sent(GUEST), sent(OTHER)), (vec![0, 1, 3], vec![2]));
    assert_eq!(SIMPLE.get() - before, 4);
}

#[test]
fn bits_of_options_that_no_flow_reads_do_not_make_results() {
    let [mut here, mut there] = with_options(false);
    here.flows("br0", &[parsed("priority=5,in_port=1,actions=set_field:0xab->tun_metadata0,3")]);
    there.flows("br0", &[parsed("priority=5,in_port=3,tun_metadata0=0x0b/0x0f,actions=2")]);
    let outer = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    there.send(UPLINK, &outer);
    let (_, _, before) = there.counts();
    for n in 0..50 {
        let varying = with_raw(&outer, &[1, 2, 0x80, 1, 7, 7, n, 0xfb]);
        assert_eq!(fate(&there.send(UPLINK, &varying)).1, [OTHER]);
    }
    assert_eq!(there.counts().2, before);
}

#[test]
fn a_field_bound_to_another_option_renews_the_headers() {
    let [mut here, _] = with_options(false);
    let set = parsed("priority=5,in_port=1,actions=set_field:0xab->tun_metadata0,3");
    here.flows("br0", std::slice::from_ref(&set));
    let packet = udp(1, 2, (1, 2), 64);
    assert_eq!(options(&only(&here.send(GUEST, &packet)))[..4], [1, 2, 0x80, 1]);
    let again = bind(&["{class=0x304,type=9,len=8}->tun_metadata0"]);
    let delete = parsed("delete in_port=1");
    here.flows("br0", &[delete, Modification::Options(OptionChange::Delete(vec![0])), again, set]);
    let sent = only(&here.send(GUEST, &packet));
    assert_eq!(options(&sent), [3, 4, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0xab]);
    assert_eq!(sent[43] & 0x40, 0);
}

#[test]
fn options_beyond_the_longest_header_drop_the_packet() {
    for (is_v6, expected) in [(false, (vec![], vec![UPLINK])), (true, (vec!["tunnel-too-long"], vec![]))] {
        let sites = connected(|site| to(Kind::Geneve, site, is_v6));
        let [mut here, _] = sites;
        let all = (0..8)
            .map(|n| format!("{{class=1,type={n},len={}}}->tun_metadata{n}", if n < 2 { 8 } else { 4 }));
        let all: Vec<_> = all.collect();
        here.flows("br0", &[bind(&all.iter().map(String::as_str).collect::<Vec<_>>())]);
        let sets: Vec<_> = (0..8).map(|n| format!("set_field:{n}->tun_metadata{n}")).collect();
        here.flows("br0", &[parsed(&format!("priority=5,in_port=1,actions={},3", sets.join(",")))]);
        assert_eq!(fate(&here.send(GUEST, &udp(1, 2, (1, 2), 64))), expected, "{is_v6}");
    }
}

#[test]
fn other_tunnels_carry_no_options() {
    let [mut here, _] = connected(|site| to(Kind::Vxlan, site, false));
    let packet = udp(1, 2, (1, 2), 64);
    let before = only(&here.send(GUEST, &packet)).len();
    here.flows(
        "br0",
        &[bind(&OPTIONS), parsed("priority=5,in_port=1,actions=set_field:0xab->tun_metadata0,3")],
    );
    assert_eq!(only(&here.send(GUEST, &packet)).len(), before);
}

#[test]
fn a_packet_in_has_the_fields_of_the_tunnel() {
    let [mut here, mut there] = with_options(false);
    here.flows("br0", &[parsed("priority=5,in_port=1,actions=set_field:0->tun_metadata0,3")]);
    let sent = only(&here.send(GUEST, &udp(1, 2, (1, 2), 64)));
    there.flows("br0", &[parsed("priority=5,in_port=3,actions=controller")]);
    let context = Context::received(PortId(UPLINK), there.now);
    let (_, punted) = run_long(there.worker.as_mut(), &context, (&sent, Offload::NONE));
    let note = punted[0].note.as_ref().and_then(|note| note.downcast_ref::<ControllerOperation>());
    let found = note.unwrap().pipeline;
    assert_eq!((found.exact(Field::TunnelId), found.exact(Field::TunSrc)), (Some(7), Some(0xc000_0201)));
    assert!(found.has(Field::TunMetadata0) && !found.has(Field::TunMetadata1));
    there.flows(
        "br0",
        &[parsed(
            "priority=6,in_port=3,actions=delete_field:tun_metadata0,set_field:1->tun_metadata1,controller",
        )],
    );
    let (_, punted) = run_long(there.worker.as_mut(), &context, (&sent, Offload::NONE));
    let note = punted[0].note.as_ref().and_then(|note| note.downcast_ref::<ControllerOperation>());
    let found = note.unwrap().pipeline;
    assert!(!found.has(Field::TunMetadata0) && found.has(Field::TunMetadata1));
}
