//! The control API over TCP: clients with certificates and tokens, and 1,000 connections of others at once.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::process::anonymous_memory;
use linerate_tests::switch::{Port, Switch, configuration};
use linerate_tests::{binary, folder, need, wait};

const LIMIT: Duration = Duration::from_secs(30);
const WRITE: &str = "0123456789abcdef0123456789abcdef";
const READ: &str = "fedcba9876543210fedcba9876543210";
/// Connections of a server at one time (`cli/src/api/server.rs`), and descriptors of its other work.
const MOST: usize = 256;
const OTHERS: usize = 32;
/// What a connection may occupy in bytes: buffers of TLS and of a request's head.
const MEMORY: u64 = 64 << 10;

/// An authority with certificates, and tokens, in a folder.
pub(crate) struct Pki<'a>(&'a Path);

impl Pki<'_> {
    pub(crate) fn new(folder: &Path) -> Pki<'_> {
        need::program("openssl");
        let pki = Pki(folder);
        pki.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt");
        fs::write(pki.path("extensions"), "subjectAltName=IP:127.0.0.1").expect("a file");
        for name in ["switch", "client"] {
            pki.openssl(&format!("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"));
            pki.openssl(&format!("x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out {name}.crt"));
        }
        pki.secret("tokens", &format!("operator write {WRITE}\nreader read {READ}\n"));
        pki.secret("write", WRITE);
        pki.secret("read", READ);
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn secret(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).expect("a file");
    }

    fn openssl(&self, words: &str) {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(self.0).output();
        let output = output.expect("openssl runs");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The `[switch]` section of a switch with the API at this port.
    fn section(&self, port: u16) -> String {
        self.section_at(&format!("127.0.0.1:{port}"))
    }

    /// The `[switch]` section of a switch with the API at this address.
    pub(crate) fn section_at(&self, address: &str) -> String {
        let file = |name: &str| format!("\"{}\"", self.path(name).display());
        format!(
            "[switch]\napi = {{ address = \"{address}\", certificate = {}, private_key = {}, client_ca = {}, \
             token_file = {} }}\n",
            file("switch.crt"),
            file("switch.key"),
            file("ca.crt"),
            file("tokens")
        )
    }

    /// Runs a verb over TCP, with options whose values are files of this folder. Returns exit code and output.
    fn tell(&self, port: u16, options: &[(&str, &str)], verb: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(binary::linerate());
        command.args(["--control", &format!("https://127.0.0.1:{port}")]);
        for (option, file) in options {
            command.arg(option).arg(self.path(file));
        }
        let output = command.args(verb).output().expect("linerate runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}

const CA: (&str, &str) = ("--control-ca", "ca.crt");
const WRITER: [(&str, &str); 2] = [CA, ("--control-token-file", "write")];
const READER: [(&str, &str); 2] = [CA, ("--control-token-file", "read")];
const CERTIFIED: [(&str, &str); 3] =
    [CA, ("--control-certificate", "client.crt"), ("--control-key", "client.key")];

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
#[ignore = "needs a switch and openssl: run by `cargo xtask test`"]
fn certificates_and_tokens_decide_who_may_do_what_and_the_log_has_their_names() {
    let folder = folder();
    let (pki, port) = (Pki::new(folder.path()), free_port());
    let text = format!("{}[[port]]\nname = \"a\"\nkind = \"null\"\n", pki.section(port));
    let switch = Switch::start_from(folder.path(), &text);
    for options in [&WRITER[..], &READER, &CERTIFIED] {
        let (code, output) = pki.tell(port, options, &["ports", "show"]);
        assert!(code == Some(0) && output.contains("null"), "{options:?}: {output}");
    }
    let add = ["ports", "add", "b", "--kind", "null"];
    let (code, output) = pki.tell(port, &READER, &add);
    assert!(code == Some(2) && output.contains("may only read"), "{output}");
    let (code, output) = pki.tell(port, &READER, &["capture", "all", "-w", "/dev/null"]);
    assert!(code == Some(2) && output.contains("may only read"), "{output}");
    assert_eq!(pki.tell(port, &WRITER, &add).0, Some(0));
    assert_eq!(pki.tell(port, &CERTIFIED, &["ports", "remove", "b"]).0, Some(0));
    switch.wait_logged(&["POST", "token operator, 127.0.0.1:", "201"], LIMIT);
    switch.wait_logged(&["DELETE", "certificate CN=client, 127.0.0.1:", "200"], LIMIT);
    let outside = ["ports", "add", "c", "--socket", "/run/lr-none.sock"];
    let (code, output) = pki.tell(port, &WRITER, &outside);
    assert!(code == Some(2) && output.contains("outside of the directories"), "{output}");

    pki.secret("wrong", &WRITE.replace('0', "1"));
    let unknown = [CA, ("--control-token-file", "wrong")];
    let (code, output) = pki.tell(port, &unknown, &["status"]);
    assert!(code == Some(2) && output.contains("neither a valid certificate nor a valid token"), "{output}");
    let (code, output) = pki.tell(port, &[("--control-ca", "client.crt"), WRITER[1]], &["status"]);
    assert!(code == Some(1) && output.contains("certificate"), "{output}");
    let (code, output) = pki.tell(port, &WRITER[1..], &["status"]);
    assert!(code == Some(2) && output.contains("--control-ca"), "{output}");

    pki.secret("tokens", &format!("operator write {READ}\n"));
    assert_eq!(pki.tell(port, &WRITER, &["status"]).0, Some(2), "a removed token is valid");
    assert_eq!(pki.tell(port, &READER, &["ports", "remove", "a"]).0, Some(0));
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_configuration_without_clients_or_with_bad_files_is_refused() {
    let folder = folder();
    let pki = Pki::new(folder.path());
    let whole = pki.section(9443);
    let cases = [
        (whole.replace("client_ca", "x"), "unknown key `x`"),
        (whole.replace("ca.crt", "none.crt"), "cannot be read"),
        (
            format!("{}}}\n", whole.split(", client_ca").next().expect("text")),
            "every host could change the switch",
        ),
        (whole.replace("certificate = ", "# "), "`api`"),
    ];
    for (text, reason) in cases {
        let file = pki.path("bad.toml");
        fs::write(&file, format!("{text}[[port]]\nname = \"a\"\nkind = \"null\"\n")).expect("a file");
        let output =
            Command::new(binary::linerate()).arg("check").arg(&file).output().expect("linerate runs");
        let error = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(reason), "{text}: {error}");
    }
}

/// Number of open descriptors of a process.
fn descriptors(switch: &Switch) -> usize {
    fs::read_dir(format!("/proc/{}/fd", switch.pid())).expect("descriptors").count()
}

/// Connections of strangers: a third says nothing, a third begins a handshake and stops, a third sends garbage.
fn strangers(port: u16, count: usize) -> Vec<TcpStream> {
    // Type handshake, version 1.0, 512 bytes: the rest never comes.
    let begin = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let garbage = [0xff; 4096];
    let stranger = |index: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nonblocking(true).expect("a socket");
        let bytes: &[u8] = [&[][..], &begin, &garbage][index % 3];
        // The switch may have closed the connection.
        let _ = stream.write(bytes);
        Some(stream)
    };
    (0..count).filter_map(stranger).collect()
}

#[test]
#[ignore = "needs a switch and openssl: run by `cargo xtask test`"]
fn a_thousand_connections_of_strangers_leave_the_api_and_packets_alone() {
    let folder = folder();
    let (pki, port) = (Pki::new(folder.path()), free_port());
    let [a, b] = ["a.sock", "b.sock"].map(|name| folder.path().join(name));
    let guest = |name, socket| Port { name, socket, client: false, pairs: 1 };
    let ports = configuration(&[0], &[guest("a", &a), guest("b", &b)]);
    let switch = Switch::start_from(folder.path(), &format!("{}{ports}", pki.section(port)));
    let receiver = Guest::endless(folder.path(), "receiver", "--connect", &[&b], &["--mode", "rxonly"]);
    let sender = Guest::endless(folder.path(), "sender", "--connect", &[&a], &["--mode", "txonly"]);
    let passed =
        |from: u64| wait::until(LIMIT, || Some(switch.counters("b").tx_packets).filter(|now| *now > from));
    let before = passed(10_000).expect("packets pass");
    let (usual, own) = (descriptors(&switch), anonymous_memory(switch.pid()));
    let mut strangers = strangers(port, 1_000);
    assert!(strangers.len() > MOST, "only {} connections", strangers.len());
    let now = descriptors(&switch);
    assert!(now <= usual + MOST + OTHERS, "{now} descriptors, {usual} before");
    let now = anonymous_memory(switch.pid());
    println!("{} bytes for {MOST} connections", now.saturating_sub(own));
    assert!(now <= own + MOST as u64 * MEMORY, "{now} bytes, {own} before");
    // The control socket has a thread of its own.
    switch.ask(&["status"]).expect("an answer at the control socket");
    assert!(passed(before + 100_000).is_some(), "packets do not pass");
    // Each of the strangers is closed at its deadline, so that others are served in their turn.
    let served = wait::until(2 * LIMIT, || (pki.tell(port, &READER, &["status"]).0 == Some(0)).then_some(()));
    assert!(served.is_some(), "the API does not answer beside strangers");
    let is_open = |stream: &mut TcpStream| match stream.read(&mut [0; 64]) {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    };
    let closed = wait::until(2 * LIMIT, || {
        strangers.retain_mut(is_open);
        strangers.is_empty().then_some(())
    });
    assert!(closed.is_some(), "{} strangers are still connected", strangers.len());
    let fallen = wait::until(LIMIT, || (descriptors(&switch) <= usual + OTHERS).then_some(()));
    assert!(fallen.is_some(), "{} descriptors, {usual} before", descriptors(&switch));
    drop((sender.end(), receiver.end()));
    switch.stop();
}
