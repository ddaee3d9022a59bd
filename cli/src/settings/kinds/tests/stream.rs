//! Validation of stream ports.

use crate::host::Host;
use crate::settings::config;

/// `line: error (remedy)` for every error of one port with these lines, of which the first is line 4.
fn errors(lines: &str) -> Vec<String> {
    let text = format!("[[port]]\nname = \"a\"\nkind = \"stream\"\n{lines}\n");
    let host = Host::of(&[0], &[0]);
    let Err(errors) = config::parse(&text, &host, None) else { return Vec::new() };
    let told = errors.into_iter();
    told.map(|m| format!("{}: {} ({})", m.line.unwrap_or(0), m.headline(), m.remedy)).collect()
}

#[test]
fn a_port_is_at_a_path_or_at_an_address() {
    let neither = "1: port \"a\": neither `socket` nor `address` is set (add a line such as: \
        socket = \"/run/linerate/guest-a.sock\", or address = \"127.0.0.1:5555\")";
    assert_eq!(errors(""), [neither]);
    let both = "5: port \"a\": both `socket` and `address` are set (remove one of them)";
    assert_eq!(errors("socket = \"/tmp/lr-s\"\naddress = \"127.0.0.1:1\""), [both]);
    let told = |text: &str| {
        format!(
            "4: port \"a\": `address` \"{text}\" is not an IP address with a port \
             (write it as 127.0.0.1:5555 or [::1]:5555)"
        )
    };
    for text in ["localhost:5555", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", ":5555", ""] {
        assert_eq!(errors(&format!("address = \"{text}\"")), [told(text)]);
    }
    let relative = errors("socket = \"s\"");
    assert!(relative[0].contains("`socket` s: the path is not absolute"), "{relative:?}");
}

#[test]
fn keys_that_a_stream_port_lacks_are_rejected() {
    let lines = "address = \"127.0.0.1:5555\"\nqueue_pairs = 2\nmtu = 1500";
    let expected = [
        "5: port \"a\": `queue_pairs` is 2, and a port of kind \"stream\" has one pair of queues (remove it)",
        "6: port \"a\": `mtu` is not a key of a port of kind \"stream\" (remove it)",
    ];
    assert_eq!(errors(lines), expected);
}

#[test]
fn an_address_is_listened_on_once_and_called_by_many() {
    let second = |mode: &str| {
        format!("[[port]]\nname = \"b\"\nkind = \"stream\"\naddress = \"127.0.0.1:5555\"\n{mode}")
    };
    let taken = errors(&format!("address = \"127.0.0.1:5555\"\n{}", second("")));
    let expected = "8: port \"b\": `address` 127.0.0.1:5555 is already used by port \"a\" (line 4) \
        (give each port an address of its own)";
    assert_eq!(taken, [expected]);
    let client = "mode = \"client\"";
    assert_eq!(errors(&format!("address = \"127.0.0.1:5555\"\n{}", second(client))), [""; 0]);
}
