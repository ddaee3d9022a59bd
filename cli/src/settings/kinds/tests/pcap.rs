//! Validation of pcap ports.

use crate::host::Host;
use crate::settings::config;

/// All errors of a port with these lines, in a directory with a file `there`.
fn said(lines: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("there"), "no capture").unwrap();
    let (host, dir) = (Host::of(&[0], &[0]), dir.path().display().to_string());
    let lines = lines.replace("DIR", &dir);
    let text = format!("[[port]]\nname = \"a\"\nkind = \"pcap\"\n{lines}\n");
    let errors = config::parse(&text, &host, None).err().unwrap_or_default();
    let said = errors.iter().map(|m| format!("{}: {} -> {}", m.line.unwrap_or(0), m.headline(), m.remedy));
    said.map(|text| text.replace(&dir, "DIR").replace("port \"a\": ", "")).collect()
}

#[test]
fn each_invalid_value_is_rejected_with_a_remedy() {
    for (lines, expected) in [
        ("", "1: neither `read` nor `write` is set -> add a line such as: read"),
        ("write = \"out.pcapng\"", "4: `write` out.pcapng: the path is not absolute -> begin it with /"),
        ("write = \"DIR/no/x\"", "4: `write` DIR/no/x: its directory does not exist -> mkdir -p DIR/no"),
        (
            "write = \"DIR/there\"",
            "4: `write` DIR/there already exists and would be overwritten -> move it away",
        ),
        ("write = \"/dev/null\"\noverwrite = true", "4: `write` /dev/null is not a regular file"),
        ("write = \"DIR\"", "4: `write` DIR is a directory -> add the file's own name"),
        ("read = \"DIR/there\"", "4: DIR/there is neither pcap nor pcapng -> name"),
        (
            "read = \"DIR/not\"",
            "4: DIR/not cannot be read: No such file or directory (os error 2) -> name a file",
        ),
        ("write = \"DIR/x\"\npace = 2", "5: `pace` has no effect without `read` -> add"),
        (
            "write = \"DIR/x\"\npace = 0",
            "5: invalid value 0 for `pace`: expected 0.001 to 1000000 -> give 0.001 to 1000000 times",
        ),
        (
            "write = \"DIR/x\"\npace = \"slow\"",
            "5: invalid value \"slow\" for `pace`: expected \"recorded\", \"fast\" or a factor -> write \"recorded\", \"fast\" or a factor",
        ),
        ("write = \"DIR/x\"\nrepeat = 0", "5: invalid value 0 for `repeat`: expected 1 to"),
        (
            "write = \"DIR/x\"\nafter = \"soon\"",
            "5: `after` \"soon\" is not a duration -> expected a number with a unit",
        ),
        ("write = \"DIR/x\"\ncapture = 3", "5: `capture` is an integer, not a file's path, or { file ="),
        ("write = \"DIR/x\"\ncapture = {}", "5: `file` is missing -> add a line such as: file ="),
        ("write = \"DIR/x\"\ncapture = \"x\"", "5: `capture` x: the path is not absolute -> begin it with /"),
        (
            "write = \"DIR/x\"\ntrace = \"DIR/there\"",
            "5: `trace` DIR/there already exists and would be overwritten",
        ),
        (
            "write = \"DIR/x\"\ncapture = { file = \"DIR/y\", snap = 13 }",
            "5: invalid value 13 for `snap`: expected 14 to 65550",
        ),
        ("write = \"DIR/x\"\nfault = 3", "5: `fault` is an integer, not a table, such as { seed"),
        ("write = \"DIR/x\"\nfault = { seed = 3 }", "5: `fault` contains no fault -> add a fault"),
        (
            "write = \"DIR/x\"\nfault = { drop = 1.5 }",
            "5: invalid value 1.5 for `drop`: expected 0 to 1 -> write a probability from 0 to 1",
        ),
        (
            "write = \"DIR/x\"\nfault = { drop = nan }",
            "5: invalid value NaN for `drop`: expected 0 to 1 -> write a probability from 0 to 1",
        ),
        (
            "write = \"DIR/x\"\nfault = { drop = 1, dorp = 1 }",
            "5: unknown key `dorp` -> did you mean `drop`?",
        ),
        (
            "write = \"DIR/x\"\nfault = { delay = 3 }",
            "5: invalid value 3 for `delay`: expected a duration with a unit -> write \"3s\"",
        ),
        (
            "write = \"DIR/x\"\nfault = { delay = [\"2ms\", \"1ms\"] }",
            "5: invalid value 2ms to 1ms for `delay`: expected two times in ascending order",
        ),
    ] {
        let said = said(lines);
        assert_eq!(said.len(), 1, "{lines}: {said:#?}");
        assert!(said.first().is_some_and(|first| first.starts_with(expected)), "{lines}: {said:#?}");
    }
}

#[test]
fn two_ports_do_not_write_to_one_file() {
    let others = "write = \"DIR/x\"\n[[port]]\nname = \"b\"\nkind = \"null\"\ncapture = \"DIR/../DIR/x\"";
    let said = said(&others.replace("DIR/../DIR", "DIR/."));
    assert_eq!(
        said,
        [
            "8: port \"b\": `capture` DIR/./x is already used by port \"a\" (line 4) -> give each port a capture of its own"
        ]
    );
}
