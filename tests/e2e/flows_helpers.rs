//! Helpers of connection tracking: data connections of FTP and TFTP pass a firewall that admits control connections
//! only.

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

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn data_connections_of_ftp_pass_with_its_helper_only() {
    need::program("curl");
    let folder = folder();
    let pair = Pair::start(folder.path());
    let shared = share(folder.path());
    let words = ["-m", "pyftpdlib", "--interface", "10.9.0.2", "--port", "21", "--directory", &shared];
    // Of Debian's Python, whose packages it needs.
    let server = pair.right.spawn(folder.path(), "ftp", "/usr/bin/python3", &words);
    pair.right.await_listener(21, &server);
    let url = "ftp://10.9.0.2/file";
    // Passive with EPSV and PASV, active with EPRT and PORT.
    let ways: [&[&str]; 4] =
        [&[], &["--disable-epsv"], &["--ftp-port", "-"], &["--ftp-port", "-", "--disable-eprt"]];
    firewall(&pair, "tcp,tp_dst=21", "");
    assert!(
        fetch(&pair, folder.path(), url, &["--disable-epsv", "--max-time", "2"]).is_err(),
        "nothing announces its data connection"
    );
    firewall(&pair, "tcp,tp_dst=21", "ftp");
    for way in ways {
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
    let root = format!("--tftp-root={}", share(folder.path()));
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
    let mut server: Process = pair.right.spawn(folder.path(), "tftp", "dnsmasq", &words);
    server.wait_for("TFTP root", 0, LIMIT);
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
