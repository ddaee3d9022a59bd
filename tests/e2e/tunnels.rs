//! Tunnels: through the kernel's VXLAN device, and between two switches with every protocol.

mod options;

use std::path::Path;
use std::time::Duration;

use linerate_tests::capture::{assert_none, fields};
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, need, tcp, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
/// Bytes of an exchange: enough for packets of 64 KiB that are segmented.
const BYTES: usize = 4 << 20;
/// MTU of a guest behind VXLAN over IPv6, which has the longest outer headers.
const MTU: u32 = 1430;

fn tap(name: &str, bridge: &str, netns: &Netns) -> String {
    let netns = netns.name();
    format!(
        "[[port]]\nname = \"{name}\"\nbridge = \"{bridge}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n"
    )
}

/// Two OpenFlow bridges that forward as learning bridges: of the guests, and of the underlay with addresses of `site`.
fn bridges(site: u8) -> String {
    let bridge = |name: &str| {
        format!(
            "[[bridge]]\nname = \"{name}\"\npipeline = \"openflow\"\n[[flow]]\nbridge = \"{name}\"\nflow = \"priority=1,actions=NORMAL\"\n"
        )
    };
    format!(
        "{}{}[[underlay]]\nbridge = \"under\"\nmac = \"02:00:00:00:01:0{site}\"\naddresses = [\"192.0.2.{site}/24\", \"2001:db8::{site}/64\"]\n",
        bridge("guests"),
        bridge("under")
    )
}

fn tunnel(lines: &str) -> String {
    format!("[[port]]\nname = \"tunnel\"\nbridge = \"guests\"\nkind = \"tunnel\"\n{lines}\n")
}

/// The tunnel of a switch.
fn shown(switch: &Switch) -> Value {
    switch.ask(&["tunnels", "show"]).expect("the switch runs")[0].clone()
}

/// Whether the kernel has a kind of interface.
fn has_kind(netns: &Netns, kind: &str, options: &str) {
    let words = format!("link add probe0 type {kind} {options}");
    let words: Vec<&str> = words.split(' ').collect();
    if netns.attempt("ip", &words).is_err() {
        need::skip(format_args!("the kernel has no {kind}"));
    }
    netns.ip("link del probe0");
}

/// Exchanges packets and streams in both directions.
fn exchange(one: &Netns, other: &Netns, mtu: u32) {
    one.ping("10.9.0.2", 3, &[]);
    other.ping("10.9.0.1", 3, &["-s", &(mtu - 28).to_string(), "-M", "do"]);
    one.ping("10.9.0.2", 1, &["-s", "4000"]);
    for (netns, port) in [(one, PORT), (other, PORT)] {
        tcp::listen(netns, port, tcp::echo);
    }
    for seed in 0..2 {
        one.enter(move || tcp::exchange("10.9.0.2", PORT, (seed, BYTES), LIMIT));
        other.enter(move || tcp::exchange("10.9.0.1", PORT, (seed, BYTES), LIMIT));
    }
}

