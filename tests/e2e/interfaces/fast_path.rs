//! The kernel fast path: XDP programs forward between two ports, and stop with each change that concerns them.

use std::net::UdpSocket;

use linerate_tests::capture::packets;
use serde_json::Value;

use super::*;

/// A port with the fast path, on the cable to station `number`.
fn fast(site: &Site, number: u8, more: &str) -> String {
    let station = if number == 1 { &site.left } else { &site.right };
    let own = format!("kernel_fast_path = true\npeer_netns = \"{}\"\n{more}", station.name());
    site.port(number, "af_xdp", &own)
}

/// A third station on a port without the fast path: cable 3, with this address.
fn third(site: &Site, address: &str) -> Netns {
    let station = Netns::new();
    site.host.ip(&format!("link add lan3 type veth peer name eth0 netns {}", station.name()));
    site.host.ip("link set lan3 up");
    station.configure("eth0", &[address]);
    station
}

fn offload(switch: &Switch) -> Value {
    switch.ask(&["offload", "show"]).unwrap()
}

/// Packets that the kernel has forwarded.
fn forwarded(switch: &Switch) -> u64 {
    offload(switch)["packets"].as_u64().unwrap()
}

fn flood(from: &Netns, to: &str, packets: u32) {
    from.run("ping", &["-q", "-f", "-W", "1", "-c", &packets.to_string(), to]);
}

/// Pings until both directions between the stations are installed.
fn warm_up(site: &Site, switch: &Switch) {
    let installed = || {
        flood(&site.left, "10.9.0.2", 200);
        (offload(switch)["entries"].as_array().unwrap().len() == 2).then_some(())
    };
    assert!(wait::until(LIMIT, installed).is_some(), "{}", offload(switch));
}

/// Runs `change` on a switch whose kernel forwards, and checks that it does not from then on.
fn ends(site: &Site, switch: &Switch, change: impl FnOnce()) {
    warm_up(site, switch);
    change();
    let before = forwarded(switch);
    let ping = ["-q", "-i", "0.01", "-W", "1", "-c", "20", "10.9.0.2"];
    // Whether the pings arrive depends on the change.
    let _ = site.left.attempt("ping", &ping);
    assert_eq!(forwarded(switch), before, "{}", offload(switch));
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn kernel_forwards_between_ports_with_the_fast_path() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = start(folder.path(), &[fast(&site, 1, ""), fast(&site, 2, "")]);
    assert!(switch.has_feature("p1", "kernel-fast-path"));
    warm_up(&site, &switch);
    let (before, kernel) = (switch.settled(&["p1", "p2"]), forwarded(&switch));
    flood(&site.left, "10.9.0.2", 1000);
    let now = switch.settled(&["p1", "p2"]);
    for port in 0..2 {
        let received = now[port].rx_packets - before[port].rx_packets;
        let sent = now[port].tx_packets - before[port].tx_packets;
        // And some frames of address resolution.
        assert!((1000..1020).contains(&received) && (1000..1020).contains(&sent), "{received}, {sent}");
    }
    assert!(forwarded(&switch) - kernel >= 1900, "{}", offload(&switch));
    let details = switch.port("p1")["details"]["offloaded"].clone();
    assert!(details.as_str().unwrap().parse::<u64>().unwrap() >= 1000, "{details}");
    // Checksums that the stations leave to their interface arrive complete.
    exchange(&site, folder.path(), &switch);
    let table = String::from_utf8(switch.tell(&["offload", "show"]).unwrap()).unwrap();
    assert!(table.contains("forwarded by the kernel"), "{table}");
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn changes_end_forwarding_by_the_kernel_at_once() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let third = third(&site, "10.9.0.3/24");
    let ports = [fast(&site, 1, ""), fast(&site, 2, ""), site.port(3, "af_xdp", "")];
    let switch = start(folder.path(), &ports);
    let tell = |verb: &[&str]| drop(switch.tell(verb).unwrap());
    third.ping("10.9.0.1", 1, &[]);
    let mirror = ["mirrors", "add", "m", "--source-ports", "p1", "--output-port", "p3"];
    ends(&site, &switch, || tell(&mirror));
    let copies = switch.settled(&["p3"])[0].tx_packets;
    assert!(copies >= 20, "{copies} packets were copied");
    tell(&["mirrors", "remove", "m"]);

    let mac = mac(&site.left);
    ends(&site, &switch, || tell(&["fdb", "add", &mac, "--port", "p2"]));
    let drops = switch.port("p1")["drops"].clone();
    assert!(drops["static-mac-violation"].as_u64().is_some_and(|n| n >= 20), "{drops}");
    tell(&["fdb", "remove", &mac]);

    ends(&site, &switch, || tell(&["ports", "remove", "p2"]));
    let report = offload(&switch);
    assert_eq!(
        (report["entries"].as_array().unwrap().len(), report["packets"].as_u64() > Some(0)),
        (0, true)
    );
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn station_that_moves_is_found_at_its_new_port_at_once() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let third = third(&site, "10.9.0.3/24");
    // A listener report from the old place would move the station back.
    site.left.disable_ipv6();
    third.disable_ipv6();
    let ports = [fast(&site, 1, ""), fast(&site, 2, ""), site.port(3, "af_xdp", "")];
    let text = format!("[[worker]]\n[[bridge]]\nname = \"lan\"\nmac_moves = \"free\"\n{}", ports.concat());
    fs::write(folder.path().join("switch.toml"), text).unwrap();
    let switch = Switch::restart(folder.path());
    warm_up(&site, &switch);
    let mac = mac(&site.left);
    // The station does not answer at its old place; its link stays.
    site.left.ip("address flush dev eth0");
    third.ip(&format!("link set eth0 address {mac}"));
    third.configure("eth0", &["10.9.0.1/24"]);
    third.ping("10.9.0.2", 1, &[]);
    let (before, kernel) = (switch.settled(&["p3"])[0].tx_packets, forwarded(&switch));
    site.right.ping("10.9.0.1", 20, &[]);
    assert!(switch.settled(&["p3"])[0].tx_packets >= before + 20);
    assert_eq!(forwarded(&switch), kernel, "nothing goes to the old port");
    switch.stop();
}

