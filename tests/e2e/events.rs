//! `linerate events`: what happens to a switch is listed with its subject and its client, and followed as it happens.

use std::net::TcpListener;
use std::time::Duration;

use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// The events in lines of JSON.
fn parsed(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn changes_and_states_of_ports_are_events_that_a_client_follows() {
    let folder = folder();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let text = format!("[switch]\nweb = \"{free}\"\n[[port]]\nname = \"a\"\nkind = \"null\"\n");
    let switch = Switch::start_from(folder.path(), &text);
    let control = folder.path().join("control.sock").display().to_string();
    let words = ["--control", &control, "events", "--follow", "-o", "json"];
    let follower = Process::spawn(folder.path(), "follower", binary::linerate(), &words);
    let followed = |message: &str| {
        let found = wait::until(LIMIT, || {
            let output = follower.output();
            let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
            parsed(whole).into_iter().find(|event| event["message"] == message)
        });
        found.unwrap_or_else(|| panic!("no event \"{message}\" in {}", follower.output()))
    };
    assert_eq!(followed("added")["subject"], "port a");

    switch.tell(&["ports", "remove", "a"]).expect("the port");
    let removed = followed("removed");
    assert_eq!((&removed["port"], &removed["level"]), (&"a".into(), &"INFO".into()));
    let changed = followed("request to change the switch");
    let client = format!("user {}, process ", rustix::process::geteuid().as_raw());
    assert!(changed["peer"].as_str().is_some_and(|peer| peer.starts_with(&client)), "{changed}");
    assert_eq!((&changed["method"], &changed["status"]), (&"DELETE".into(), &200.into()));
    switch
        .tell(&["capture", "all", "--direction", "out", "--limit", "1", "-w", "/dev/full"])
        .expect_err("full");
    let begun = followed("a capture begins");
    assert_eq!((&begun["ports"], begun["peer"] == changed["peer"]), (&"all".into(), false), "{begun}");

    let all = parsed(&String::from_utf8_lossy(&switch.tell(&["events", "-o", "json"]).expect("events")));
    let numbers: Vec<_> = all.iter().map(|event| event["number"].as_u64()).collect();
    assert!(numbers.is_sorted() && numbers[0] == Some(1), "{numbers:?}");
    assert!(all.iter().all(|event| !event.to_string().contains("token=")), "{all:?}");
    let last = switch.tell(&["events", "-n", "1"]).expect("events");
    assert_eq!(String::from_utf8_lossy(&last).lines().count(), 1);
    switch.stop();
}
