//! ovs-ofctl as the client of an agent, over a Unix socket, in all versions.

use agent::fuzz::Rig;
use agent::{Kind, SessionId};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const VERSIONS: [&str; 4] = ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"];

/// Exchanges messages until the client closes the connection.
fn converse(rig: &Mutex<Rig>, id: u64, mut stream: UnixStream) {
    let mut buffer = [0; 4096];
    // Requests of other connections can make output for this one.
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let opened = rig.lock().unwrap().now;
    rig.lock().unwrap().agent.open(SessionId(id), Kind::Service, opened);
    loop {
        loop {
            let output = rig.lock().unwrap().agent.output(SessionId(id));
            let waits = rig.lock().unwrap().agent.waits(SessionId(id));
            if output.is_empty() && !waits || stream.write_all(&output).is_err() {
                break;
            }
            rig.lock().unwrap().receive(id, &[]);
        }
        let len = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            read => read.unwrap_or(0),
        };
        if len == 0 || !rig.lock().unwrap().receive(id, &buffer[..len]) {
            return rig.lock().unwrap().agent.close(SessionId(id));
        }
    }
}

/// A switch that listens until the process ends.
struct Listening {
    folder: tempfile::TempDir,
    version: &'static str,
}

impl Listening {
    fn new(version: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("br0.mgmt")).unwrap();
        thread::spawn(move || {
            let rig = Arc::new(Mutex::new(Rig::new()));
            for (id, stream) in (0..).zip(listener.incoming()) {
                let (rig, stream) = (rig.clone(), stream.unwrap());
                thread::spawn(move || converse(&rig, id, stream));
            }
        });
        Self { folder, version }
    }

    /// `ovs-ofctl COMMAND SWITCH`.
    fn command(&self, command: &str) -> Command {
        let (options, command) = command.rsplit_once(' ').unwrap_or(("", command));
        let socket = format!("unix:{}", self.folder.path().join("br0.mgmt").display());
        let mut ofctl = Command::new("ovs-ofctl");
        ofctl.args(["-O", self.version, "--no-names", "--timeout=20"]).args(options.split_whitespace());
        ofctl.args([command, &socket]).env("OVS_RUNDIR", self.folder.path());
        ofctl
    }

    /// Executes a command. Returns whether it succeeded, and all that it printed.
    fn run(&self, command: &str, arguments: &[&str]) -> (bool, String) {
        let output = match self.command(command).args(arguments).output() {
            Ok(output) => output,
            Err(error) => {
                panic!("SKIPPED: ovs-ofctl cannot be executed ({error}); install openvswitch-common")
            }
        };
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success(), text)
    }

    fn ofctl(&self, command: &str, arguments: &[&str]) -> String {
        let (succeeded, text) = self.run(command, arguments);
        assert!(succeeded, "{} {command} {arguments:?}: {text}", self.version);
        text
    }

    fn expect(&self, command: &str, arguments: &[&str], expected: &[&str]) {
        let text = self.ofctl(command, arguments);
        for part in expected {
            assert!(text.contains(part), "{} {command}: no {part:?} in:\n{text}", self.version);
        }
    }
}

#[test]
fn flows_are_changed_and_shown() {
    for switch in VERSIONS.map(Listening::new) {
        switch.ofctl("add-flow", &["priority=5,in_port=1,actions=output:2"]);
        switch.ofctl("add-flow", &["priority=6,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=dec_ttl,output:3"]);
        switch.expect(
            "dump-flows",
            &[],
            &[
                "priority=5,in_port=1 actions=output:2",
                "priority=6,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=dec_ttl,output:3",
            ],
        );
        switch.ofctl("mod-flows", &["in_port=1,actions=output:4"]);
        switch.expect("dump-flows", &["in_port=1"], &["actions=output:4"]);
        switch.expect("dump-aggregate", &[], &["packet_count=0", "flow_count=2"]);
        let (succeeded, text) = switch.run("add-flow", &["in_port=1,actions=group:9"]);
        assert!(!succeeded || switch.version == "OpenFlow10", "{text}");
        switch.ofctl("--strict del-flows", &["priority=5,in_port=1"]);
        switch.ofctl("del-flows", &["tcp"]);
        assert!(!switch.ofctl("dump-flows", &[]).contains("actions="));
    }
}