/// An interface that cannot have the fast path is refused with the reason.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn unsuitable_ports_have_no_fast_path() {
    let site = Site::new(1, JUMBO);
    let own = "kernel_fast_path = true";
    let said = refused(2, &[site.port(1, "af_xdp", own)]);
    assert!(
        said.contains("the peer of lan1 in the namespace") && said.contains("write peer_netns"),
        "{said}"
    );
    let wrong = format!("{own}\npeer_netns = \"{}\"", site.right.name());
    let said = refused(2, &[site.port(1, "af_xdp", &wrong)]);
    assert!(said.contains("the peer of lan1 in the namespace"), "{said}");
    let said = refused(2, &[fast(&site, 1, "")]);
    assert!(said.contains("does not support packets as long as the MTU"), "{said}");
    let mut port = site.port(1, "af_xdp", own);
    port = port.replace("lan1", "lo");
    let said = refused(2, &[port]);
    assert!(said.contains("requires a veth pair"), "{said}");
    let said = refused(2, &[fast(&site, 1, "fault = { drop = 0.1 }")]);
    assert!(said.contains("`kernel_fast_path` is not supported with `fault`"), "{said}");
}

fn mac(station: &Netns) -> String {
    station.link("eth0").unwrap()["address"].as_str().unwrap().to_owned()
}

/// A switch whose only bridge has these ports and no flows, with further sections.
fn without_flows(folder: &Path, ports: &[String], more: &str) -> Switch {
    let bridge = "[[worker]]\n[[bridge]]\nname = \"lan\"\npipeline = \"openflow\"\n";
    fs::write(folder.join("switch.toml"), format!("{bridge}{}{more}", ports.concat())).unwrap();
    Switch::restart(folder)
}

/// A switch whose only bridge has these ports and flow tables, in which each station is known by its address.
fn with_flows(folder: &Path, site: &Site, ports: &[String]) -> Switch {
    let switch = without_flows(folder, ports, "");
    for (station, port) in [(&site.left, "p1"), (&site.right, "p2")] {
        let flow = format!("priority=1,dl_dst={},actions=output:{port}", mac(station));
        switch.tell(&["flows", "add", &flow]).unwrap();
    }
    switch.tell(&["flows", "add", "priority=0,actions=flood"]).unwrap();
    switch
}