/// A guest behind a tunnel to the VXLAN device of a namespace; `options` are those of the device.
fn through_the_kernel(remote: &str, local: &str, lines: &str, options: &str) {
    let (folder, guest, peer) = (folder(), Netns::new(), Netns::new());
    has_kind(&peer, "vxlan", "id 9 dstport 4789");
    let text = [
        bridges(1),
        tap("guest", "guests", &guest),
        tunnel(&format!("protocol = \"vxlan\"\nremote = \"{remote}\"\nkey = 7\n{lines}")),
        tap("uplink", "under", &peer),
    ];
    let switch = Switch::start_from(folder.path(), &text.concat());
    peer.wait_link("eth0", true, LIMIT);
    guest.wait_link("eth0", true, LIMIT);
    peer.configure("eth0", &["192.0.2.2/24", "2001:db8::2/64"]);
    guest.configure("eth0", &["10.9.0.1/24"]);
    guest.set_mtu("eth0", MTU);
    peer.ip(&format!(
        "link add vx0 type vxlan id 7 local {remote} remote {local} dstport 4789 dev eth0 {options}"
    ));
    peer.configure("vx0", &["10.9.0.2/24"]);
    peer.set_mtu("vx0", MTU);
    for name in ["guest", "uplink"] {
        switch.wait_state(name, "connected", LIMIT);
    }
    // The underlay answers for itself.
    let answers = || peer.attempt("ping", &["-c", "1", "-W", "1", local]).ok();
    assert!(wait::until(LIMIT, answers).is_some(), "{local} does not answer");
    let passes = || guest.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).ok();
    assert!(wait::until(LIMIT, passes).is_some(), "{}", shown(&switch));
    exchange(&guest, &peer, MTU);
    let resolved = shown(&switch);
    assert_eq!(resolved["mtu"], if remote.contains(':') { 1430 } else { 1450 }, "{resolved}");
    assert!(resolved["rx_packets"].as_u64() > Some(100) && resolved["tx_packets"].as_u64() > Some(100));
    // A guest with a larger MTU learns that of the tunnel.
    guest.set_mtu("eth0", 1500);
    let said = guest.attempt("ping", &["-c", "2", "-W", "1", "-M", "do", "-s", "1472", "10.9.0.2"]);
    let cached = guest.run("ip", &["route", "get", "10.9.0.2"]);
    assert!(said.is_err() && cached.contains("mtu 14"), "{said:?} {cached}");
    switch.assert_sums_agree(&["guest", "tunnel", "uplink"]);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn vxlan_over_ipv4_reaches_the_kernel() {
    through_the_kernel("192.0.2.2", "192.0.2.1", "", "noudpcsum");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn vxlan_with_checksums_reaches_the_kernel() {
    through_the_kernel("192.0.2.2", "192.0.2.1", "checksum = true", "udpcsum");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn vxlan_over_ipv6_reaches_the_kernel() {
    through_the_kernel("2001:db8::2", "2001:db8::1", "", "");
}

/// A guest behind a tunnel to the VXLAN device of a namespace beyond a router, whose link there carries packets of 1400
/// bytes.
fn beyond_a_router(local: &str, remote: &str, mtu: u16) {
    let (folder, guest, router, peer) = (folder(), Netns::new(), Netns::new(), Netns::new());
    has_kind(&peer, "vxlan", "id 9 dstport 4789");
    let text = [
        bridges(1),
        "routes = [\"198.51.100.0/24 via 192.0.2.2\", \"2001:db8:9::/64 via 2001:db8::2\"]\n".to_owned(),
        tap("guest", "guests", &guest),
        tunnel(&format!("protocol = \"vxlan\"\nremote = \"{remote}\"\nkey = 7")),
        tap("uplink", "under", &router),
    ];
    let switch = Switch::start_from(folder.path(), &text.concat());
    for netns in [&router, &guest] {
        netns.wait_link("eth0", true, LIMIT);
    }
    router.cable("far", &peer, "near");
    for variable in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
        router.set(variable, 1);
    }
    router.configure("eth0", &["192.0.2.2/24", "2001:db8::2/64"]);
    for (netns, interface, last) in [(&router, "far", 1), (&peer, "near", 2)] {
        netns.set_mtu(interface, 1400);
        let addresses = [format!("198.51.100.{last}/24"), format!("2001:db8:9::{last}/64")];
        netns.configure(interface, &[&addresses[0], &addresses[1]]);
    }
    peer.ip("route add default via 198.51.100.1");
    peer.ip("route add default via 2001:db8:9::1");
    peer.ip(&format!("link add vx0 type vxlan id 7 local {remote} remote {local} dstport 4789 dev near"));
    peer.configure("vx0", &["10.9.0.2/24"]);
    guest.configure("eth0", &["10.9.0.1/24"]);
    for name in ["guest", "uplink"] {
        switch.wait_state(name, "connected", LIMIT);
    }
    let passes = || guest.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).ok();
    assert!(wait::until(LIMIT, passes).is_some(), "{}", shown(&switch));
    // The router reports the first packet to the switch, and the switch the next one to the guest.
    let learned = || {
        let long = guest.attempt("ping", &["-c", "1", "-W", "1", "-M", "do", "-s", "1392", "10.9.0.2"]);
        let cached = guest.run("ip", &["route", "get", "10.9.0.2"]);
        (long.is_err() && cached.contains(&format!("mtu {mtu} "))).then_some(())
    };
    assert!(wait::until(LIMIT, learned).is_some(), "{}", shown(&switch));
    assert_eq!(shown(&switch)["mtu"], mtu);
    guest.ping("10.9.0.2", 2, &["-M", "do", "-s", &(mtu - 28).to_string()]);
    tcp::listen(&peer, PORT, tcp::echo);
    guest.enter(|| tcp::exchange("10.9.0.2", PORT, (5, BYTES), LIMIT));
    switch.assert_sums_agree(&["guest", "tunnel", "uplink"]);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn path_mtu_of_an_ipv4_underlay_reaches_guests() {
    beyond_a_router("192.0.2.1", "198.51.100.2", 1350);
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn path_mtu_of_an_ipv6_underlay_reaches_guests() {
    beyond_a_router("2001:db8::1", "2001:db8:9::2", 1330);
}

/// Starts a switch with a guest, a tunnel and an uplink to the other switch, whose packets are captured.
fn site(folder: &Path, site: u8, guest: &Netns, lines: &str, cable: &Path) -> Switch {
    let mode = if site == 1 { "server" } else { "client" };
    let uplink = format!(
        "[[port]]\nname = \"uplink\"\nbridge = \"under\"\nkind = \"stream\"\nsocket = \"{}\"\nmode = \"{mode}\"\n\
         capture = \"{}/uplink.pcapng\"\n",
        cable.display(),
        folder.display()
    );
    let text = [bridges(site), tap("guest", "guests", guest), tunnel(lines), uplink].concat();
    let switch = Switch::start_from(folder, &text);
    guest.wait_link("eth0", true, LIMIT);
    guest.configure("eth0", &[&format!("10.9.0.{site}/24")]);
    guest.set_mtu("eth0", 1400);
    switch
}

/// Flows of a tunnel that carries IP packets: guests know each other, and packets get Ethernet addresses on arrival.
fn route(switch: &Switch, guest: &Netns, other: &Netns) {
    let mac = |netns: &Netns| {
        netns.link("eth0").expect("the interface")["address"].as_str().expect("text").to_owned()
    };
    let (own, peer) = (mac(guest), mac(other));
    let address =
        if guest.run("ip", &["-br", "addr"]).contains("10.9.0.1/") { "10.9.0.2" } else { "10.9.0.1" };
    guest.ip(&format!("neigh add {address} lladdr {peer} dev eth0"));
    let arrival = format!(
        "priority=9,in_port=tunnel,actions=set_field:{peer}->eth_src,set_field:{own}->eth_dst,output:guest"
    );
    let flows =
        ["flows", "add", "--bridge", "guests", "priority=9,in_port=guest,ip,actions=output:tunnel", &arrival];
    switch.tell(&flows).expect("the flows are valid");
}

/// Two switches that are connected by a tunnel, whose captures are in the folders `first` and `second`.
fn sites(folder: &Path, guests: [&Netns; 2], (protocol, lines): (&str, &str), is_v6: bool) -> [Switch; 2] {
    let ends = if is_v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] };
    let cable = folder.join("cable.sock");
    let [first, second] = ["first", "second"].map(|name| folder.join(name));
    for folder in [&first, &second] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let lines = |remote: &str| format!("protocol = \"{protocol}\"\nremote = \"{remote}\"\n{lines}");
    let here = site(&first, 1, guests[0], &lines(ends[1]), &cable);
    let there = site(&second, 2, guests[1], &lines(ends[0]), &cable);
    for (switch, port) in [&here, &there].into_iter().flat_map(|s| [(s, "guest"), (s, "uplink")]) {
        switch.wait_state(port, "connected", LIMIT);
    }
    [here, there]
}

