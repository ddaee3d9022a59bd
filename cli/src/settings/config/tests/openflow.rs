//! Controllers of bridges.

use super::*;
use crate::settings::openflow::{FailMode, OpenflowSettings};

/// A file whose bridge with flow tables has these lines, from line 7 on.
fn file(lines: &str) -> String {
    format!("{PORT}[[bridge]]\nname = \"br0\"\npipeline = \"openflow\"\n{lines}\n")
}

/// The only error of such a file.
#[track_caller]
fn told(lines: &str, expected: &str) {
    only(&file(lines), &format!("7: bridge \"br0\": {expected}"));
}

fn settings(lines: &str, control: &str) -> OpenflowSettings {
    let topology = parse(&file(lines), &host(), Some(Path::new(control))).unwrap();
    topology.bridges[0].openflow.clone().unwrap()
}

#[test]
fn options_of_tunnels_are_read_and_bound_before_the_flows() {
    let option = "{class=0x102,type=0x80,len=4}->tun_metadata0";
    let lines = format!("tunnel_options = [\"{option}\"]");
    let shown: Vec<_> =
        settings(&lines, "/tmp/a.sock").tunnel_options.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [option]);
    let flow = "\n[[flow]]\nflow = \"tun_metadata0=5,actions=drop\"\n";
    let parsed = |lines: &str| parse(&format!("{}{flow}", file(lines)), &host(), None);
    assert!(parsed(&lines).unwrap().flow_changes("br0").is_ok());
    let errors = |lines: &str| format!("{:?}", parsed(lines).unwrap_err());
    assert!(errors("").contains("not bound to an option"), "{}", errors(""));
    for (lines, wanted) in [
        ("tunnel_options = [\"{class=1,type=1,len=8}->tun_metadata5\"]", "tun_metadata5 has 4 bytes"),
        ("tunnel_options = [\"{class=1,type=1}->tun_metadata5\"]", "expected `{class=CLASS"),
        ("tunnel_options = []", "empty list"),
    ] {
        assert!(errors(lines).contains(wanted), "{}", errors(lines));
    }
}

#[test]
fn controllers_are_read_and_completed() {
    let set = settings(
        "controllers = [\"tcp:192.0.2.1\", \"ptcp:6653:127.0.0.1\"]\nfail_mode = \"standalone\"\n\
         datapath_id = \"00000000000000ab\"\nprobe_interval = \"1s\"\nmax_backoff = \"2s\"\nsocket_mode = \"0660\"\n\
         max_flows = 10",
        "/tmp/lr-control.sock",
    );
    let shown: Vec<_> = set.controllers.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["tcp:192.0.2.1:6653", "ptcp:6653:127.0.0.1"]);
    assert_eq!((set.fail_mode, set.datapath_id.map(|id| id.0)), (FailMode::Standalone, Some(0xab)));
    assert_eq!(set.management.as_deref(), Some(Path::new("/tmp/br0.mgmt")));
    assert_eq!(set.max_flows, 10);
    let [first, second] = ["/tmp/a.sock", "/tmp/b.sock"].map(|control| settings("", control));
    assert_eq!(first.datapath_id, second.datapath_id);
    assert!(first.datapath_id.is_some() && first.fail_mode == FailMode::Secure);
    let own = settings("management = \"/tmp/lr-own.mgmt\"", "/tmp/a.sock");
    assert_eq!(own.management.as_deref(), Some(Path::new("/tmp/lr-own.mgmt")));
}

#[test]
fn each_key_of_controllers_has_its_error() {
    told(
        "controllers = [\"udp:192.0.2.1\"]",
        "`controllers` lists \"udp:192.0.2.1\": the method is not tcp, ssl, unix, ptcp, pssl or punix \
         (write a list such as controllers = [\"tcp:192.0.2.1:6653\"])",
    );
    told("controllers = [\"tcp:a\", \"tcp:a:6653\"]", "`controllers` lists tcp:a:6653 twice (list it once)");
    let many: Vec<_> = (0..17).map(|i| format!("\"tcp:a:{}\"", i + 1)).collect();
    told(&format!("controllers = [{}]", many.join(", ")), "`controllers` has 17 entries (list at most 16)");
    told(
        "controllers = [\"pssl:\"]",
        "`controllers` lists pssl:6653:0.0.0.0, and the bridge has no `tls` \
         (add a section [bridge.tls] with private_key, certificate and ca_certificate)",
    );
    told(
        "tls = { private_key = \"/tmp/a\" }",
        "`tls` needs the paths of three files (write private_key, certificate and ca_certificate in [bridge.tls])",
    );
    told(
        "fail_mode = \"standalone\"",
        "`fail_mode` is \"standalone\", and the bridge connects to no controller \
         (list a controller with tcp, ssl or unix in `controllers`, or write pipeline = \"learning\")",
    );
    told(
        "local = \"green\"",
        "there is no port \"green\" on bridge \"br0\" (name \"a\", or add a [[port]] section with this name)",
    );
    told(
        "datapath_id = \"1\"",
        "invalid value \"1\" for `datapath_id`: expected 16 hexadecimal digits \
         (write such as \"0000020000000001\", and not only zeros)",
    );
    told(
        "probe_interval = \"10ms\"",
        "invalid value 10ms for `probe_interval`: expected 1s to 1h (give 1s to 1h)",
    );
    told(
        "management = \"br0.mgmt\"",
        "`management` br0.mgmt: the path is not absolute (begin it with /, so that guests use the same file)",
    );
}

#[test]
fn files_and_sockets_of_a_bridge_are_validated() {
    told(
        "tls = { private_key = \"/nonexistent/a\", certificate = \"/dev/null\", ca_certificate = \"/dev/null\" }",
        "`private_key` /nonexistent/a: it cannot be read: No such file or directory (os error 2) \
         (name a file in PEM that the switch may read)",
    );
    told(
        "controllers = [\"punix:/tmp/lr-m.sock\"]\nmanagement = \"/tmp/lr-m.sock\"",
        "`controllers` /tmp/lr-m.sock is already used by the switch (give each socket a path of its own)",
    );
    only(
        &file("management = \"/tmp/lr-a.sock\""),
        "3: port \"a\": `socket` is a socket of a bridge (give the port a path of its own)",
    );
}

#[test]
fn a_learning_bridge_has_no_controllers() {
    let lines = "[[bridge]]\nname = \"br0\"\ncontrollers = [\"tcp:a\"]\n";
    let expected = "6: bridge \"br0\": `controllers` has no effect: the bridge has no flow tables \
        (write pipeline = \"openflow\", or remove it)";
    only(&format!("{PORT}{lines}"), expected);
}
