//! Errors of syntax, keys and types.

use super::*;

#[test]
fn all_errors_of_a_file_are_reported_in_line_order() {
    let text = format!("[switch]\nnam = \"x\"\n{PORT}mtu = 1\n{PORT}vlan = 0\n");
    let expected = [
        "2: switch: unknown key `nam` (did you mean `name`?)",
        "6: port \"a\": invalid value 1 for `mtu`: expected 68 to 65535 (give 68 to 65535 bytes)",
        "8: port \"a\": a port of this name already exists (line 4) (rename one of them)",
        "9: port \"a\": `socket` /tmp/lr-a.sock is already used by port \"a\" (line 5) (give each port a socket of its own)",
        "10: port \"a\": invalid value 0 for `vlan`: expected 1 to 4094 (give 1 to 4094 as a VLAN)",
    ];
    assert_eq!(errors(&text), expected);
}

#[test]
fn every_syntax_error_is_named_with_its_line() {
    let found = errors("[switch]\nname = \"x\n[[worker]\ncpu = 0\nfoo bar\n");
    let expected = [
        "2: syntax: invalid basic string, expected `\"` (correct this line's TOML)",
        "3: syntax: unclosed array table, expected `]` (correct this line's TOML)",
        "5: syntax: key with no value, expected `=` (write KEY = VALUE, a [section], or # and a comment)",
    ];
    assert_eq!(found, expected);
}

#[test]
fn duplicate_key_is_rejected() {
    port_line("name = \"b\"", "4: syntax: duplicate key (remove one of the two)");
}

#[test]
fn unknown_sections_and_keys_are_answered_with_the_nearest_name() {
    only("[swich]\n", "1: unknown key `swich` (did you mean `switch`?)");
    port_line("que_pairs = 2", "4: port \"a\": unknown key `que_pairs` (did you mean `queue_pairs`?)");
    let all = "name, kind, socket, mode, socket_mode, socket_owner, socket_group, offloads, queue_pairs, mtu, \
         bridge, vlan, broadcast_limit, unknown_limit, limit_burst, trusted, macs, learn, max_macs, sources, \
         stp_priority, stp_cost, stp_edge, stp_point_to_point, bpdu_guard, multicast_router, fast_leave, lldp, \
         rss_mode, capture, trace, fault, tx_coalesce, policer, queues";
    let expected = format!("4: port \"a\": unknown key `colour` (remove it; valid keys: {all})");
    port_line("colour = 2", &expected);
}

#[test]
fn section_with_too_few_brackets_is_rejected() {
    let remedy = "write [[worker]], with two brackets on each side, or list CPUs: work = [0]";
    let reason = "`cpu` is not supported in [worker], which applies to all workers";
    only("[worker]\ncpu = 0\n", &format!("2: workers: {reason} ({remedy})"));
    only(
        "[bridge]\nname = \"x\"\n",
        "1: `bridge` is a table, not a list of sections (write [[bridge]], with two brackets on each side)",
    );
    only(
        "switch = 5\n",
        "1: switch: is an integer, not a table (write it as a section with keys of its own)",
    );
}

#[test]
fn values_of_wrong_type_are_rejected() {
    port_line("mtu = \"big\"", "4: port \"a\": `mtu` is a string, not an integer (write an integer)");
    port_line(
        "mtu = 1.5",
        "4: port \"a\": `mtu` is a number with a fraction, not an integer (write an integer)",
    );
    port_line("bridge = true", "4: port \"a\": `bridge` is true or false, not a string (write a string)");
    let expected =
        "3: bridge \"x\": `forward_reserved` is an integer, not true or false (write true or false)";
    only("[[bridge]]\nname = \"x\"\nforward_reserved = 1\n", expected);
}

#[test]
fn missing_required_keys_are_reported_at_their_section() {
    let expected = [
        "1: port 0: `name` is missing (add a line such as: name = \"guest-a\")",
        "1: port 0: `socket` is missing (add a line such as: socket = \"/run/linerate/guest-a.sock\")",
    ];
    assert_eq!(errors("[[port]]\n"), expected);
}

#[test]
fn words_outside_a_choice_are_rejected() {
    port_line(
        "mode = \"sever\"",
        "4: port \"a\": invalid value \"sever\" for `mode`: expected \"server\" or \"client\" (write \"server\" or \"client\")",
    );
    let kinds: Vec<&str> = kinds::all().map(|(name, _)| name).collect();
    let words = console::words::one_of(&kinds);
    let told =
        format!("4: port \"a\": invalid value \"pigeon\" for `kind`: expected {words} (write {words})");
    port_line("kind = \"pigeon\"", &told);
    let expected = "2: worker 0: invalid value \"lazy\" for `polling`: expected \"adaptive\" or \"busy\" (write \"adaptive\" or \"busy\")";
    only("[[worker]]\npolling = \"lazy\"\n", expected);
    let expected = "2: worker 0: invalid value \"\" for `queue_full`: expected \"drop\" or \"wait\" (write \"drop\" or \"wait\")";
    only("[[worker]]\nqueue_full = \"\"\n", expected);
}

#[test]
fn unreadable_file_is_reported_with_its_path() {
    let error = read(Path::new("/lr-nowhere.toml"), &host(), None).unwrap_err().to_string();
    assert!(error.starts_with("/lr-nowhere.toml: cannot be read: No such file"), "{error}");
    assert!(error.ends_with("remedy: name a file that exists and that you may read"), "{error}");
}

#[test]
fn printed_errors_begin_with_file_and_line() {
    let errors = parse("[switch]\nnam = 1\n", &host(), None).unwrap_err();
    let printed = Diagnostic { file: Some("s.toml".into()), ..Diagnostic::all(errors) }.to_string();
    assert_eq!(printed, "s.toml:2: switch: unknown key `nam`\n    remedy: did you mean `name`?");
}

#[test]
fn a_file_without_a_section_is_an_error() {
    for text in ["", "\n", "# nothing\n"] {
        only(text, "0: the file has no section (write at least a [switch] or a [[port]] section)");
    }
    assert_eq!(errors("[switch]\n"), [""; 0]);
}
