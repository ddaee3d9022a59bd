//! Policers and fair queues beside those of the kernel, in a guest: the kernel of the host may lack them.

use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::vm::{GuestNic, Image, Vm};
use linerate_tests::{folder, need, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
/// Bytes of the burst of a policer, and of each frame that is sent.
const BURST: u64 = 30_000;
const FRAME: u64 = 1042;
/// Bits per second of the queues.
const RATE: f64 = 8_000_000.0;

/// A TAP port `name` in a namespace, with more lines.
fn tap(name: &str, netns: &Netns, more: &str) -> String {
    let netns = netns.name();
    format!(
        "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n{more}\n"
    )
}

/// Gives the namespace of a TAP port an address of the network 10.0.0.0/24. It sends nothing of its own.
fn join(switch: &Switch, name: &str, netns: &Netns, number: u8) {
    netns.disable_ipv6();
    netns.wait_link("eth0", true, LIMIT);
    netns.configure("eth0", &[&format!("10.0.0.{number}/24")]);
    switch.wait_state(name, "connected", LIMIT);
}

/// Sends 100 datagrams of 1,000 bytes at once.
fn burst(from: &Netns, to: &'static str) {
    from.enter(move || {
        let sender = UdpSocket::bind("10.0.0.1:0").expect("the address of the namespace");
        for _ in 0..100 {
            // The answer to an earlier one may be that nothing listens.
            let _ = sender.send_to(&[0; 1000], (to, 9));
        }
    });
}

/// The report of an iperf3 client.
fn client(netns: &Netns, address: &str, port: &str, more: &[&str]) -> Value {
    let words = ["--client", address, "--port", port, "--json", "--udp", "--time", "5", "--length", "1200"];
    let said = netns.run("iperf3", &[&words, more].concat());
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("iperf3 said {said}: {error}"))
}

/// Bits per second that `passed` counts while a stream exceeds the rate of the queues, and the share in per cent that
/// a slow stream beside it loses.
fn streams(netns: &Netns, address: &str, more: &[&str], passed: impl Fn() -> u64) -> (f64, f64) {
    thread::scope(|scope| {
        let stream = |port: &'static str, rate: &'static str| {
            scope.spawn(move || client(netns, address, port, &[&["--bitrate", rate], more].concat()))
        };
        let streams = [stream("5201", "30M"), stream("5202", "500K")];
        thread::sleep(Duration::from_secs(2));
        let (before, start) = (passed(), Instant::now());
        thread::sleep(Duration::from_secs(2));
        let rate = (passed() - before) as f64 * 8.0 / start.elapsed().as_secs_f64();
        let [_, slow] = streams.map(|stream| stream.join().expect("a report"));
        (rate, slow["end"]["sum"]["lost_percent"].as_f64().expect("a number"))
    })
}

/// Bytes that a policer of ours lets pass of a burst.
fn own_policer(folder: &Path) -> u64 {
    let (left, right) = (Netns::new(), Netns::new());
    let policer = "policer = { cir = \"8kbit/s\", cbs = 30000, ebs = 1514, exceed = \"drop\" }";
    let text = [tap("left", &left, policer), tap("right", &right, "")].concat();
    let switch = Switch::start_from(folder, &text);
    join(&switch, "left", &left, 1);
    join(&switch, "right", &right, 2);
    let mac = right.link("eth0").expect("a link")["address"].as_str().expect("text").to_owned();
    left.ip(&format!("neigh replace 10.0.0.2 lladdr {mac} dev eth0"));
    let before = switch.settled(&["left"])[0];
    burst(&left, "10.0.0.2");
    let all = || (switch.settled(&["left"])[0].rx_packets >= before.rx_packets + 100).then_some(());
    assert!(wait::until(LIMIT, all).is_some(), "{}", switch.port("left"));
    let dropped = switch.port("left")["drops"]["policed"].as_u64().expect("drops");
    switch.stop();
    (100 - dropped) * FRAME
}