/// Two guests behind two switches, which are connected by a tunnel.
fn between_switches(protocol: &str, lines: &str, is_v6: bool) {
    let (folder, one, other) = (folder(), Netns::new(), Netns::new());
    let [here, there] = sites(folder.path(), [&one, &other], (protocol, lines), is_v6);
    if ["ipip", "gtpu"].contains(&protocol) {
        route(&here, &one, &other);
        route(&there, &other, &one);
    }
    let passes = || one.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).ok();
    assert!(wait::until(LIMIT, passes).is_some(), "{protocol} {}", shown(&here));
    exchange(&one, &other, 1400);
    for switch in [&here, &there] {
        switch.assert_sums_agree(&["guest", "tunnel", "uplink"]);
    }
    here.stop();
    there.stop();
    let file = folder.path().join("first/uplink.pcapng");
    let outer = match protocol {
        "vxlan" | "geneve" => "udp.port in {4789,6081}",
        "gtpu" => "udp.port == 2152",
        "ipip" => "ip.proto == 4 || ipv6.nxt == 4",
        _ => "gre",
    };
    let invalid = "_ws.malformed || ip.checksum.status == Bad || udp.checksum.status == Bad";
    assert_none(&file, invalid, outer);
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn geneve_connects_two_switches() {
    between_switches("geneve", "key = 7", true);
}

