//! Controllers of OpenFlow bridges: `ovs-ofctl` at the management socket in every version, and `ovs-testcontroller`.

mod faucet;
mod limits;
mod local;
mod osken;
mod tables;
mod timeouts;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, need, scope, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
const BRIDGE: &str = "br0";
const VERSIONS: [&str; 4] = ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"];

/// Two namespaces at the TAP ports `left` (1) and `right` (2) of the bridge `br0`.
struct Lab {
    left: Netns,
    right: Netns,
    switch: Switch,
    folder: PathBuf,
}

impl Lab {
    /// `keys` are further keys of the bridge.
    fn start(folder: &Path, keys: &str) -> Self {
        need::program("ovs-ofctl");
        let (left, right) = (Netns::new(), Netns::new());
        let port = |name: &str, netns: &Netns| {
            let netns = netns.name();
            format!(
                "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n"
            )
        };
        let bridge = format!("[[bridge]]\nname = \"{BRIDGE}\"\npipeline = \"openflow\"\n{keys}\n");
        let text = format!("{bridge}{}{}", port("left", &left), port("right", &right));
        let switch = Switch::start_from(folder, &text);
        for (netns, address) in [(&left, "10.9.0.1/24"), (&right, "10.9.0.2/24")] {
            netns.wait_link("eth0", true, LIMIT);
            netns.configure("eth0", &[address]);
        }
        for port in ["left", "right"] {
            switch.wait_state(port, "connected", LIMIT);
        }
        Self { left, right, switch, folder: folder.to_owned() }
    }

    /// Runs `ovs-ofctl`. Returns its error output if it fails.
    fn attempt(&self, version: &str, words: &[&str]) -> Result<String, String> {
        let Output { status, stdout, stderr } = Command::new("ovs-ofctl")
            .args(["--timeout=10", "-O", version])
            .args(words)
            .env("OVS_RUNDIR", &self.folder)
            .output()
            .unwrap_or_else(|error| panic!("cannot run ovs-ofctl: {error}"));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        // A refused message is printed only.
        let refused = text(stdout.clone()).contains("OFPT_ERROR");
        if status.success() && !refused { Ok(text(stdout)) } else { Err(text(stdout) + &text(stderr)) }
    }

    fn ofctl(&self, version: &str, words: &[&str]) -> String {
        let done = self.attempt(version, words);
        done.unwrap_or_else(|error| panic!("{version} {words:?}: {error}"))
    }

