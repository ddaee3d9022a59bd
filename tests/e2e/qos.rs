//! Policers and queues of ports: iperf3 between two namespaces at rates below those that the switch can forward.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_tests::iperf::{iperf, received};
use linerate_tests::netns::Netns;
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::{folder, need, wait};

const LIMIT: Duration = Duration::from_secs(20);
/// Bytes of two seconds at 20 Mbit/s.
const ALLOWED: u64 = 2 * 20_000_000 / 8;

/// The namespaces of two TAP ports.
struct Two {
    left: Netns,
    right: Netns,
    switch: Switch,
}

impl Two {
    /// Starts a switch with a bridge of this section; `keys` are more lines of each port.
    fn start(folder: &Path, bridge: &str, keys: [&str; 2]) -> Self {
        let [left, right] = [(), ()].map(|()| Netns::new());
        let namespaces = [("left", &left), ("right", &right)];
        let ports = namespaces.iter().zip(keys).map(|((name, netns), keys)| {
            let netns = netns.name();
            format!("[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n{keys}\n")
        });
        let text = format!("[[bridge]]\nname = \"lan\"\n{bridge}{}", ports.collect::<String>());
        let switch = Switch::start_from(folder, &text);
        for (n, (name, netns)) in (1..).zip(namespaces) {
            netns.wait_link("eth0", true, LIMIT);
            netns.ip("link set eth0 addrgenmode none");
            netns.ip("link set eth0 up");
            switch.wait_state(name, "connected", LIMIT);
            netns.ip(&format!("address add 10.9.0.{n}/24 dev eth0"));
        }
        Self { left, right, switch }
    }

    fn drops(&self, port: &str, reason: &str) -> u64 {
        self.switch.port(port)["drops"][reason].as_u64().unwrap_or(0)
    }

    fn detail(&self, port: &str, name: &str) -> u64 {
        let value = &self.switch.port(port)["details"][name];
        value.as_str().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no {name}: {value}"))
    }

    /// The value of a counter of a queue of `right`.
    fn queue(&self, queue: u64, key: &str) -> u64 {
        let queues = self.switch.ask(&["queues", "show", "right"]).expect("the queues");
        let queues = queues.as_array().expect("a list");
        let found = queues.iter().find(|found| found["queue"] == queue).expect("the queue");
        found[key].as_u64().expect("a number")
    }
}

