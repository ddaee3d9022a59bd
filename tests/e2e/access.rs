//! Access to the control API: a group changes the switch, others read it, and the log names the client of a change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder};

const LIMIT: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_second_socket_reads_only_and_changes_are_logged_with_their_client() {
    let folder = folder();
    let read = folder.path().join("read.sock");
    let text = format!(
        "[switch]\ncontrol_mode = \"0660\"\ncontrol_group = \"0\"\nread_socket = \"{}\"\n\
         [[port]]\nname = \"a\"\nkind = \"null\"\n",
        read.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    let mode =
        |name: &str| fs::metadata(folder.path().join(name)).expect("a socket").permissions().mode() & 0o777;
    assert_eq!((mode("control.sock"), mode("read.sock")), (0o660, 0o666));
    let reader = |words: &[&str]| {
        let output = Command::new(binary::linerate()).arg("--control").arg(&read).args(words).output();
        let output = output.expect("linerate runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for words in [&["status"][..], &["ports", "show"], &["config", "show"], &["workers", "show"]] {
        assert_eq!(reader(words).0, Some(0), "{words:?}");
    }
    for words in [&["ports", "remove", "a"][..], &["stop"], &["capture", "all", "-w", "/dev/null"]] {
        let (code, error) = reader(words);
        assert!(code == Some(2) && error.contains("may only read"), "{words:?}: {code:?} {error}");
    }
    switch.tell(&["ports", "remove", "a"]).expect("the port");
    let client = format!("user {}, process ", rustix::process::geteuid().as_raw());
    switch.wait_logged(&["request to change the switch", "DELETE", &client], LIMIT);
    switch.stop();
    assert!(!read.exists(), "the socket is removed with the switch");
}