#[test]
fn fields_are_set_with_every_mask() {
    // Before OpenFlow 1.2, ovs-ofctl loads each run of bits.
    let values = [
        ("0x5/0xff", "load:0x5->NXM_NX_REG0[0..7]"),
        ("0x50005/0xff00ff", "load:0x5->NXM_NX_REG0[0..7],load:0x5->NXM_NX_REG0[16..23]"),
        ("0x7", "load:0x7->NXM_NX_REG0[]"),
    ];
    for switch in VERSIONS.map(Listening::new) {
        for (value, load) in values {
            let set = format!("set_field:{value}->reg0");
            switch.ofctl("add-flow", &[&format!("in_port=1,actions={set},output:2")]);
            let text = switch.ofctl("dump-flows", &[]);
            assert!(text.contains(&set) || text.contains(load), "{set}: {text}");
        }
    }
}

/// Options of 4 and 8 bytes.
const OPTIONS: &str =
    "{class=0x102,type=0x80,len=4}->tun_metadata0,{class=0x102,type=0x1,len=8}->tun_metadata1";

#[test]
fn options_are_mapped_and_shown() {
    for switch in VERSIONS.map(Listening::new) {
        switch.expect("dump-tlv-map", &[], &["max option space=40 max fields=8", "allocated option space=0"]);
        let refuses = |command: &str, argument: &str, error: &str| {
            let (_, text) = switch.run(command, &[argument]);
            assert!(text.contains(error), "{} {command} {argument}: {text}", switch.version);
        };
        refuses("add-flow", "tun_metadata0=1,actions=drop", "NXFMFC_INVALID_TLV_FIELD");
        switch.ofctl("add-tlv-map", &[OPTIONS]);
        let shown = [
            "0x102  0x80       4  tun_metadata0",
            "0x102   0x1       8  tun_metadata1",
            "allocated option space=12",
        ];
        switch.expect("dump-tlv-map", &[], &shown);
        for (option, error) in [
            ("{class=1,type=1,len=4}->tun_metadata0", "NXTTMFC_ALREADY_MAPPED"),
            ("{class=0x102,type=0x80,len=4}->tun_metadata3", "NXTTMFC_DUP_ENTRY"),
            ("{class=1,type=1,len=8}->tun_metadata3", "NXTTMFC_TABLE_FULL"),
            ("{class=1,type=1,len=5}->tun_metadata3", "NXTTMFC_BAD_OPT_LEN"),
            ("{class=1,type=1,len=4}->tun_metadata9", "NXTTMFC_BAD_FIELD_IDX"),
        ] {
            refuses("add-tlv-map", option, error);
        }
        switch.ofctl("add-flow", &["tun_metadata0,actions=output:2"]);
        refuses("del-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0", "NXTTMFC_INVALID_TLV_DEL");
        assert!(switch.run("del-tlv-map", &[]).1.contains("NXTTMFC_INVALID_TLV_DEL"));
        switch.ofctl("del-flows", &[]);
        switch.ofctl("del-tlv-map", &["{class=0x102,type=0x80,len=4}->tun_metadata0"]);
        assert!(!switch.ofctl("dump-tlv-map", &[]).contains("tun_metadata0"));
        switch.ofctl("del-tlv-map", &[]);
        switch.expect("dump-tlv-map", &[], &["allocated option space=0"]);
    }
}