/// A mirror of a learning bridge, whose copies leave in ERSPAN for 192.0.2.2.
fn remote_mirror(left: &Netns, right: &Netns, peer: &Netns) -> String {
    let cable = |name: &str, bridge: &str, other: &str| {
        format!("[[port]]\nname = \"{name}\"\nbridge = \"{bridge}\"\nkind = \"patch\"\npeer = \"{other}\"\n")
    };
    let mirror = "[[mirror]]\nname = \"m\"\nbridge = \"lan\"\nsource_ports = [\"left\"]\ndestination_ports = [\"left\"]\noutput_port = \"span\"\n";
    let flow = "[[flow]]\nbridge = \"guests\"\nflow = \"priority=9,in_port=copies,actions=output:tunnel\"\n";
    [
        bridges(1),
        "[[bridge]]\nname = \"lan\"\n".to_owned(),
        tap("left", "lan", left),
        tap("right", "lan", right),
        cable("span", "lan", "copies"),
        cable("copies", "guests", "span"),
        tunnel("protocol = \"erspan\"\nremote = \"192.0.2.2\"\nkey = 77"),
        tap("uplink", "under", peer),
        mirror.to_owned(),
        flow.to_owned(),
    ]
    .concat()
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn copies_of_a_mirror_travel_in_erspan() {
    const PINGS: usize = 5;
    let (folder, left, right, peer) = (folder(), Netns::new(), Netns::new(), Netns::new());
    let switch = Switch::start_from(folder.path(), &remote_mirror(&left, &right, &peer));
    for (name, netns) in [("left", &left), ("right", &right), ("uplink", &peer)] {
        netns.wait_link("eth0", true, LIMIT);
        netns.disable_ipv6();
        switch.wait_state(name, "connected", LIMIT);
    }
    peer.configure("eth0", &["192.0.2.2/24"]);
    left.configure("eth0", &["10.9.0.1/24"]);
    right.configure("eth0", &["10.9.0.2/24"]);
    // The first packet has the next hop resolved.
    let passes = || {
        left.ping("10.9.0.2", 1, &[]);
        shown(&switch)["tx_packets"].as_u64().filter(|sent| *sent > 0)
    };
    assert!(wait::until(LIMIT, passes).is_some(), "{}", shown(&switch));
    let file = folder.path().join("erspan.pcap");
    let path = file.to_str().expect("a path in UTF-8");
    let words = ["-Z", "root", "-U", "--immediate-mode", "-i", "eth0", "-w", path, "ip proto 47"];
    let mut capture = peer.spawn(folder.path(), "tcpdump", "tcpdump", &words);
    capture.wait_for("listening on", 0, LIMIT);
    left.ping("10.9.0.2", PINGS as u32, &[]);
    let names = ["erspan.version", "erspan.spanid", "gre.sequence_number", "icmp.type"];
    let copies = wait::until(LIMIT, || {
        Some(fields(&file, "erspan && icmp", &names)).filter(|copies| copies.len() >= 2 * PINGS)
    });
    let copies = copies.unwrap_or_else(|| panic!("{}", shown(&switch)));
    assert!(capture.terminate(LIMIT).success());
    assert_none(&file, "_ws.malformed || ip.checksum.status == Bad", "erspan");
    assert!(copies.iter().all(|copy| copy[..2] == ["Type II", "77"]), "{copies:?}");
    let of_type = |kind: &str| copies.iter().filter(|copy| copy[3] == kind).count();
    assert_eq!((of_type("8"), of_type("0")), (PINGS, PINGS), "{copies:?}");
    let numbers: Vec<u32> = copies.iter().map(|copy| copy[2].parse().expect("a number")).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    switch.assert_sums_agree(&["left", "right", "span", "copies", "uplink"]);
    switch.stop();
}

/// Every protocol over both versions of IP. `cargo xtask test` runs a part of it above.
mod every {
    use super::between_switches;

    #[test]
    #[ignore = "needs root: run by `cargo xtask test --all`"]
    fn protocol_connects_two_switches() {
        for (protocol, lines) in [
            ("vxlan", "key = 7\nchecksum = true"),
            ("geneve", "key = 7"),
            ("gre", ""),
            ("gre", "key = 4000000000"),
            ("nvgre", "key = 7"),
            ("erspan", "key = 7"),
            ("ipip", ""),
            ("gtpu", "key = 7"),
        ] {
            for is_v6 in [false, true] {
                between_switches(protocol, lines, is_v6);
            }
        }
    }
}
