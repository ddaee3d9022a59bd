//! `linerate apply` and `config save` on a running switch: ports whose settings do not change lose no packet.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use linerate_tests::switch::{Port, Switch, configuration};
use linerate_tests::{folder, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SWITCH_CPU: usize = 0;
const GENERATOR_CPU: &str = "1";
const LIMIT: Duration = Duration::from_secs(10);

/// Ports of which one changes with each application, beside those under load.
const OTHERS: usize = 62;

fn vhost<'a>(name: &'a str, socket: &'a Path) -> Port<'a> {
    Port { name, socket, client: false, pairs: 1 }
}

/// The configuration of two ports under load and [`OTHERS`], the last of which has this VLAN.
fn file(base: &str, folder: &Path, vlan: usize) -> String {
    let mut text = base.to_owned();
    for i in 0..OTHERS {
        let socket = folder.join(format!("other-{i}"));
        let last = if i + 1 == OTHERS { format!("vlan = {vlan}\n") } else { String::new() };
        let socket = socket.display();
        write!(text, "[[port]]\nname = \"other-{i}\"\nsocket = \"{socket}\"\n{last}").expect("a string");
    }
    text
}

fn apply(switch: &Switch, folder: &Path, text: &str) -> Result<Value, String> {
    let path = folder.join("new.toml");
    fs::write(&path, text).expect("a file of the test");
    switch.ask(&["apply", &path.display().to_string()])
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn ports_that_do_not_change_lose_no_packet() {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let base = configuration(&[SWITCH_CPU], &[vhost("red", &red), vhost("blue", &blue)]);
    let switch = Switch::start_from(folder.path(), &file(&base, folder.path(), 1));
    let ends = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let applying = scope.spawn(|| {
            let mut applied = 0;
            while !ends.load(Ordering::Relaxed) {
                applied += 1;
                let changes = apply(&switch, folder.path(), &file(&base, folder.path(), 1 + applied % 2));
                let changes = changes.expect("a valid file");
                let only =
                    [changes["changes"][0]["object"].as_str(), changes["changes"][1]["object"].as_str()];
                assert!(only == [Some("port \"other-61\""), None], "{changes}");
            }
            applied
        });
        let ports = [&red, &blue].map(|socket| format!("kind=virtio-user,socket={}", socket.display()));
        let words =
            ["gen", "--port", &ports[0], "--port", &ports[1], "--cpu", GENERATOR_CPU, "--warm-up", "0s"];
        let more = ["--rate", "5kpps", "--duration", "1s"];
        let report = switch.ask(&[&words[..], &more].concat());
        ends.store(true, Ordering::Relaxed);
        let applied = applying.join().expect("every file was applied");
        assert!(applied > 3, "{applied} applications during the run");
        report.expect("a report of the generator")
    });
    let (sent, lost) = (report["sent"].as_u64().unwrap_or_default(), report["lost"].as_u64());
    assert!(sent > 4000 && lost == Some(0), "{report}");
    let [red, blue] = switch.settled(&["red", "blue"])[..] else { panic!("two ports") };
    // Both sides have announced an address.
    assert_eq!((red.rx_packets, blue.queue_full + blue.other_drops), (sent, 0), "{red:?} {blue:?}");
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn saved_changes_survive_a_restart_and_sighup_takes_others_back() {
    let folder = folder();
    let [red, blue, green] = ["red", "blue", "green"].map(|name| folder.path().join(name));
    let text =
        format!("# Guests\n{}", configuration(&[SWITCH_CPU], &[vhost("red", &red), vhost("blue", &blue)]));
    let switch = Switch::start_from(folder.path(), &text);
    let socket = green.display().to_string();
    switch.tell(&["ports", "add", "green", "--socket", &socket, "--save"]).expect("a port");
    switch.tell(&["ports", "remove", "red"]).expect("the port");
    let shown = String::from_utf8(switch.tell(&["config", "show"]).expect("a file")).expect("text");
    assert!(shown.starts_with("# Guests\n") && !shown.contains("\"red\""), "{shown}");
    // The file has the first change and not the second one, which SIGHUP takes back.
    let names = |switch: &Switch| -> Vec<String> {
        let ports = switch.ask(&["ports", "show"]).expect("ports");
        let ports = ports.as_array().expect("a list").iter();
        ports.map(|port| port["settings"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(&switch), ["blue", "green"]);
    let pid = Pid::from_raw(i32::try_from(switch.pid()).expect("a process")).expect("a process");
    kill_process(pid, Signal::HUP).expect("a running process");
    let is_back = wait::until(LIMIT, || (names(&switch) == ["red", "blue", "green"]).then_some(()));
    assert!(is_back.is_some(), "{:?}", names(&switch));
    let path = folder.path().join("less.toml");
    fs::write(&path, configuration(&[SWITCH_CPU], &[vhost("red", &red)])).expect("a file of the test");
    let diff = switch.ask(&["apply", &path.display().to_string(), "--diff"]).expect("a valid file");
    let changes = diff["changes"].as_array().expect("changes").iter().map(|change| &change["object"]);
    assert_eq!(changes.collect::<Vec<_>>(), ["port \"blue\"", "port \"green\""], "{diff}");
    assert_eq!((diff["done"].as_bool(), names(&switch).len()), (Some(false), 3));
    // A file that cannot be applied changes nothing.
    let bad = format!("{text}[[port]]\nname = \"bad\"\nkind = \"af_packet\"\ninterface = \"lr-none\"\n");
    let error = apply(&switch, folder.path(), &bad).expect_err("an interface that does not exist");
    assert!(error.contains("port \"bad\"") && error.contains("runs again"), "{error}");
    assert_eq!(names(&switch), ["red", "blue", "green"]);
    switch.stop();
    let switch = Switch::restart(folder.path());
    assert_eq!(names(&switch), ["red", "blue", "green"]);
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn objects_that_are_saved_survive_a_restart() {
    let folder = folder();
    let port = |name: &str| {
        format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n", folder.path().join(name).display())
    };
    let ports = ["red", "blue", "green"].map(port).concat();
    let threads = "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [0]\ntx = [0]\n\n";
    let switch = Switch::start_from(folder.path(), &format!("{threads}{ports}"));
    for change in [
        &["ports", "set", "green", "mtu=9000", "vlan=7"][..],
        &["bonds", "add", "pair", "--ports", "red,blue"],
        &["bonds", "set", "pair", "mode=balance-slb"],
        &["mirrors", "add", "probe", "--source-ports", "pair", "--output-port", "green"],
        &["bridges", "add", "lan", "--set", "table=1024"],
        &["ports", "add", "second", "--kind", "null", "--bridge", "lan"],
        &["bridges", "set", "lan", "ageing=60s", "max_macs_per_port=8"],
        &["workers", "add", "--role", "work", "--cpu", "1"],
        &["workers", "remove", "1"],
    ] {
        switch.tell(&[change, &["--save"]].concat()).unwrap_or_else(|error| panic!("{change:?}: {error}"));
    }
    let refused = switch.tell(&["bridges", "remove", "lan"]).expect_err("a bridge with a port");
    assert!(refused.contains("it has the ports second"), "{refused}");
    let shown = |switch: &Switch| {
        let of = |noun: &str| switch.ask(&[noun, "show"]).unwrap_or_else(|error| panic!("{noun}: {error}"));
        let [ports, bonds, mirrors, bridges, workers] =
            ["ports", "bonds", "mirrors", "bridges", "workers"].map(of);
        let settings = |list: &Value| -> Vec<Value> {
            let list = list.as_array().into_iter().flatten();
            list.map(|object| object["settings"].clone()).collect()
        };
        let limits = |bridge: &Value| -> Vec<Value> {
            let ports = bridge["ports"].as_array().into_iter().flatten();
            ports.map(|port| port["max_macs"].clone()).collect()
        };
        let bridges = bridges.as_array().into_iter().flatten();
        let bridges: Vec<_> = bridges.map(|bridge| (bridge["name"].clone(), limits(bridge))).collect();
        // Each role of a thread is one; the one that classified packets at the start was removed.
        let workers = workers["workers"].as_array().map(Vec::len);
        (settings(&ports), settings(&bonds), settings(&mirrors), bridges, workers)
    };
    let before = shown(&switch);
    assert_eq!(
        (before.0.len(), before.1.len(), before.2.len(), before.3.len(), before.4),
        (4, 1, 1, 2, Some(3))
    );
    assert_eq!(before.3[1], ("lan".into(), vec![8.into()]));
    let fixed =
        switch.tell(&["bridges", "set", "lan", "table=2048"]).expect_err("the table is that of the start");
    assert!(fixed.contains("change while it runs"), "{fixed}");
    switch.stop();
    let switch = Switch::restart(folder.path());
    assert_eq!(shown(&switch), before);
    for change in [&["ports", "remove", "second"][..], &["bridges", "remove", "lan"]] {
        switch.tell(&[change, &["--save"]].concat()).unwrap_or_else(|error| panic!("{change:?}: {error}"));
    }
    switch.stop();
    let switch = Switch::restart(folder.path());
    assert_eq!(shown(&switch).3.len(), 1);
    switch.stop();
}