/// Runs `ovs-ofctl` at the management socket of a bridge.
fn ofctl(folder: &Path, words: &[&str]) -> String {
    need::program("ovs-ofctl");
    let mut command = Command::new("ovs-ofctl");
    let output = command.args(["--timeout=10", "-O", "OpenFlow13"]).args(words).env("OVS_RUNDIR", folder);
    let output = output.output().expect("ovs-ofctl runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Whether a rate holds, for a test that measures no time itself.
#[track_caller]
fn assert_near(bytes: u64, allowed: u64) {
    assert!((allowed / 2..=allowed * 2).contains(&bytes), "{bytes} bytes, {allowed} allowed");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_policer_drops_what_exceeds_its_rates() {
    let folder = folder();
    let policer = "policer = { kind = \"trtcm\", cir = \"10Mbit/s\", pir = \"20Mbit/s\", exceed = 12 }";
    let two = Two::start(folder.path(), "", [policer, ""]);
    let udp = ["--udp", "--bitrate", "80M", "--time", "2", "--length", "1400"];
    let report = iperf(folder.path(), &two.left, &two.right, "10.9.0.2", &udp);
    assert_near(received(&report), ALLOWED);
    let counters = two.switch.settled(&["left", "right"]);
    assert_sums_agree(&counters);
    let packets = |colour| two.detail("left", &format!("policer_{colour}"));
    let agrees = || {
        let all = packets("green") + packets("yellow") + packets("red");
        (all == two.switch.counters("left").rx_packets).then_some(())
    };
    assert!(wait::until(LIMIT, agrees).is_some(), "{}", two.switch.port("left"));
    assert!(packets("green") > 100 && packets("yellow") > 100 && packets("red") > 100);
    assert_eq!((packets("red"), packets("yellow")), (two.drops("left", "policed"), packets("remarked")));
    two.switch.stop();
}

/// Datagrams of 1,000 bytes of a burst of 100 that arrive. `mark` is the traffic class.
fn burst(left: &Netns, right: &Netns, mark: u32) -> usize {
    let receiver = right.enter(|| UdpSocket::bind("10.9.0.2:9").expect("the address of the namespace"));
    receiver.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
    left.enter(move || {
        let sender = UdpSocket::bind("10.9.0.1:0").expect("the address of the namespace");
        rustix::net::sockopt::set_ip_tos(&sender, mark as u8).expect("a socket");
        for _ in 0..100 {
            sender.send_to(&[0; 1000], "10.9.0.2:9").expect("the datagram is sent");
        }
    });
    std::iter::repeat_with(|| receiver.recv(&mut [0; 2000])).take_while(Result::is_ok).count()
}

/// At rates that add less than a packet, the packets that pass are those of the bursts.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn policers_let_their_bursts_pass() {
    let folder = folder();
    let own = |policer: &str, mark: u32| {
        let two = Two::start(folder.path(), "", [policer, ""]);
        two.left.ping("10.9.0.2", 1, &[]);
        let arrived = burst(&two.left, &two.right, mark);
        two.switch.stop();
        arrived
    };
    let committed = "policer = { cir = \"8kbit/s\", cbs = 30000, ebs = 1514, exceed = \"drop\" }";
    let excess = "policer = { cir = \"8kbit/s\", cbs = 10000, ebs = 20000 }";
    let two_rates =
        "policer = { kind = \"trtcm\", cir = \"8kbit/s\", cbs = 10000, pir = \"8kbit/s\", pbs = 30000 }";
    let aware =
        "policer = { cir = \"8kbit/s\", cbs = 30000, ebs = 1514, exceed = \"drop\", color_aware = true }";
    let arrived = [committed, excess, two_rates].map(|policer| own(policer, 0));
    // AF11 is green, AF12 yellow.
    let coloured = [0x28, 0x30].map(|mark| own(aware, mark));
    // A frame has 1,042 bytes. The ping before has taken a part of the burst.
    let is_burst = |arrived: usize| (27..=28).contains(&arrived);
    assert!(arrived.into_iter().all(is_burst), "{arrived:?}");
    assert!(is_burst(coloured[0]) && coloured[1] == 0, "{coloured:?}");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn queues_shape_a_port_and_change_at_run_time() {
    let folder = folder();
    let queues =
        "queues = { rate = \"20Mbit/s\", classes = [\"0 rate=5Mbit/s\", \"1 rate=15Mbit/s dscp=46\"] }";
    let two = Two::start(folder.path(), "", ["", queues]);
    let tcp = |more: &[&str]| {
        let options = [&["--time", "2"], more].concat();
        received(&iperf(folder.path(), &two.left, &two.right, "10.9.0.2", &options))
    };
    assert_near(tcp(&[]), ALLOWED);
    assert_eq!(two.queue(1, "packets"), 0);
    // The traffic class of DSCP 46.
    assert_near(tcp(&["--tos", "184"]), ALLOWED);
    assert!(two.queue(1, "packets") > 1000);
    two.switch
        .tell(&["queues", "set", "right", "0", "--rate", "1Mbit/s", "--ceil", "5Mbit/s"])
        .expect("new rates");
    assert_near(tcp(&[]), ALLOWED / 4);
    let refused = two.switch.tell(&["queues", "set", "right", "0", "--rate", "6Mbit/s"]).unwrap_err();
    assert!(refused.contains("above its 20Mbit/s") || refused.contains("`ceil` is below"), "{refused}");
    let udp = ["--udp", "--bitrate", "80M", "--time", "2", "--length", "1400"];
    iperf(folder.path(), &two.left, &two.right, "10.9.0.2", &udp);
    let sum = |key: &str| two.queue(0, key) + two.queue(1, key);
    // The kernels look for their neighbours now and then, also between two readings.
    let agree = wait::until(LIMIT, || {
        let counters = two.switch.settled(&["left", "right"]);
        assert_sums_agree(&counters);
        ((sum("packets"), sum("backlog")) == (counters[1].tx_packets, 0)).then_some(())
    });
    assert!(agree.is_some(), "{} of {:?}", sum("packets"), two.switch.settled(&["right"]));
    assert_eq!(sum("full"), two.drops("right", "class-full"));
    assert_eq!(sum("codel"), two.drops("right", "codel"));
    assert!(sum("full") + sum("codel") > 1000);
    two.switch.stop();
}

/// Bytes of two streams at once: without a traffic class, and with that of DSCP 46.
fn streams(folder: &Path, left: &Netns, right: &Netns) -> [u64; 2] {
    right.ip("address add 10.9.0.3/24 dev eth0");
    std::thread::scope(|scope| {
        let stream = |address: &'static str, more: &[&'static str]| {
            let options = [&["--time", "4"], more].concat();
            scope.spawn(move || received(&iperf(folder, left, right, address, &options)))
        };
        let streams = [stream("10.9.0.2", &[]), stream("10.9.0.3", &["--tos", "184"])];
        streams.map(|stream| stream.join().expect("a report"))
    })
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn classes_share_a_port_as_those_of_the_kernel() {
    let folder = folder();
    let queues =
        "queues = { rate = \"20Mbit/s\", classes = [\"0 rate=5Mbit/s\", \"1 rate=15Mbit/s dscp=46\"] }";
    let two = Two::start(folder.path(), "", ["", queues]);
    let own = streams(folder.path(), &two.left, &two.right);
    two.switch.stop();
    let [left, right] = [(), ()].map(|()| Netns::new());
    left.cable("eth0", &right, "eth0");
    for (netns, address) in [(&left, "10.9.0.1/24"), (&right, "10.9.0.2/24")] {
        netns.configure("eth0", &[address]);
    }
    for words in [
        "qdisc add dev eth0 root handle 1: htb default 10",
        "class add dev eth0 parent 1: classid 1:1 htb rate 20mbit",
        "class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit ceil 20mbit",
        "class add dev eth0 parent 1:1 classid 1:11 htb rate 15mbit ceil 20mbit",
        "filter add dev eth0 parent 1: protocol ip u32 match ip tos 0xb8 0xff flowid 1:11",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        if let Err(error) = left.attempt("tc", &words) {
            need::skip(format_args!("the kernel has no HTB: {error}"));
        }
    }
    let kernel = streams(folder.path(), &left, &right);
    for streams in [own, kernel] {
        // 5 and 15 Mbit/s for 4 s. A class also gets what the other one leaves, as when its stream begins late.
        let guaranteed = [2_500_000, 7_500_000].map(|bytes| bytes * 3 / 4);
        assert!(
            streams[0] > guaranteed[0] && streams[1] > guaranteed[1],
            "{own:?} bytes, {kernel:?} with the kernel"
        );
    }
    let [own, kernel] = [own, kernel].map(|streams| streams.iter().sum::<u64>());
    assert!((kernel * 3 / 4..=kernel * 5 / 4).contains(&own), "{own} bytes, {kernel} with the kernel");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn flows_select_queues() {
    let folder = folder();
    let queues = "queues = { rate = \"20Mbit/s\", classes = [\"0 rate=5Mbit/s\", \"7 rate=15Mbit/s\"] }";
    let two = Two::start(folder.path(), "pipeline = \"openflow\"\n", ["", queues]);
    two.switch.tell(&["flows", "add", "priority=1,actions=NORMAL"]).expect("a flow");
    two.switch.tell(&["flows", "add", "priority=2,icmp,actions=set_queue:7,NORMAL"]).expect("a flow");
    two.left.ping("10.9.0.2", 5, &[]);
    assert_eq!(two.queue(7, "packets"), 5, "requests, but not ARP");
    let stats = ofctl(folder.path(), &["queue-stats", "lan"]);
    assert!(stats.contains("queue 7: bytes=490, pkts=5, errors=0"), "{stats}");
    let config = ofctl(folder.path(), &["queue-get-config", "lan", "right"]);
    assert!(config.contains("queue 7: min_rate:75.0% max_rate:100.0%"), "{config}");
    two.switch.stop();
}
