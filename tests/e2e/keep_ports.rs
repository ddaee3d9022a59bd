//! `linerate run --keep-ports`: a supervisor keeps the ports of a switch that it restarts. The test is the supervisor,
//! with the protocol of systemd (`sd_notify(3)`, `sd_listen_fds(3)`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::IoSliceMut;
use std::iter;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use linerate_tests::switch::{Port, Switch, configuration};
use linerate_tests::{binary, folder, wait};
use rustix::io::FdFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(10);

/// The socket of notices.
pub(crate) struct Supervisor(UnixDatagram);

impl Supervisor {
    pub(crate) fn new(folder: &Path) -> Self {
        let socket = UnixDatagram::bind(folder.join("notify")).expect("a socket of the test");
        socket.set_read_timeout(Some(LIMIT)).expect("a socket of the test");
        Self(socket)
    }

    /// The next notice and its descriptors, if one comes in time.
    fn receive(&self, flags: RecvFlags) -> Option<(String, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let (mut control, mut text) = (RecvAncillaryBuffer::new(&mut space), [0; 4096]);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&self.0, &mut [IoSliceMut::new(&mut text)], &mut control, flags).ok()?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        Some((String::from_utf8_lossy(&text[..got.bytes]).into_owned(), rights.flatten().collect()))
    }

    /// Notices until the next one that contains `word`.
    fn until(&self, word: &str) -> Vec<String> {
        let mut notices: Vec<String> = Vec::new();
        while !notices.last().is_some_and(|text| text.contains(word)) {
            notices.push(self.receive(RecvFlags::empty()).expect("a notice before the limit").0);
        }
        notices
    }

    /// The notices that have come, without their descriptors.
    pub(crate) fn notices(&self) -> Vec<String> {
        iter::from_fn(|| self.receive(RecvFlags::DONTWAIT)).map(|(text, _)| text).collect()
    }

    /// Ends the switch by SIGTERM. Returns what it has stored, if anything, and its notices.
    pub(crate) fn end(&self, switch: &mut Switch) -> (Option<OwnedFd>, Vec<String>) {
        let pid = Pid::from_raw(switch.pid().cast_signed()).expect("a process");
        kill_process(pid, Signal::TERM).expect("a running process");
        let (mut stored, mut notices) = (None, Vec::new());
        let ended = wait::until(LIMIT, || {
            let has_ended = !switch.is_running();
            // Descriptors of other notices are closed as soon as they are read.
            while let Some((text, mut descriptors)) = self.receive(RecvFlags::DONTWAIT) {
                if text.contains("FDSTORE=1") {
                    assert!(text.contains("FDNAME=linerate-ports") && text.contains("FDPOLL=0"), "{text}");
                    stored = descriptors.pop();
                }
                notices.push(text);
            }
            has_ended.then_some(())
        });
        assert!(ended.is_some(), "the switch does not end: {}", switch.log());
        (stored, notices)
    }
}

/// Starts the switch of `folder` as systemd does, with a stored descriptor.
fn start(folder: &Path, stored: Option<&OwnedFd>) -> Switch {
    let started = start_as(folder, stored, &[binary::linerate().into()]);
    started.unwrap_or_else(|output| panic!("linerate ended at once: {output}"))
}

/// [`start`] by the words of another command. Returns its output if it ends before it responds.
pub(crate) fn start_as(
    folder: &Path,
    stored: Option<&OwnedFd>,
    command: &[OsString],
) -> Result<Switch, String> {
    let given = stored.map_or_else(String::new, |fd| {
        rustix::io::fcntl_setfd(fd, FdFlags::empty()).expect("an open descriptor");
        let variables = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=linerate-ports";
        format!("exec 3<&{}; export {variables};", fd.as_raw_fd())
    });
    let notify = folder.join("notify");
    let script = format!("{given} NOTIFY_SOCKET={} exec \"$0\" \"$@\" --keep-ports", notify.display());
    let words = ["bash".into(), "-c".into(), script.into()];
    Switch::restart_as(folder, &[&words, command].concat())
}

