//! Helpers of connection tracking: data connections of FTP and TFTP pass a firewall that admits control connections
//! only, and follow the translation of their control connections.

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_tests::process::Process;
use linerate_tests::{folder, need};

use crate::flows::Pair;

const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 1 << 20;

/// A firewall that admits control connections from the left to this port of the right, with and without their helper.
fn firewall(pair: &Pair, control: &str, helper: &str) {
    let helper = if helper.is_empty() { String::new() } else { format!(",alg={helper}") };
    let open = format!(
        "table=1,priority=9,in_port=left,{control},ct_state=+new-rel,actions=ct(commit{helper}),output:right"
    );
    pair.add(&[
        "priority=2,arp,in_port=left,actions=output:right",
        "priority=2,arp,in_port=right,actions=output:left",
        "table=0,priority=1,ip,actions=ct(table=1)",
        &open,
        "table=1,priority=8,in_port=left,ip,ct_state=+rel+new,actions=ct(commit),output:right",
        "table=1,priority=8,in_port=right,ip,ct_state=+rel+new,actions=ct(commit),output:left",
        "table=1,priority=7,in_port=left,ip,ct_state=+est,actions=output:right",
        "table=1,priority=7,in_port=right,ip,ct_state=+est,actions=output:left",
    ]);
}

/// Fetches a file and compares it.
fn fetch(pair: &Pair, folder: &Path, url: &str, more: &[&str]) -> Result<(), String> {
    let target = folder.join("fetched");
    let _ = fs::remove_file(&target);
    let path = target.to_str().expect("UTF-8");
    let words = ["--silent", "--show-error", "--max-time", "5", "--output", path];
    pair.left.attempt("curl", &[&words, more, &[url]].concat())?;
    let same =
        fs::read(&target).expect("curl writes it") == fs::read(folder.join("shared/file")).expect("the file");
    same.then_some(()).ok_or_else(|| "the file differs".to_owned())
}

fn share(folder: &Path) -> String {
    let shared = folder.join("shared");
    fs::create_dir(&shared).expect("a folder");
    let bytes: Vec<u8> = (0..BYTES).map(|n| ((n * 31) >> 4) as u8).collect();
    fs::write(shared.join("file"), bytes).expect("a file");
    shared.to_str().expect("UTF-8").to_owned()
}

/// Passive with EPSV and PASV, active with EPRT and PORT.
const WAYS: [&[&str]; 4] =
    [&[], &["--disable-epsv"], &["--ftp-port", "-"], &["--ftp-port", "-", "--disable-eprt"]];

/// A server of FTP on the right.
fn ftp_server(pair: &Pair, folder: &Path) -> Process {
    let shared = share(folder);
    let words = ["-m", "pyftpdlib", "--interface", "10.9.0.2", "--port", "21", "--directory", &shared];
    // Of Debian's Python, whose packages it needs.
    let server = pair.right.spawn(folder, "ftp", "/usr/bin/python3", &words);
    pair.right.await_listener(21, &server);
    server
}