/// [`streams`] through queues of ours.
fn own_queues(folder: &Path) -> (f64, f64) {
    let (left, right) = (Netns::new(), Netns::new());
    let queues = "queues = { rate = \"8Mbit/s\", classes = [\"0 rate=8Mbit/s\"] }";
    let text = [tap("left", &left, ""), tap("right", &right, queues)].concat();
    let switch = Switch::start_from(folder, &text);
    join(&switch, "left", &left, 1);
    join(&switch, "right", &right, 2);
    let servers = [5201_u16, 5202].map(|port| {
        let server =
            right.spawn(folder, &format!("iperf-{port}"), "iperf3", &["-s", "-p", &port.to_string()]);
        right.await_listener(port, &server);
        server
    });
    let found = streams(&left, "10.0.0.2", &[], || switch.counters("right").tx_bytes);
    drop(servers);
    switch.stop();
    found
}

/// Packets and drops of the first action of a filter, as `tc` prints them.
fn action(text: &str) -> (u64, u64) {
    let shown: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("tc said {text}: {error}"));
    let actions =
        shown.as_array().into_iter().flatten().filter_map(|filter| filter["options"]["actions"].get(0));
    let stats = actions.map(|action| action["stats"].clone()).next();
    let stats = stats.unwrap_or_else(|| panic!("no action in {text}"));
    (stats["packets"].as_u64().expect("a number"), stats["drops"].as_u64().expect("a number"))
}

mod every {
    use super::*;

    #[test]
    #[ignore = "needs QEMU and a kernel: run by `cargo xtask test --all`"]
    fn policers_and_fair_queues_do_what_those_of_the_kernel_do() {
        need::program("iperf3");
        let (folder, left) = (folder(), Netns::new());
        let socket = folder.path().join("guest.sock");
        let guest = format!("[[port]]\nname = \"guest\"\nsocket = \"{}\"\n", socket.display());
        let switch = Switch::start_from(folder.path(), &[tap("left", &left, ""), guest].concat());
        let image = Image::with(&["tc", "iperf3"], &["sch_ingress", "cls_matchall", "act_police", "sch_htb"]);
        let nic = GuestNic { socket: &socket, server: false, packed: false, number: 2 };
        let mut vm = Vm::start(folder.path(), "guest", &image, &nic);
        join(&switch, "left", &left, 1);
        vm.ready();
        left.ping("10.0.0.2", 1, &[]);
        // Busybox has a `tc` of its own, without these.
        let mut tc = |words: &str| vm.succeed(&format!("/usr/sbin/tc {words}"), LIMIT);

        tc("qdisc add dev eth0 ingress");
        tc(&format!(
            "filter add dev eth0 ingress matchall action police rate 8kbit burst {BURST} conform-exceed drop/pipe"
        ));
        burst(&left, "10.0.0.2");
        let mut seen = (0, 0);
        let all = wait::until(LIMIT, || {
            seen = action(&tc("-s -j filter show dev eth0 ingress"));
            (seen.0 >= 100).then_some(())
        });
        assert!(all.is_some(), "{seen:?}");
        // The kernel does not count the Ethernet header there.
        let kernel = (seen.0 - seen.1) * (FRAME - 14);
        tc("qdisc del dev eth0 ingress");
        tc("qdisc replace dev eth0 root handle 1: htb default 1");
        tc("class add dev eth0 parent 1: classid 1:1 htb rate 8mbit");
        tc("qdisc add dev eth0 parent 1:1 fq_codel");
        // Larger buffers than those by default, which would limit the sender before the queue drops anything.
        vm.succeed("echo 8388608 >/proc/sys/net/core/wmem_default", LIMIT);
        vm.succeed("iperf3 -s -D -p 5201 && iperf3 -s -D -p 5202", LIMIT);
        let (rate, lost) = streams(&left, "10.0.0.2", &["--reverse"], || switch.counters("guest").rx_bytes);
        switch.stop();
        drop(vm);

        let own = own_policer(folder.path());
        // Up to two frames more for the time that the burst takes.
        for bytes in [own, kernel] {
            assert!(
                (BURST - FRAME..BURST + 2 * FRAME).contains(&bytes),
                "{own} bytes, {kernel} with the kernel"
            );
        }
        let (own_rate, own_lost) = own_queues(folder.path());
        let both = format!("{own_rate} bit/s and {own_lost} % lost, {rate} and {lost} with the kernel");
        for rate in [own_rate, rate] {
            assert!((RATE / 2.0..RATE * 1.1).contains(&rate), "{both}");
        }
        assert!(own_lost <= 2.0 && lost <= 2.0, "{both}");
    }
}