    fn can_ping(&self) -> bool {
        self.left.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).is_ok()
    }

    /// Waits until a ping is answered.
    #[track_caller]
    fn wait_ping(&self) {
        let answered = wait::until(LIMIT, || self.can_ping().then_some(()));
        assert!(
            answered.is_some(),
            "{}\n{}",
            self.openflow(),
            self.ofctl("OpenFlow13", &["dump-flows", BRIDGE])
        );
    }

    /// Gives the right namespace an address of another network.
    fn separate(&self) {
        self.right.ip("address flush dev eth0");
        self.right.ip("address add 10.9.1.2/24 dev eth0");
    }

    /// Whether a ping from the left reaches [`Lab::separate`] through one router before the limit.
    fn is_routed(&self) -> bool {
        let routed = || {
            let answered = self.left.attempt("ping", &["-c", "1", "-W", "1", "10.9.1.2"]).ok()?;
            answered.contains("ttl=63").then_some(())
        };
        wait::until(LIMIT, routed).is_some()
    }

    /// The OpenFlow state of the bridge.
    fn openflow(&self) -> Value {
        let shown = self.switch.ask(&["bridges", "show", BRIDGE]).expect("the switch runs");
        shown["openflow"].clone()
    }

    /// Waits until the first controller is in `state` and the bridge is standalone or not.
    #[track_caller]
    fn wait_controller(&self, state: &str, is_standalone: bool) {
        let reached = wait::until(LIMIT, || {
            let now = self.openflow();
            (now["controllers"][0]["state"] == state && now["standalone"] == is_standalone).then_some(())
        });
        assert!(reached.is_some(), "not {state}: {}", self.openflow());
    }
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn ovs_ofctl_changes_and_reads_a_bridge_in_every_version() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "datapath_id = \"00000000000000ab\"");
    for version in VERSIONS {
        let shown = lab.ofctl(version, &["show", BRIDGE]);
        assert!(shown.contains("dpid:00000000000000ab"), "{shown}");
        // Ports have a message of their own since OpenFlow 1.3.
        let ports = shown + &lab.ofctl(version, &["dump-ports-desc", BRIDGE]);
        assert!(ports.contains("1(left)") && ports.contains("2(right)"), "{ports}");
        lab.ofctl(version, &["del-flows", BRIDGE]);
        assert!(!lab.can_ping(), "{version}: without flows, packets are dropped");
        lab.ofctl(version, &["add-flow", BRIDGE, "priority=5,in_port=left,actions=output:right"]);
        lab.ofctl(version, &["add-flow", BRIDGE, "cookie=0x7,priority=5,in_port=2,actions=output:1"]);
        lab.left.ping("10.9.0.2", 3, &[]);
        lab.right.ping("10.9.0.1", 1, &[]);
        let counted = wait::until(LIMIT, || {
            let flows = lab.ofctl(version, &["dump-flows", BRIDGE, "in_port=2"]);
            (flows.contains("cookie=0x7") && !flows.contains("n_packets=0")).then_some(flows)
        });
        let flows =
            counted.unwrap_or_else(|| panic!("{version}: {}", lab.ofctl(version, &["dump-flows", BRIDGE])));
        assert!(flows.contains("actions=output:1") && !flows.contains("in_port=1"), "{flows}");
        lab.ofctl(version, &["mod-flows", BRIDGE, "in_port=2,actions=drop"]);
        assert!(!lab.can_ping(), "{version}: the flow drops");
        let aggregate = lab.ofctl(version, &["dump-aggregate", BRIDGE]);
        assert!(aggregate.contains("flow_count=2"), "{aggregate}");
        let tables = lab.ofctl(version, &["dump-tables", BRIDGE]);
        assert!(tables.contains("active=2"), "{tables}");
        let ports = lab.ofctl(version, &["dump-ports", BRIDGE]);
        assert!(ports.contains("port  1:") && ports.contains("port  2:"), "{ports}");
        lab.ofctl(version, &["mod-flows", BRIDGE, "in_port=2,actions=output:1"]);
        lab.left.ping("10.9.0.2", 1, &[]);
        let settings = [("down", "up"), ("no-receive", "receive"), ("no-forward", "forward")];
        for &(forbid, allow) in scope::first(&settings) {
            lab.ofctl(version, &["mod-port", BRIDGE, "right", forbid]);
            assert!(!lab.can_ping(), "{version}: the port is set to {forbid}");
            lab.ofctl(version, &["mod-port", BRIDGE, "right", allow]);
            lab.left.ping("10.9.0.2", 1, &[]);
        }
        assert!(lab.switch.port("left")["drops"]["port-blocked"].as_u64() > Some(0), "{version}");
    }
    let management = format!("unix:{}", folder.path().join("br0.mgmt").display());
    assert!(lab.ofctl("OpenFlow13", &["dump-flows", &management]).contains("actions=output"));
    lab.switch.stop();
    assert!(!folder.path().join("br0.mgmt").exists(), "the socket goes with the switch");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn ovs_ofctl_changes_groups_and_meters_and_a_bundle_is_all_or_nothing() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "");
    for version in &VERSIONS[1..] {
        let run = |words: &[&str]| lab.ofctl(version, words);
        run(&["add-group", BRIDGE, "group_id=1,type=all,bucket=output:2"]);
        run(&["add-meter", BRIDGE, "meter=3,kbps,stats,band=type=drop,rate=100000"]);
        run(&["add-flow", BRIDGE, "in_port=1,actions=meter:3,group:1"]);
        run(&["add-flow", BRIDGE, "in_port=2,actions=output:1"]);
        lab.left.ping("10.9.0.2", 2, &[]);
        assert!(run(&["dump-groups", BRIDGE]).contains("group_id=1,type=all,bucket="));
        assert!(run(&["dump-group-stats", BRIDGE]).contains("ref_count=1"));
        assert!(run(&["dump-meters", BRIDGE]).contains("rate=100000"));
        assert!(run(&["meter-stats", BRIDGE]).contains("meter:3"));
        let refused = lab.attempt(version, &["add-flow", BRIDGE, "in_port=1,actions=group:9"]).unwrap_err();
        assert!(refused.contains("OFPBAC_BAD_OUT_GROUP"), "{refused}");
        run(&["del-flows", BRIDGE]);
        run(&["del-groups", BRIDGE]);
        run(&["del-meters", BRIDGE]);
        let file = folder.path().join("flows");
        fs::write(&file, "in_port=1,actions=output:2\nin_port=2,actions=group:9\n").unwrap();
        let path = file.display().to_string();
        let refused = lab.attempt(version, &["--bundle", "add-flows", BRIDGE, &path]).unwrap_err();
        assert!(refused.contains("OFPBAC_BAD_OUT_GROUP"), "{refused}");
        assert!(!run(&["dump-flows", BRIDGE]).contains("actions="), "all or none");
        fs::write(&file, "in_port=1,actions=output:2\nin_port=2,actions=output:1\n").unwrap();
        run(&["--bundle", "replace-flows", BRIDGE, &path]);
        lab.left.ping("10.9.0.2", 1, &[]);
        run(&["del-flows", BRIDGE]);
    }
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_monitor_gets_packets_and_changes_and_a_packet_out_is_sent() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "");
    let target = format!("unix:{}", folder.path().join("br0.mgmt").display());
    // The first argument is the length of packet-ins, the second one monitors all flows.
    let words = ["--unixctl=none", "-O", "OpenFlow10", "monitor", &target, "128", "watch:"];
    let mut monitor = Process::spawn(folder.path(), "monitor", "ovs-ofctl", &words);
    monitor.wait_for("FLOW_MONITOR", 0, LIMIT);
    lab.ofctl("OpenFlow13", &["add-flow", BRIDGE, "in_port=1,actions=controller"]);
    monitor.wait_for("ADDED", 0, LIMIT);
    assert!(!lab.can_ping(), "packets go to the controller only");
    monitor.wait_for("PACKET_IN", 0, LIMIT);
    lab.ofctl("OpenFlow13", &["del-flows", BRIDGE]);
    monitor.wait_for("DELETED", 0, LIMIT);
    lab.switch.tell(&["flows", "add", "in_port=1,hard_timeout=1,actions=drop"]).expect("a valid flow");
    monitor.wait_for("reason=hard", 0, LIMIT);
    let sent = || lab.switch.counters("right").tx_packets;
    let before = sent();
    let frame = "0200000000aa0200000000bb88b5".to_owned() + &"00".repeat(46);
    lab.ofctl(
        "OpenFlow13",
        &["packet-out", BRIDGE, &format!("in_port=controller packet={frame} actions=output:2")],
    );
    assert!(wait::until(LIMIT, || (sent() > before).then_some(())).is_some(), "{}", lab.switch.port("right"));
    monitor.terminate(LIMIT);
    lab.switch.stop();
}

