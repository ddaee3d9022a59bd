//! Controllers that do not read, do not answer, or send what is not valid: raw sockets and `ovs-ofctl`.

use super::*;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// HELLO of OpenFlow 1.3.
const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

/// A removal of all flows, in OpenFlow 1.3.
fn delete_all() -> Vec<u8> {
    let mut message = vec![4, 14, 0, 56, 0, 0, 0, 2];
    message.extend([0; 16]);
    // Of every table; a deletion.
    message.extend([0xff, 3, 0, 0, 0, 0, 0, 0]);
    // No buffer; every port and group.
    message.extend([0xff; 12]);
    message.extend([0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0]);
    message
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_controller_that_does_not_read_ends_a_flood_of_packets() {
    let folder = folder();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let lab = Lab::start(folder.path(), &format!("controllers = [\"tcp:{address}\"]"));
    let (mut controller, _) = listener.accept().expect("the bridge connects");
    controller.write_all(&HELLO).unwrap();
    lab.wait_controller("connected", false);
    lab.ofctl("OpenFlow13", &["add-flow", BRIDGE, "in_port=1,actions=controller"]);
    lab.left.ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0");
    let socket = lab.left.enter(|| UdpSocket::bind("10.9.0.1:0").expect("the address of the namespace"));
    let is_over = Arc::new(AtomicBool::new(false));
    let flood = {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let _ = socket.send_to(&[0; 1400], "10.9.0.2:9");
                std::thread::sleep(Duration::from_micros(100));
            }
        })
    };
    let lost = wait::until(LIMIT, || {
        let discarded = lab.openflow()["controllers"][0]["discarded"].as_u64()?;
        (discarded > 0).then_some(())
    });
    controller.write_all(&delete_all()).unwrap();
    let flows = || lab.ofctl("OpenFlow13", &["dump-flows", BRIDGE]);
    let ended = wait::until(LIMIT, || (!flows().contains("CONTROLLER")).then_some(()));
    is_over.store(true, Ordering::Relaxed);
    flood.join().expect("the flood ends");
    assert!(lost.is_some(), "{}", lab.openflow());
    assert!(ended.is_some(), "{}\n{}", lab.openflow(), flows());
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn silent_connections_are_probed_and_give_way_to_others() {
    let folder = folder();
    let address = free_address();
    let (ip, port) = address.split_once(':').expect("an address with a port");
    let keys = format!("controllers = [\"ptcp:{port}:{ip}\"]\nprobe_interval = \"1s\"");
    let lab = Lab::start(folder.path(), &keys);
    let connect = || {
        let mut peer = TcpStream::connect(&address).expect("the bridge listens");
        peer.write_all(&HELLO).unwrap();
        peer.set_read_timeout(Some(LIMIT)).unwrap();
        peer
    };
    // As many as the bridge accepts at once.
    let mut silent: Vec<_> = (0..32).map(|_| connect()).collect();
    let shown = lab.ofctl("OpenFlow13", &["dump-flows", &format!("tcp:{address}")]);
    assert!(shown.contains("FLOW"), "{shown}");
    let mut received = Vec::new();
    silent[0].read_to_end(&mut received).expect("the bridge closes the connection");
    let header = |kind: u8| move |bytes: &[u8]| bytes[..4] == [4, kind, 0, 8];
    assert!(received.windows(8).any(header(2)), "echo requests: {received:02x?}");
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_bundle_with_an_invalid_packet_changes_nothing() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "");
    let file = folder.path().join("bundle");
    let path = file.display().to_string();
    let frame = "0200000000aa0200000000bb88b5".to_owned() + &"00".repeat(46);
    let bundle = |group: u32| {
        let packet = format!("packet-out in_port=controller packet={frame} actions=group:{group}");
        fs::write(
            &file,
            format!("flow add in_port=1,actions=2\ngroup add group_id=4,type=all,bucket=2\n{packet}\n"),
        )
        .unwrap();
        lab.attempt("OpenFlow14", &["bundle", BRIDGE, &path])
    };
    let refused = bundle(5).unwrap_err();
    assert!(refused.contains("OFPBAC_BAD_OUT_GROUP"), "{refused}");
    assert!(!lab.ofctl("OpenFlow14", &["dump-flows", BRIDGE]).contains("actions="));
    assert!(!lab.ofctl("OpenFlow14", &["dump-groups", BRIDGE]).contains("group_id=4"));
    let before = lab.switch.counters("right").tx_packets;
    bundle(4).unwrap_or_else(|error| panic!("{error}"));
    assert!(lab.ofctl("OpenFlow14", &["dump-flows", BRIDGE]).contains("actions=output:2"));
    let sent = wait::until(LIMIT, || (lab.switch.counters("right").tx_packets > before).then_some(()));
    assert!(sent.is_some(), "{}", lab.switch.port("right"));
    lab.switch.stop();
}
