//! Interfaces that are missing, deleted or unsuitable, and a switch that is killed.

use super::{LIMIT, Site, refused, start};
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};

/// Waits until a port waits for its interface.
fn wait_down(switch: &Switch, port: &str) {
    switch.wait_state(port, "waiting", LIMIT);
    let reason = switch.port(port)["reason"].to_string();
    assert!(reason.contains("is down"), "{reason}");
}

/// A fault of one port does not affect the others: it is reported, retried, and ends when the interface is back.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn deleted_interface_is_named_and_reattached() {
    for kind in ["af_xdp", "af_packet"] {
        let (folder, site) = (folder(), Site::new(1, 1500));
        let third = Netns::new();
        site.host.cable("lan3", &third, "eth0");
        third.configure("eth0", &["10.9.0.3/24"]);
        let ports = [1, 2, 3].map(|number| site.port(number, kind, ""));
        let switch = start(folder.path(), &ports);
        third.ping("10.9.0.2", 2, &[]);
        site.host.ip("link delete lan3");
        switch.wait_state("p3", "faulted", LIMIT);
        // A retry, whose reason replaces this one, may have failed already.
        let live = switch.port("p3");
        let (why, history) = (live["reason"].to_string(), live["history"].to_string());
        assert!(why.contains("lan3 in the namespace"), "{why}");
        assert!(why.contains("was deleted") || history.contains("was deleted"), "{live}");
        site.left.ping("10.9.0.2", 2, &[]);
        // By now a retry has failed, and its reason is reported.
        let told =
            || switch.port("p3")["reason"].to_string().contains("there is no interface lan3").then_some(());
        assert!(wait::until(LIMIT, told).is_some(), "{}", switch.port("p3"));
        site.host.cable("lan3", &third, "eth0");
        third.configure("eth0", &["10.9.0.3/24"]);
        switch.wait_state("p3", "connected", LIMIT);
        third.ping("10.9.0.1", 2, &[]);
        // An interface that is down is not gone: traffic resumes when it is up again.
        site.host.ip("link set lan3 down");
        wait_down(&switch, "p3");
        site.left.ping("10.9.0.2", 2, &[]);
        site.host.ip("link set lan3 up");
        switch.wait_state("p3", "connected", LIMIT);
        third.ping("10.9.0.1", 2, &[]);
        // Without carrier the kernel would discard the packets uncounted.
        third.ip("link set eth0 down");
        wait_down(&switch, "p3");
        let _ = site.left.attempt("ping", &["-c", "3", "-i", "0.1", "-W", "1", "10.9.0.3"]);
        let lost = switch.port("p3")["drops"]["port-down"].as_u64();
        assert!(lost.is_some_and(|lost| lost > 0), "{}", switch.port("p3"));
        third.ip("link set eth0 up");
        switch.wait_state("p3", "connected", LIMIT);
        third.ping("10.9.0.1", 2, &[]);
        switch.assert_sums_agree(&["p1", "p2", "p3"]);
        switch.stop();
    }
}

/// An interface missing at the start affects only its own port, and only while it is missing.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn port_waits_for_a_missing_interface_while_others_run() {
    for kind in ["af_xdp", "af_packet"] {
        let (folder, site) = (folder(), Site::new(1, 1500));
        let third = Netns::new();
        let nowhere = site.port(4, "tap", "").replace(site.host.name(), "linerate-nowhere");
        let switch = start(
            folder.path(),
            &[site.port(1, kind, ""), site.port(2, kind, ""), site.port(3, kind, ""), nowhere],
        );
        for (port, why) in [("p3", "there is no interface lan3"), ("p4", "there is no network namespace")] {
            switch.wait_state(port, "faulted", LIMIT);
            let told = switch.port(port)["reason"].to_string();
            assert!(told.contains("cannot be created yet") && told.contains(why), "{told}");
        }
        site.left.ping("10.9.0.2", 2, &[]);
        site.host.cable("lan3", &third, "eth0");
        third.configure("eth0", &["10.9.0.3/24"]);
        switch.wait_state("p3", "connected", LIMIT);
        third.ping("10.9.0.1", 2, &[]);
        switch.assert_sums_agree(&["p1", "p2", "p3", "p4"]);
        switch.tell(&["ports", "remove", "p4"]).unwrap();
        switch.stop();
    }
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn killed_switch_leaves_no_xdp_program() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let attached = || site.host.link("lan1").unwrap()["xdp"]["mode"].as_u64().unwrap_or(0) != 0;
    let switch = site.switch(folder.path(), "af_xdp", "");
    assert!(attached());
    switch.kill();
    assert!(wait::until(LIMIT, || (!attached()).then_some(())).is_some(), "the program is still there");
    let switch = Switch::restart(folder.path());
    site.left.ping("10.9.0.2", 2, &[]);
    switch.stop();
    assert!(!attached());
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn invalid_interfaces_are_rejected_with_a_remedy() {
    let (other, site) = (folder(), Site::new(1, 1500));
    for kind in ["af_xdp", "af_packet"] {
        let said = refused(2, &[site.port(7, kind, "")]);
        assert!(
            said.contains("there is no interface lan7 in the namespace") && said.contains("p7"),
            "{said}"
        );
        let nowhere = site.port(1, kind, "").replace(site.host.name(), "no-such-namespace");
        let said = refused(2, &[nowhere]);
        assert!(said.contains("there is no network namespace /run/netns/no-such-namespace"), "{said}");
    }
    let said = refused(2, &[site.port(1, "af_xdp", "queue_pairs = 2")]);
    assert!(said.contains("has 1 queues and the port 2\n    remedy: write queue_pairs = 1"), "{said}");
    let said = refused(2, &[site.port(1, "af_xdp", "mode = \"zero-copy\"")]);
    assert!(said.contains("has no zero copy\n    remedy: write mode"), "{said}");
    let said = refused(2, &[site.port(1, "af_xdp", "to_kernel = [\"tcp ssh\"]")]);
    assert!(said.contains("`tcp ssh` is not a valid rule"), "{said}");
    let switch = start(other.path(), &[site.port(1, "af_xdp", "")]);
    let said = refused(2, &[site.port(1, "af_xdp", "")]);
    assert!(said.contains("has an AF_XDP socket of another program at queue 0"), "{said}");
    switch.stop();
}