/// A server of TFTP on the right.
fn tftp_server(pair: &Pair, folder: &Path) -> Process {
    let root = format!("--tftp-root={}", share(folder));
    let words = [
        "--keep-in-foreground",
        "--user=root",
        "--conf-file=/dev/null",
        "--pid-file=",
        "--log-facility=-",
        "--port=0",
        "--enable-tftp",
        &root,
    ];
    let mut server = pair.right.spawn(folder, "tftp", "dnsmasq", &words);
    server.wait_for("TFTP root", 0, LIMIT);
    server
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn data_connections_of_ftp_pass_with_its_helper_only() {
    need::program("curl");
    let folder = folder();
    let pair = Pair::start(folder.path());
    let server = ftp_server(&pair, folder.path());
    let url = "ftp://10.9.0.2/file";
    firewall(&pair, "tcp,tp_dst=21", "");
    assert!(
        fetch(&pair, folder.path(), url, &["--disable-epsv", "--max-time", "2"]).is_err(),
        "nothing announces its data connection"
    );
    firewall(&pair, "tcp,tp_dst=21", "ftp");
    for way in WAYS {
        if let Err(error) = fetch(&pair, folder.path(), url, way) {
            panic!("{way:?}: {error}\n{}", server.output());
        }
    }
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn data_of_tftp_pass_with_its_helper_only() {
    need::program("curl");
    need::program("dnsmasq");
    let folder = folder();
    let pair = Pair::start(folder.path());
    let server = tftp_server(&pair, folder.path());
    let url = "tftp://10.9.0.2/file";
    firewall(&pair, "udp,tp_dst=69", "");
    assert!(fetch(&pair, folder.path(), url, &["--max-time", "2"]).is_err(), "nothing announces its data");
    pair.switch.tell(&["ct", "flush"]).expect("the switch runs");
    firewall(&pair, "udp,tp_dst=69", "tftp");
    if let Err(error) = fetch(&pair, folder.path(), url, &["--max-time", "20"]) {
        panic!("{error}\n{}", server.output());
    }
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

/// Control connections from the left to this port are translated, and admitted with what they announce.
fn translate(pair: &Pair, control: &str, helper: &str, nat: &str) {
    pair.switch.tell(&["ct", "flush"]).expect("the switch runs");
    let begin =
        format!("priority=9,in_port=left,{control},actions=ct(commit,alg={helper},nat({nat}),table=1)");
    let open = format!("table=1,priority=9,in_port=left,{control},ct_state=+new-rel,actions=output:right");
    pair.add(&[
        "priority=2,arp,in_port=left,actions=output:right",
        "priority=2,arp,in_port=right,actions=output:left",
        &begin,
        "priority=1,ip,actions=ct(nat,table=1)",
        &open,
        "table=1,priority=8,in_port=left,ip,ct_state=+rel+new,actions=ct(commit,nat),output:right",
        "table=1,priority=8,in_port=right,ip,ct_state=+rel+new,actions=ct(commit,nat),output:left",
        "table=1,priority=7,in_port=left,ip,ct_state=+est,actions=output:right",
        "table=1,priority=7,in_port=right,ip,ct_state=+est,actions=output:left",
    ]);
}

/// Hosts know the translated addresses as neighbours: that of the left is 10.9.0.100, that of the right 10.9.0.200.
fn introduce(pair: &Pair) {
    for (netns, other, address) in
        [(&pair.right, &pair.left, "10.9.0.100"), (&pair.left, &pair.right, "10.9.0.200")]
    {
        let link = other.link("eth0").expect("the interface");
        let mac = link["address"].as_str().expect("text");
        netns.ip(&format!("neigh replace {address} lladdr {mac} dev eth0"));
    }
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn ftp_passes_translated_sources_and_destinations_in_every_mode() {
    need::program("curl");
    let folder = folder();
    let pair = Pair::start(folder.path());
    let server = ftp_server(&pair, folder.path());
    introduce(&pair);
    for (nat, url) in [("src=10.9.0.100", "ftp://10.9.0.2/file"), ("dst=10.9.0.2", "ftp://10.9.0.200/file")] {
        translate(&pair, "tcp,tp_dst=21", "ftp", nat);
        for way in WAYS {
            // The client must believe the address in the reply to PASV.
            let more = [way, &["--no-ftp-skip-pasv-ip"]].concat();
            if let Err(error) = fetch(&pair, folder.path(), url, &more) {
                panic!("{nat} {way:?}: {error}\n{}", server.output());
            }
        }
    }
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn tftp_passes_translated_sources_and_destinations() {
    need::program("curl");
    need::program("dnsmasq");
    let folder = folder();
    let pair = Pair::start(folder.path());
    let server = tftp_server(&pair, folder.path());
    introduce(&pair);
    for (nat, url) in [("src=10.9.0.100", "tftp://10.9.0.2/file"), ("dst=10.9.0.2", "tftp://10.9.0.200/file")]
    {
        translate(&pair, "udp,tp_dst=69", "tftp", nat);
        if let Err(error) = fetch(&pair, folder.path(), url, &["--max-time", "20"]) {
            panic!("{nat}: {error}\n{}", server.output());
        }
    }
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}