/// A controller that learns addresses, at `target`.
fn controller(folder: &Path, options: &[&str], target: &str) -> Process {
    need::program("ovs-testcontroller");
    let words = [&["--unixctl=none", "-O", "OpenFlow10,OpenFlow13,OpenFlow14"], options, &[target]].concat();
    Process::spawn(folder, "controller", "ovs-testcontroller", &words)
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn namespaces_communicate_through_a_controller_and_without_it_if_the_bridge_is_standalone() {
    let folder = folder();
    let socket = folder.path().join("controller.sock");
    let target = format!("punix:{}", socket.display());
    let keys = format!(
        "controllers = [\"unix:{}\"]\nfail_mode = \"standalone\"\nprobe_interval = \"1s\"\nmax_backoff = \"1s\"",
        socket.display()
    );
    let mut first = controller(folder.path(), &[], &target);
    let lab = Lab::start(folder.path(), &keys);
    lab.wait_controller("connected", false);
    lab.wait_ping();
    // The controller adds flows for addresses that it knows.
    let flows = || lab.ofctl("OpenFlow13", &["dump-flows", BRIDGE]);
    let added = wait::until(LIMIT, || flows().contains("dl_dst=").then_some(()));
    assert!(added.is_some(), "{}", flows());
    first.kill();
    lab.wait_controller("waiting", true);
    lab.wait_ping();
    let failed = lab.openflow();
    assert!(failed["controllers"][0]["last_error"].is_string(), "{failed}");
    let _ = fs::remove_file(&socket);
    let _second = controller(folder.path(), &[], &target);
    lab.wait_controller("connected", false);
    lab.wait_ping();
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_controller_gets_packets_through_auxiliary_connections_that_end_with_the_main_one() {
    let folder = folder();
    let socket = folder.path().join("controller.sock");
    let keys = format!("controllers = [\"unix:{}\"]\nmax_backoff = \"1s\"\nauxiliary = 2", socket.display());
    let mut controller =
        controller(folder.path(), &["--max-idle=permanent"], &format!("punix:{}", socket.display()));
    let lab = Lab::start(folder.path(), &keys);
    lab.wait_controller("connected", false);
    let auxiliary = |count: u64| {
        let connected = || (lab.openflow()["controllers"][0]["auxiliary"] == count).then_some(());
        assert!(wait::until(LIMIT, connected).is_some(), "{}", lab.openflow());
    };
    auxiliary(2);
    // It takes each connection for a switch of its own, and adds flows through that which a packet came from.
    lab.wait_ping();
    controller.kill();
    lab.wait_controller("waiting", false);
    auxiliary(0);
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_secure_bridge_keeps_its_flows_when_its_controller_is_killed() {
    let folder = folder();
    let address = free_address();
    let keys = format!("controllers = [\"tcp:{address}\"]\nmax_backoff = \"1s\"");
    let (ip, port) = address.split_once(':').expect("an address with a port");
    let target = format!("ptcp:{port}:{ip}");
    let mut controller = controller(folder.path(), &["--max-idle=permanent"], &target);
    let lab = Lab::start(folder.path(), &keys);
    lab.wait_controller("connected", false);
    lab.wait_ping();
    lab.left.ping("10.9.0.2", 3, &[]);
    controller.kill();
    lab.wait_controller("waiting", false);
    lab.left.ping("10.9.0.2", 3, &[]);
    lab.ofctl("OpenFlow13", &["del-flows", BRIDGE]);
    assert!(!lab.can_ping(), "nothing adds flows");
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_controller_needs_a_certificate_of_the_authority() {
    need::program("openssl");
    let folder = folder();
    for authority in ["ours", "theirs"] {
        certificates(folder.path(), authority);
    }
    let address = free_address();
    let (ip, port) = address.split_once(':').expect("an address with a port");
    let keys = secured(folder.path(), &format!("ssl:{address}"));
    let start = |authority: &str| {
        let options = tls_options(folder.path(), authority);
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        controller(folder.path(), &options, &format!("pssl:{port}:{ip}"))
    };
    let mut stranger = start("theirs");
    let lab = Lab::start(folder.path(), &keys);
    let refused = wait::until(LIMIT, || {
        let error = lab.openflow()["controllers"][0]["last_error"].as_str().map(str::to_owned);
        error.filter(|error| error.contains("certificate"))
    });
    assert!(refused.is_some(), "{}", lab.openflow());
    stranger.kill();
    let mut controller = start("ours");
    lab.wait_controller("connected", false);
    lab.wait_ping();
    controller.kill();
    lab.wait_controller("waiting", false);
    // Authority, keys and certificates of both sides are new.
    certificates(folder.path(), "ours");
    let _controller = start("ours");
    lab.wait_controller("connected", false);
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_client_of_a_listening_bridge_needs_a_certificate_of_the_authority() {
    need::program("openssl");
    let folder = folder();
    for authority in ["ours", "theirs"] {
        certificates(folder.path(), authority);
    }
    let address = free_address();
    let (ip, port) = address.split_once(':').expect("an address with a port");
    let lab = Lab::start(folder.path(), &secured(folder.path(), &format!("pssl:{port}:{ip}")));
    lab.wait_controller("listening", false);
    let target = format!("ssl:{address}");
    let show = |authority: &str| {
        let options = tls_options(folder.path(), authority);
        let options = options.iter().map(String::as_str);
        lab.attempt("OpenFlow13", &options.chain(["show", &target]).collect::<Vec<_>>())
    };
    let shown = show("ours").expect("both sides know the authority");
    assert!(shown.contains("dpid:"), "{shown}");
    assert!(show("theirs").is_err());
    assert!(lab.attempt("OpenFlow13", &["show", &format!("tcp:{address}")]).is_err());
    assert!(show("ours").is_ok(), "strangers end no session but their own");
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_peer_that_does_not_speak_openflow_is_disconnected_and_idle_ones_delay_no_others() {
    let folder = folder();
    let address = free_address();
    let (ip, port) = address.split_once(':').expect("an address with a port");
    let lab = Lab::start(folder.path(), &format!("controllers = [\"ptcp:{port}:{ip}\"]"));
    lab.wait_controller("listening", false);
    let connect = || TcpStream::connect(&address).expect("the bridge listens");
    let mut stranger = connect();
    stranger.set_read_timeout(Some(LIMIT)).unwrap();
    // Another message than HELLO.
    stranger.write_all(&[4, 99, 0, 8, 0, 0, 0, 1]).unwrap();
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).expect("the bridge closes the connection");
    let error = || lab.openflow()["controllers"][0]["last_error"].as_str().map(str::to_owned);
    let told = wait::until(LIMIT, || error().filter(|error| error.contains("HELLO")));
    assert!(told.is_some(), "{}", lab.openflow());
    // More than the bridge accepts at once.
    let idle: Vec<_> = (0..40).map(|_| connect()).collect();
    lab.ofctl("OpenFlow13", &["dump-flows", BRIDGE]);
    drop(idle);
    lab.ofctl("OpenFlow13", &["dump-flows", &format!("tcp:{address}")]);
    lab.switch.stop();
}

/// Keys of a bridge with this controller and the certificate of the authority `ours`.
fn secured(folder: &Path, controller: &str) -> String {
    let file = |name: &str| folder.join(format!("ours-{name}")).display().to_string();
    format!(
        "controllers = [\"{controller}\"]\nmax_backoff = \"1s\"\n[bridge.tls]\nprivate_key = \"{}\"\ncertificate = \
         \"{}\"\nca_certificate = \"{}\"",
        file("key"),
        file("cert"),
        file("ca"),
    )
}

/// Options of Open vSwitch's programs for the certificate of an authority.
fn tls_options(folder: &Path, authority: &str) -> [String; 3] {
    let option = |(option, name): (&str, &str)| {
        format!("--{option}={}", folder.join(format!("{authority}-{name}")).display())
    };
    [("private-key", "key"), ("certificate", "cert"), ("ca-cert", "ca")].map(option)
}

/// A certificate authority, and a certificate that it has signed.
fn certificates(folder: &Path, authority: &str) {
    let file = |name: &str| folder.join(format!("{authority}-{name}")).display().to_string();
    fs::write(file("conf"), "[req]\ndistinguished_name = name\n[name]\n").expect("a folder for files");
    let request = |name: &str, key: &str, more: &[&str]| {
        let (conf, key, out) = (file("conf"), file(key), file(name));
        let subject = format!("/CN={authority} {name}");
        let words = [
            &["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
                [..],
            &["-config", &conf, "-subj", &subject, "-keyout", &key, "-out", &out],
            more,
        ]
        .concat();
        let made = Command::new("openssl").args(words).output().expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    request("ca", "ca-key", &["-addext", "basicConstraints=critical,CA:TRUE"]);
    let (ca, ca_key) = (file("ca"), file("ca-key"));
    request("cert", "key", &["-CA", &ca, "-CAkey", &ca_key, "-addext", "basicConstraints=CA:FALSE"]);
}

/// An address of this host at which nothing listens.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}