/// Packets of all flows that match on an address.
fn counted(switch: &Switch) -> u64 {
    let flows = switch.ask(&["flows", "show"]).unwrap();
    let flows = flows["flows"].as_array().unwrap();
    let own = flows.iter().filter(|flow| flow["priority"] == 1);
    own.map(|flow| flow["packets"].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn kernel_forwards_what_flows_send_by_address() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = with_flows(folder.path(), &site, &[fast(&site, 1, ""), fast(&site, 2, "")]);
    warm_up(&site, &switch);
    let (before, kernel) = (counted(&switch), forwarded(&switch));
    flood(&site.left, "10.9.0.2", 1000);
    assert!(forwarded(&switch) - kernel >= 1900, "{}", offload(&switch));
    let arrived = || (counted(&switch) - before >= 2000).then_some(());
    assert!(wait::until(LIMIT, arrived).is_some(), "{} packets of flows", counted(&switch) - before);
    switch.settled(&["p1", "p2"]);
    switch.assert_sums_agree(&["p1", "p2"]);

    let tell = |verb: &[&str]| drop(switch.tell(verb).unwrap());
    // The result depends on the protocol then.
    ends(&site, &switch, || tell(&["flows", "add", "priority=9,icmp,actions=drop"]));
    assert!(site.left.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).is_err());
    tell(&["flows", "remove", "--strict", "priority=9,icmp"]);
    ends(&site, &switch, || tell(&["ports", "remove", "p2"]));
    switch.stop();
}

