//! `linerate capture` on running ports: tcpdump and tshark read what a switch writes, with directions and reasons.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, need, wait};

const LIMIT: Duration = Duration::from_secs(20);
/// Source address that port `blue` does not allow.
const FOREIGN: &str = "02:00:00:00:00:66";

/// Two namespaces on one bridge; `blue` may send from its own address only.
struct Lab {
    folder: tempfile::TempDir,
    switch: Switch,
    ends: [Netns; 2],
}

fn lab() -> Lab {
    let (folder, ends) = (folder(), [Netns::new(), Netns::new()]);
    let port = |name: &str, netns: &Netns, more: &str| {
        let netns = netns.name();
        format!(
            "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"{name}0\"\nnetns = \"{netns}\"\n{more}"
        )
    };
    let text = port("red", &ends[0], "") + &port("blue", &ends[1], "macs = [\"02:00:00:00:00:02\"]\n");
    let switch = Switch::start_from(folder.path(), &text);
    for (k, (netns, name)) in ends.iter().zip(["red0", "blue0"]).enumerate() {
        netns.wait_link(name, true, LIMIT);
        netns.disable_ipv6();
        netns.ip(&format!("link set {name} address 02:00:00:00:00:0{}", k + 1));
        netns.configure(name, &[&format!("10.0.0.{}/24", k + 1)]);
    }
    ends[0].ping("10.0.0.2", 1, &[]);
    Lab { folder, switch, ends }
}

impl Lab {
    fn capture(&self, name: &str, words: &[&str]) -> (Process, std::path::PathBuf) {
        let file = self.folder.path().join(name);
        let control = self.folder.path().join("control.sock").display().to_string();
        let path = file.display().to_string();
        let words = [&["--control", &control, "capture"], words, &["-w", &path]].concat();
        let capture = Process::spawn(self.folder.path(), &format!("{name}-log"), binary::linerate(), &words);
        // The head of the file says that workers have their ends.
        let begun =
            wait::until(LIMIT, || fs::metadata(&file).is_ok_and(|found| found.len() > 0).then_some(()));
        assert!(begun.is_some(), "{}", capture.output());
        std::thread::sleep(Duration::from_millis(100));
        (capture, file)
    }
}

/// Fields of the packets of a file that match a filter, a line each.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    need::program("tshark");
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", filter, "-T", "fields", "-E", "separator=/t", "-r"]).arg(file);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.stderr(Stdio::null()).output().expect("tshark runs");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs root, tcpdump and tshark: run by `cargo xtask test`"]
fn packets_are_captured_with_port_direction_and_reason() {
    let lab = lab();
    let (mut capture, file) = lab.capture("all.pcapng", &["all", "--limit", "14"]);
    lab.ends[0].ping("10.0.0.2", 3, &["-i", "0.05"]);
    // Each of two frames is received and dropped.
    lab.ends[1].ip(&format!("link set blue0 address {FOREIGN}"));
    let _ = lab.ends[1].attempt("ping", &["-c", "2", "-i", "0.05", "-W", "1", "10.0.0.1"]);
    assert!(capture.finish(LIMIT).success(), "{}", capture.output());

    let of = |filter: &str| tshark(&file, filter, &["frame.interface_name", "frame.packet_flags_direction"]);
    let replies = of("icmp.type == 0 && eth.src == 02:00:00:00:00:02");
    assert_eq!(replies.len(), 6, "{replies:?}");
    let [into, out] = ["0x00000001", "0x00000002"];
    assert_eq!(replies[..2], [format!("blue\t{into}"), format!("red\t{out}")], "{replies:?}");
    let lost = tshark(&file, &format!("eth.src == {FOREIGN} && frame.comment"), &["frame.comment"]);
    assert!(!lost.is_empty() && lost.iter().all(|why| why == "dropped: mac-violation"), "{lost:?}");
    lab.switch.stop();
}

