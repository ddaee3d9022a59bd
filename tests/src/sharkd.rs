//! The dissectors of Wireshark, in one `sharkd` for all captures that a test program reads, because tshark takes most
//! of its time to start. A request is a line of JSON-RPC, and so is its answer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need;

/// Protocols that are read. The data of tests is no message of any other one, on any port.
pub const PROTOCOLS: &str = "frame,eth,ethertype,vlan,arp,ip,ipv6,icmp,icmpv6,tcp,udp,dhcp,gre,erspan";
/// More packets than a capture has.
pub const ALL: u32 = u32::MAX;
const PREFERENCES: &str = "ip.check_checksum: TRUE\ntcp.check_checksum: TRUE\nudp.check_checksum: TRUE\n";
/// Time limit of one answer.
const LIMIT: Duration = Duration::from_mins(5);

/// The server, from the first capture on. It ends with its standard input, at the end of the test program.
static SERVER: Mutex<Option<Server>> = Mutex::new(None);

struct Server {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Number of the last request.
    last: u64,
    _child: Child,
    _profile: TempDir,
}

impl Server {
    fn start() -> Server {
        need::program("sharkd");
        let profile = profile();
        let mut command = Command::new("sharkd");
        command.arg("-").env("WIRESHARK_CONFIG_DIR", profile.path());
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.expect("sharkd starts");
        let requests = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Server { requests, answers, last: 0, _child: child, _profile: profile }
    }

    /// Result of a method. Panics if it fails.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": parameters });
        writeln!(self.requests, "{request}").expect("sharkd reads");
        loop {
            let answer = self.answer(&request);
            // An earlier one came too late for the test that waited for it.
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{request}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn answer(&mut self, request: &Value) -> Value {
        let limit = Timespec { tv_sec: LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(self.answers.get_ref(), PollFlags::IN)], Some(&limit));
        assert!(ready.is_ok_and(|ready| ready > 0), "sharkd does not answer {request}");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("sharkd answers in UTF-8");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

/// A folder with the settings of Wireshark.
fn profile() -> TempDir {
    need::program("tshark");
    let listed = Command::new("tshark").args(["-G", "protocols"]).output().expect("tshark runs");
    let listed = String::from_utf8_lossy(&listed.stdout);
    let names = listed.lines().filter_map(|line| line.split('\t').nth(2));
    let others = names.filter(|name| !PROTOCOLS.split(',').any(|known| known == *name));
    let folder = crate::folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a new folder");
    write("disabled_protos", &others.flat_map(|name| [name, "\n"]).collect::<String>());
    write("preferences", PREFERENCES);
    folder
}

/// Packets of a capture that match each of some filters, each with a limit of their number: the values of the fields,
/// or a summary if there are no fields. Panics if a filter is not valid.
pub fn read(file: &Path, filters: &[(&str, u32)], fields: &[&str]) -> Vec<Vec<Vec<String>>> {
    // Poisoned by a panic between an answer and the next request.
    let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server.get_or_insert_with(Server::start);
    server.call("load", &json!({ "file": file }));
    let rows = |&(filter, limit): &(&str, u32)| {
        // sharkd keeps the results of a filter beyond the capture, so no two filters are equal.
        let filter = format!("({filter}) && frame.number != {}", u64::from(u32::MAX) - server.last);
        let mut parameters = json!({ "filter": filter, "limit": limit });
        for (i, field) in fields.iter().enumerate() {
            // All values of a field.
            parameters[format!("column{i}")] = format!("{field}:0").into();
        }
        let found = server.call("frames", &parameters);
        let row = |packet: &Value| serde_json::from_value(packet["c"].clone()).expect("columns");
        found.as_array().expect("a list").iter().map(row).collect()
    };
    filters.iter().map(rows).collect()
}