/// UDP sockets at two stations, which are connected to each other.
fn sockets(from: (&Netns, &str), to: (&Netns, &str)) -> [UdpSocket; 2] {
    let open = |(station, address): (&Netns, &str), port: u16| {
        let address = format!("{address}:{port}");
        let socket = station.enter(move || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    };
    let both = [open(from, 5000), open(to, 9000)];
    both[0].connect(format!("{}:9000", to.1)).unwrap();
    both[1].connect(format!("{}:5000", from.1)).unwrap();
    both
}

/// Sends datagrams to and fro. Returns the number of those that came back.
fn echo([from, to]: &[UdpSocket; 2], datagrams: usize) -> usize {
    let mut buffer = [0; 64];
    let pass = |one: &UdpSocket, other: &UdpSocket, buffer: &mut [u8]| {
        one.send(b"datagram").and_then(|_| other.recv(buffer)).is_ok()
    };
    (0..datagrams).filter(|_| pass(from, to, &mut buffer) && pass(to, from, &mut buffer)).count()
}

/// Sends datagrams until so many entries are installed.
fn install(switch: &Switch, sockets: &[UdpSocket; 2], entries: usize) {
    let installed = || {
        echo(sockets, 200);
        (offload(switch)["entries"].as_array().unwrap().len() == entries).then_some(())
    };
    assert!(wait::until(LIMIT, installed).is_some(), "{}", offload(switch));
}

fn add(switch: &Switch, flows: &[&str]) {
    for flow in flows {
        switch.tell(&["flows", "add", flow]).unwrap();
    }
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn kernel_forwards_flows_that_ports_select_and_leaves_others() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = without_flows(folder.path(), &[fast(&site, 1, ""), fast(&site, 2, "")], "");
    add(
        &switch,
        &[
            "priority=2,udp,tp_dst=9000,actions=output:p2",
            "priority=2,udp,tp_src=9000,actions=output:p1",
            "priority=1,udp,actions=drop",
            "priority=0,actions=flood",
        ],
    );
    for addresses in [["10.9.0.1", "10.9.0.2"], ["[fd09::1]", "[fd09::2]"]] {
        if addresses[0].starts_with('[') {
            add(
                &switch,
                &[
                    "priority=2,udp6,tp_dst=9000,actions=output:p2",
                    "priority=2,udp6,tp_src=9000,actions=output:p1",
                ],
            );
        }
        let sockets = sockets((&site.left, addresses[0]), (&site.right, addresses[1]));
        install(&switch, &sockets, 2);
        let kernel = forwarded(&switch);
        assert_eq!(echo(&sockets, 1000), 1000);
        assert!(forwarded(&switch) - kernel >= 1900, "{}", offload(&switch));
        let entry = &offload(&switch)["entries"][0];
        assert_eq!(
            (&entry["flow"]["protocol"], &entry["flow"]["is_tracked"]),
            (&"udp".into(), &false.into())
        );
        // Another flow between the same stations is looked at by the tables.
        let other = site.left.enter(|| UdpSocket::bind("10.9.0.1:5001").unwrap());
        let before = forwarded(&switch);
        (0..100).for_each(|_| drop(other.send_to(b"none", "10.9.0.2:9001")));
        assert_eq!(forwarded(&switch), before);
        add(&switch, &["priority=9,udp,actions=drop", "priority=9,udp6,actions=drop"]);
        assert_eq!(echo(&sockets, 3), 0, "a flow with a higher priority drops it at once");
        assert_eq!(forwarded(&switch), before);
        switch.tell(&["flows", "remove", "--strict", "priority=9,udp"]).unwrap();
        switch.tell(&["flows", "remove", "--strict", "priority=9,udp6"]).unwrap();
    }
    switch.settled(&["p1", "p2"]);
    switch.assert_sums_agree(&["p1", "p2"]);
    switch.stop();
}

/// Two networks, and a router in the flow tables.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn kernel_routes_flows() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = without_flows(folder.path(), &[fast(&site, 1, ""), fast(&site, 2, "")], "");
    let router = "02:00:00:00:00:fe";
    for (station, own, network) in
        [(&site.left, "10.1.0.1", "10.2.0.0/24"), (&site.right, "10.2.0.1", "10.1.0.0/24")]
    {
        station.ip(&format!("address add {own}/24 dev eth0"));
        let gateway = own.replace(".0.1", ".0.254");
        station.ip(&format!("route add {network} via {gateway}"));
        station.ip(&format!("neighbor add {gateway} lladdr {router} dev eth0"));
    }
    for (network, station, port) in [("10.2.0.0/24", &site.right, "p2"), ("10.1.0.0/24", &site.left, "p1")] {
        let actions = format!("mod_dl_src:{router},mod_dl_dst:{},dec_ttl,output:{port}", mac(station));
        add(&switch, &[&format!("ip,nw_dst={network},actions={actions}")]);
    }
    let sockets = sockets((&site.left, "10.1.0.1"), (&site.right, "10.2.0.1"));
    install(&switch, &sockets, 2);
    let file = folder.path().join("routed.pcap");
    let tcpdump =
        ["-i", "eth0", "-U", "-c", "200", "-w", file.to_str().unwrap(), "udp", "and", "dst", "port", "9000"];
    let mut tcpdump = site.right.spawn(folder.path(), "tcpdump", "tcpdump", &tcpdump);
    tcpdump.wait_for("listening on", 0, LIMIT);
    let kernel = forwarded(&switch);
    assert_eq!(echo(&sockets, 1000), 1000);
    assert!(forwarded(&switch) - kernel >= 1900, "{}", offload(&switch));
    tcpdump.finish(LIMIT);
    let routed =
        format!("ip.ttl == 63 && eth.src == {router} && ip.checksum.status == 1 && udp.checksum.status == 1");
    assert_eq!(packets(&file, &routed).lines().count(), 200, "{}", offload(&switch));
    let entry = &offload(&switch)["entries"][0];
    assert_eq!((&entry["new_source"], &entry["decrements_ttl"]), (&router.into(), &true.into()));
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn kernel_forwards_open_connections_until_they_change() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let ports = [fast(&site, 1, ""), fast(&site, 2, "")];
    let switch = without_flows(folder.path(), &ports, "[conntrack]\ntcp_window_check = false\n");
    add(
        &switch,
        &[
            "priority=1,ip,actions=ct(table=1,zone=5)",
            "priority=0,actions=flood",
            "table=1,in_port=p1,ip,ct_state=+trk+new,actions=ct(commit,zone=5),output:p2",
            "table=1,in_port=p1,ip,ct_state=+trk+est,actions=output:p2",
            "table=1,in_port=p2,ip,ct_state=+trk+est,actions=output:p1",
        ],
    );
    let sockets = sockets((&site.left, "10.9.0.1"), (&site.right, "10.9.0.2"));
    install(&switch, &sockets, 2);
    let kernel = forwarded(&switch);
    assert_eq!(echo(&sockets, 1000), 1000);
    assert!(forwarded(&switch) - kernel >= 1900, "{}", offload(&switch));
    assert_eq!(offload(&switch)["entries"][0]["flow"]["is_tracked"], true);
    // Without its connection, a reply is not expected.
    switch.tell(&["ct", "flush", "--zone", "5"]).unwrap();
    let kernel = forwarded(&switch);
    assert!(sockets[1].send(b"late").is_ok() && sockets[0].recv(&mut [0; 8]).is_err());
    assert_eq!(forwarded(&switch), kernel);
    // Segments that end a connection are seen by the workers.
    let kernel = forwarded(&switch);
    transfer(folder.path(), &site.left, &site.right, "10.9.0.2", 400, &[]);
    assert!(forwarded(&switch) - kernel > 10_000, "{}", offload(&switch));
    let open = || {
        let report = switch.ask(&["ct", "show", "--zone", "5"]).unwrap();
        let connections = report["connections"].as_array().unwrap().clone();
        connections.iter().filter(|of| of["state"].as_str().unwrap().contains("established")).count()
    };
    assert!(wait::until(LIMIT, || (open() == 0).then_some(())).is_some(), "{} connections are open", open());
    switch.settled(&["p1", "p2"]);
    switch.assert_sums_agree(&["p1", "p2"]);
    switch.stop();
}