/// Ends the switch. Returns what it has stored.
fn end(supervisor: &Supervisor, mut switch: Switch) -> OwnedFd {
    let (stored, notices) = supervisor.end(&mut switch);
    let place = |word| notices.iter().position(|notice| notice.contains(word));
    assert!(place("FDSTORE=1").is_some() && place("FDSTORE=1") < place("BARRIER=1"), "{notices:?}");
    stored.expect("a stored descriptor")
}

fn file(folder: &Path, others: &[&str]) {
    let (red, blue) = (folder.join("red"), folder.join("blue"));
    let port = |name, socket| Port { name, socket, client: false, pairs: 1 };
    let mut text = configuration(&[0], &[port("red", &red), port("blue", &blue)]);
    for other in others {
        let socket = folder.join(other);
        write!(text, "[[port]]\nname = \"{other}\"\nsocket = \"{}\"\n", socket.display()).expect("a string");
    }
    fs::write(folder.join("switch.toml"), text).expect("a file of the test");
}

/// Sends from one port to the other while `meanwhile` runs. Returns the report of the generator.
fn under_load<T>(folder: &Path, meanwhile: impl FnOnce() -> T) -> (Value, T) {
    let port = |name| format!("kind=virtio-user,socket={}", folder.join(name).display());
    let words = ["--cpu", "1", "-o", "json", "--warm-up", "0s", "--rate", "2kpps", "--duration", "3s"];
    let mut generator = Command::new(binary::linerate());
    generator.args(["gen", "--port", &port("red"), "--port", &port("blue")]).args(words);
    thread::scope(|scope| {
        let load = scope.spawn(move || generator.output().expect("a program"));
        let done = meanwhile();
        let output = load.join().expect("the generator ends");
        (serde_json::from_slice(&output.stdout).expect("a report of the generator"), done)
    })
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn ports_continue_after_a_restart_by_a_supervisor() {
    let folder = folder();
    let folder = folder.path();
    let supervisor = Supervisor::new(folder);
    file(folder, &["removed"]);
    let first = start(folder, None);
    supervisor.until("READY=1");
    let (report, second) = under_load(folder, || {
        first.wait_running("red", 1, LIMIT);
        first.wait_running("blue", 1, LIMIT);
        thread::sleep(Duration::from_millis(300));
        let stored = end(&supervisor, first);
        file(folder, &["added"]);
        let second = start(folder, Some(&stored));
        let notices = supervisor.until("READY=1");
        assert!(notices.iter().any(|notice| notice.contains("FDSTOREREMOVE=1")), "{notices:?}");
        second
    });
    assert_eq!((report["lost"].as_u64(), report["faults"].as_u64()), (Some(0), Some(0)), "{report}");
    let sent = report["sent"].as_u64().unwrap_or_default();
    // The counters are those of both processes.
    let [from, to] = second.settled(&["red", "blue"])[..] else { panic!("two ports") };
    assert_eq!((from.rx_packets, to.tx_packets), (sent, sent), "{from:?} {to:?}");
    second.wait_state("added", "waiting", LIMIT);
    let ports = second.ask(&["ports", "show"]).expect("ports");
    assert_eq!(ports.as_array().map(Vec::len), Some(3), "{ports}");
    drop(end(&supervisor, second));
    // Nothing of the ports hinders a start without them.
    start(folder, None).stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn an_exchange_of_another_kind_is_named_and_ports_are_opened() {
    let folder = folder();
    let folder = folder.path();
    let supervisor = Supervisor::new(folder);
    file(folder, &[]);
    let (other, stored) = std::os::unix::net::UnixStream::pair().expect("sockets");
    drop(other);
    let switch = start(folder, Some(&stored.into()));
    supervisor.until("READY=1");
    switch.wait_logged(&["ports are opened again", "the other process closed the connection"], LIMIT);
    switch.wait_state("red", "waiting", LIMIT);
    drop(end(&supervisor, switch));
}