#[test]
fn flows_with_options_are_changed_and_shown() {
    for switch in VERSIONS.map(Listening::new) {
        switch.ofctl("add-tlv-map", &[OPTIONS]);
        for (text, shown) in [
            ("tun_metadata0,actions=output:2", "tun_metadata0 actions=output:2"),
            ("tun_metadata0=0,actions=output:3", "tun_metadata0=0 actions=output:3"),
            (
                "tun_metadata0=0xab,tun_metadata1=0xb/0xf,actions=output:4",
                "tun_metadata0=0xab,tun_metadata1=0xb/0xf actions=output:4",
            ),
            ("tun_metadata1=0x123456789a,actions=output:5", "tun_metadata1=0x123456789a actions=output:5"),
            (
                "in_port=1,actions=set_field:0xa->tun_metadata0,output:2",
                "in_port=1 actions=set_field:0xa->tun_metadata0,output:2",
            ),
            (
                "in_port=2,actions=set_field:0x70/0xf0->tun_metadata1,output:2",
                "in_port=2 actions=set_field:0x70/0xf0->tun_metadata1,output:2",
            ),
            (
                "in_port=3,actions=move:NXM_NX_TUN_METADATA0[0..31]->NXM_NX_REG0[],delete_field:tun_metadata0,output:2",
                "in_port=3 actions=move:NXM_NX_TUN_METADATA0[0..31]->NXM_NX_REG0[],delete_field:tun_metadata0,output:2",
            ),
            (
                "in_port=4,actions=push:NXM_NX_TUN_METADATA0[0..7],pop:NXM_NX_TUN_METADATA1[56..63],output:2",
                "in_port=4 actions=push:NXM_NX_TUN_METADATA0[0..7],pop:NXM_NX_TUN_METADATA1[56..63],output:2",
            ),
        ] {
            switch.ofctl("add-flow", &[text]);
            switch.expect("dump-flows", &[], &[shown]);
            // A whole match selects the same flow.
            let matching = text.split(",actions=").next().unwrap();
            let found = switch.ofctl("dump-flows", &[matching]);
            assert!(found.contains(shown), "{} {matching}: {found}", switch.version);
        }
        switch.expect("dump-aggregate", &["tun_metadata0"], &["flow_count=3"]);
        let (_, text) = switch.run("dump-flows", &["tun_metadata7"]);
        assert!(text.contains("NXFMFC_INVALID_TLV_FIELD"), "{text}");
        switch.ofctl("mod-flows", &["tun_metadata1,actions=output:9"]);
        switch.expect("dump-flows", &["tun_metadata1"], &["tun_metadata1=0x123456789a actions=output:9"]);
        switch.ofctl("--strict del-flows", &["tun_metadata0=0"]);
        switch.expect("dump-aggregate", &["tun_metadata0"], &["flow_count=2"]);
        switch.ofctl("del-flows", &["tun_metadata0"]);
        switch.ofctl("del-flows", &["tun_metadata1"]);
        switch.expect("dump-aggregate", &[], &["flow_count=4"]);
        let long = switch
            .run("add-flow", &["in_port=5,actions=move:NXM_NX_TUN_METADATA0[0..32]->NXM_NX_XXREG0[0..32]"]);
        assert!(long.1.contains("OFPBAC_BAD_SET_LEN"), "{} {}", switch.version, long.1);
    }
}

#[test]
fn flows_with_options_are_replaced_and_compared() {
    for switch in VERSIONS.map(Listening::new) {
        switch.ofctl("add-tlv-map", &[OPTIONS]);
        let file = switch.folder.path().join("flows.txt");
        let flows = "tun_metadata0=0xab,actions=output:4\ntun_metadata1=5/0xff,actions=set_field:0x7->tun_metadata0,output:2\n";
        std::fs::write(&file, flows).unwrap();
        let file = file.to_str().unwrap();
        switch.ofctl("replace-flows", &[file]);
        switch.expect("dump-aggregate", &[], &["flow_count=2"]);
        assert_eq!(switch.ofctl("diff-flows", &[file]), "");
    }
}

#[test]
fn the_switch_is_described() {
    for switch in VERSIONS.map(Listening::new) {
        switch.expect("show", &[], &["dpid:0000000000001234", "n_tables:255", "p1", "miss_send_len=0"]);
        switch.expect("dump-desc", &[], &["Software: linerate"]);
        switch.expect("dump-tables", &[], &["table 0"]);
        switch.expect("dump-ports", &[], &["port  1: rx pkts=1"]);
        switch.expect("dump-ports-desc", &[], &["p4", "02:00:00:00:00:04"]);
        switch.ofctl("queue-stats", &[]);
        switch.expect("get-frags", &[], &["normal"]);
        switch.ofctl("set-frags", &["drop"]);
        switch.expect("get-frags", &[], &["drop"]);
        switch.ofctl("set-frags", &["nx-match"]);
        switch.expect("get-frags", &[], &["nx-match"]);
        switch.ofctl("mod-port", &["2", "down"]);
        switch.expect("dump-ports-desc", &[], &["PORT_DOWN"]);
        switch.ofctl("packet-out", &[&format!("in_port=1 packet={} actions=output:2", "00".repeat(60))]);
    }
}

