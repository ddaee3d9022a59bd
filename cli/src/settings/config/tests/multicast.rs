//! Multicast snooping of bridges and ports.

use super::*;
use snooping::{Config, Querier, RouterPort};
use std::time::Duration;

/// A file whose bridge has this value of `multicast_snooping`, in line 7.
fn file(port: &str, value: &str) -> String {
    format!("{PORT}{port}\n[[bridge]]\nname = \"br0\"\nmulticast_snooping = {value}\n")
}

#[track_caller]
fn wrong(value: &str, expected: &str) {
    only(&file("", value), &format!("7: bridge \"br0\": {expected}"));
}

#[test]
fn snooping_is_read_and_shown() {
    let all = "{ max_groups = 100, max_groups_per_port = 10, membership_interval = \"50s\", query_interval = \"20s\", \
        flood_unregistered = false, querier = true, querier_address = \"192.0.2.1\" }";
    let topology =
        parse(&file("multicast_router = \"never\"\nfast_leave = true", all), &host(), None).unwrap();
    let expected = Config {
        max_groups: 100,
        max_groups_per_port: 10,
        membership_interval: Duration::from_secs(50),
        query_interval: Duration::from_secs(20),
        flood_unregistered: false,
        querier: Some(Querier { address: [192, 0, 2, 1].into() }),
    };
    let (bridge, port) = (&topology.bridges[0], &topology.ports[0]);
    assert_eq!(bridge.multicast.as_ref().unwrap().config(), expected);
    assert!(bridge.to_string().contains("multicast snooping of 100 groups with querier"), "{bridge}");
    assert_eq!((port.links.multicast.router(), port.links.multicast.fast_leave), (RouterPort::Never, true));
    assert!(port.to_string().contains("no multicast router, fast leave"), "{port}");
    let default = parse(&file("", "{}"), &host(), None).unwrap();
    assert_eq!(default.bridges[0].multicast.as_ref().unwrap().config(), Config::default());
    let slow = parse(&file("", "{ query_interval = \"60s\" }"), &host(), None).unwrap();
    let interval = slow.bridges[0].multicast.as_ref().unwrap().config().membership_interval;
    assert_eq!(interval, Duration::from_secs(130));
}

#[test]
fn each_key_of_snooping_has_its_error() {
    wrong(
        "true",
        "`multicast_snooping` is true or false, not a table such as { querier = true } \
         (write a table such as { querier = true })",
    );
    wrong("{ querrier = true }", "unknown key `querrier` (did you mean `querier`?)");
    wrong(
        "{ max_groups = 0 }",
        "invalid value 0 for `max_groups`: expected 1 to 65536 (give 1 to 65536 groups)",
    );
    wrong(
        "{ querier_address = \"239.0.0.1\" }",
        "invalid value \"239.0.0.1\" for `querier_address`: expected an IPv4 address (write such as \"192.0.2.1\")",
    );
    only(
        &format!("{PORT}[[bridge]]\nname = \"br0\"\npipeline = \"openflow\"\nmulticast_snooping = {{}}\n"),
        "7: bridge \"br0\": `multicast_snooping` is not supported: the bridge has flow tables \
         (write pipeline = \"learning\", or remove it)",
    );
    only(
        &format!("{PORT}fast_leave = true\n[[bridge]]\nname = \"br0\"\n"),
        "4: port \"a\": `fast_leave` has no effect: bridge \"br0\" has no multicast snooping \
         (write multicast_snooping = {} in the [[bridge]] section, or remove the key)",
    );
}