#[test]
#[ignore = "needs root and tcpdump: run by `cargo xtask test`"]
fn filters_and_readers_end_captures_and_cost_nothing_afterwards() {
    let lab = lab();
    let words = ["red", "--filter", "icmp[icmptype] == icmp-echo", "--direction", "in", "--snaplen", "60"];
    let control = lab.folder.path().join("control.sock").display().to_string();
    let mut capture = Command::new(binary::linerate())
        .args(["--control", &control, "capture"])
        .args(words)
        .args(["-w", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("linerate runs");
    let output = capture.stdout.take().expect("a pipe");
    let words = ["-n", "-c", "3", "-r", "-"];
    let reader = {
        // It holds the pipe open until it is dropped.
        let mut command = Command::new("tcpdump");
        command.args(words).stdin(output).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("tcpdump runs")
    };
    std::thread::sleep(Duration::from_millis(300));
    lab.ends[0].ping("10.0.0.2", 5, &["-i", "0.1"]);
    let read = reader.wait_with_output().expect("tcpdump ends");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    assert!(text.lines().count() == 3 && text.lines().all(|line| line.contains("echo request")), "{text}");
    // The next piece finds no reader, and the switch ends the capture.
    lab.ends[0].ping("10.0.0.2", 3, &["-i", "0.1"]);
    assert!(capture.wait().expect("linerate ends").success());
    lab.switch.wait_logged(&["a capture has ended"], LIMIT);
    for (words, reason) in [
        (&["none", "-w", "x"][..], "there is no such port"),
        (&["red", "--filter", "tcp port", "-w", "x"], "syntax error"),
        (&["red", "--limit", "0", "-w", "x"], "0 is not in"),
    ] {
        let error = lab.switch.tell(&[&["capture"], words].concat()).expect_err("a mistake");
        assert!(error.contains(reason), "{error}");
    }
    lab.switch.stop();
}

/// Wireshark's plug-in, for the switch of a lab.
struct Plugin {
    /// Words of `env` before those of the plug-in.
    words: Vec<String>,
    folder: PathBuf,
}

impl Plugin {
    fn of(lab: &Lab) -> Plugin {
        let programs = binary::linerate().parent().expect("a folder").display();
        let path = std::env::var("PATH").expect("a path");
        let folder = lab.folder.path().to_owned();
        let control = folder.join("control.sock").display().to_string();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/wireshark/linerate").to_owned();
        let words = vec![format!("PATH={programs}:{path}"), format!("LINERATE_CONTROL={control}"), script];
        Plugin { words, folder }
    }

    /// What a call prints that must succeed.
    fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("env").args(&self.words).args(words).output().expect("env runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Captures red's ICMP packets into a new pipe, which `tcpdump` reads with `words`.
    fn capture(&self, name: &str, words: &[&str]) -> (Process, Child) {
        let fifo = self.folder.join(name).display().to_string();
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
        let mut reader = Command::new("tcpdump");
        reader.args(["-n", "-r", &fifo]).args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        let reader = reader.spawn().expect("tcpdump runs");
        let own = ["--capture", "--extcap-interface", "linerate-red", "--fifo", &fifo];
        let settings = ["--extcap-capture-filter", "icmp", "--direction", "in", "--snaplen", "100"];
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(own).chain(settings).collect();
        (Process::spawn(&self.folder, &format!("{name}-log"), "env", &words), reader)
    }
}

#[test]
#[ignore = "needs root and tcpdump: run by `cargo xtask test`"]
fn wireshark_finds_ports_and_captures_them() {
    need::program("tcpdump");
    let lab = lab();
    let plugin = Plugin::of(&lab);
    let interfaces = plugin.ask(&["--extcap-interfaces", "--extcap-version=4.0"]);
    for name in ["linerate", "linerate-red", "linerate-blue"] {
        assert!(interfaces.contains(&format!("interface {{value={name}}}")), "{interfaces}");
    }
    let links = plugin.ask(&["--extcap-dlts", "--extcap-interface", "linerate-red"]);
    assert!(links.starts_with("dlt {number=1}{name=EN10MB}"), "{links}");
    let settings = plugin.ask(&["--extcap-config", "--extcap-interface", "linerate-red"]);
    for option in ["--direction", "--snaplen", "--filter", "--control"] {
        assert!(settings.contains(&format!("{{call={option}}}")), "{settings}");
    }
    let validate =
        |filter| plugin.ask(&["--extcap-interface", "linerate", "--extcap-capture-filter", filter]);
    assert!(validate("icmp").is_empty() && validate("icmp or").contains("syntax error"));

    // A reader that closes the pipe ends the capture, also without a further packet.
    let (mut capture, reader) = plugin.capture("closed", &["-c", "3"]);
    lab.switch.wait_logged(&["a capture begins"], LIMIT);
    std::thread::sleep(Duration::from_millis(300));
    lab.ends[0].ping("10.0.0.2", 5, &["-i", "0.1"]);
    let text = String::from_utf8(reader.wait_with_output().expect("tcpdump ends").stdout).expect("text");
    assert!(text.lines().count() == 3 && text.lines().all(|line| line.contains("echo request")), "{text}");
    assert!(capture.finish(LIMIT).success(), "{}", capture.output());
    assert_eq!(capture.output(), "", "Wireshark shows it as an error");

    let (mut capture, reader) = plugin.capture("ended", &[]);
    let begun = || (lab.switch.log().matches("a capture begins").count() == 2).then_some(());
    assert!(wait::until(LIMIT, begun).is_some(), "{}", capture.output());
    std::thread::sleep(Duration::from_millis(300));
    lab.ends[0].ping("10.0.0.2", 5, &["-i", "0.1"]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(capture.terminate(LIMIT).success(), "{}", capture.output());
    let read = reader.wait_with_output().expect("tcpdump ends");
    let lines = String::from_utf8_lossy(&read.stdout).lines().count();
    assert!(read.status.success() && lines == 5, "{read:?}");
    lab.switch.stop();
}