#[test]
fn groups_and_meters_are_changed_and_shown() {
    for switch in VERSIONS[1..].iter().copied().map(Listening::new) {
        switch.ofctl("add-group", &["group_id=1,type=all,bucket=output:1,bucket=output:2"]);
        switch.ofctl("add-meter", &["meter=3,kbps,stats,band=type=drop,rate=100"]);
        switch.ofctl("add-flow", &["in_port=1,actions=group:1"]);
        switch.expect("dump-groups", &[], &["group_id=1,type=all"]);
        switch.expect("dump-group-stats", &[], &["group_id=1", "ref_count=1"]);
        switch.expect("dump-group-features", &[], &["Group table"]);
        switch.expect("dump-meters", &[], &["meter=3 kbps", "type=drop rate=100"]);
        switch.expect("meter-stats", &[], &["meter:3"]);
        switch.expect("meter-features", &[], &["max_meter:65536"]);
        switch.ofctl("del-meters", &[]);
        switch.ofctl("del-groups", &[]);
        assert!(!switch.ofctl("dump-flows", &[]).contains("actions="), "flows of a group end with it");
    }
}

#[test]
fn features_of_tables_are_shown_and_changed() {
    for switch in VERSIONS[1..].iter().copied().map(Listening::new) {
        switch.expect("dump-table-features", &[], &["table 0", "metadata: match=0xffffffffffffffff"]);
        switch.ofctl("mod-table", &["5", "name:acl"]);
        switch.expect("dump-table-features", &[], &["acl"]);
        if switch.version != "OpenFlow13" {
            switch.ofctl("mod-table", &["5", "evict"]);
            switch.expect("dump-table-desc", &[], &["eviction=on"]);
        }
    }
}

#[test]
fn bundles_are_committed_or_not() {
    for switch in VERSIONS[1..].iter().copied().map(Listening::new) {
        let file = switch.folder.path().join("flows");
        let flows = |last: &str| {
            let lines: Vec<_> = (1..200).map(|port| format!("in_port={port},actions=output:1\n")).collect();
            std::fs::write(&file, lines.concat() + last).unwrap();
        };
        flows("in_port=200,actions=group:7\n");
        let (succeeded, text) = switch.run("--bundle add-flows", &[file.to_str().unwrap()]);
        assert!(!succeeded && text.contains("OFPBAC_BAD_OUT_GROUP"), "{text}");
        switch.expect("dump-aggregate", &[], &["flow_count=0"]);
        flows("");
        switch.ofctl("--bundle add-flows", &[file.to_str().unwrap()]);
        switch.expect("dump-aggregate", &[], &["flow_count=199"]);
        flows("in_port=7,dl_vlan=3,actions=output:2\n");
        switch.ofctl("replace-flows", &[file.to_str().unwrap()]);
        switch.expect("dump-aggregate", &[], &["flow_count=200"]);
    }
}

#[test]
fn monitors_report_flows() {
    for switch in VERSIONS.map(Listening::new) {
        switch.ofctl("add-flow", &["in_port=1,actions=output:2"]);
        let mut monitor = switch.command("monitor");
        monitor.arg("watch:").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut monitor = monitor.spawn().unwrap();
        let wait = |lines: &mut dyn Iterator<Item = io::Result<String>>, part: &str| {
            let found = lines.map_while(Result::ok).any(|line| line.contains(part));
            assert!(found, "{}: ovs-ofctl ends without {part:?}", switch.version);
        };
        wait(&mut BufReader::new(monitor.stdout.take().unwrap()).lines(), "in_port=1 actions=output:2");
        // ovs-ofctl discards events that arrive before a last reply, after which it makes its socket.
        let socket = switch.folder.path().join(format!("ovs-ofctl.{}.ctl", monitor.id()));
        while !socket.exists() {
            assert!(monitor.try_wait().unwrap().is_none(), "{}: ovs-ofctl ends early", switch.version);
            thread::sleep(Duration::from_millis(1));
        }
        let mut events = BufReader::new(monitor.stderr.take().unwrap()).lines();
        switch.ofctl("add-flow", &["in_port=2,actions=output:3"]);
        wait(&mut events, "event=ADDED table=0 cookie=0 in_port=2 actions=output:3");
        switch.ofctl("del-flows", &["in_port=1"]);
        wait(&mut events, "event=DELETED reason=delete table=0 cookie=0 in_port=1 actions=output:2");
        monitor.kill().unwrap();
        monitor.wait().unwrap();
    }
}
