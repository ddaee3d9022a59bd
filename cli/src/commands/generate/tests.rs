use super::input;
use super::report::{LoopbackBaseline, Report};
use crate::args::generator::{GenArgs, long_help};
use crate::args::{Cli, Command};
use clap::Parser;
use generator::Sizes;
use generator::meter::Summary;
use generator::rig::{Outcome, StreamOutcome};

fn args(words: &[&str]) -> GenArgs {
    let words = ["linerate", "gen"].iter().chain(words);
    match Cli::try_parse_from(words).unwrap().command {
        Command::Gen(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn told(words: &[&str]) -> String {
    console::verdict("linerate", &input::read(&args(words)).unwrap_err()).1.unwrap()
}

const PAIR: [&str; 4] = ["--port", "kind=patch,name=a,peer=b", "--port", "kind=patch,name=b,peer=a"];

#[test]
fn flags_make_a_stream_and_ports() {
    let words = ["--size", "68:7,570:4", "--flows", "9", "--vlan", "1,2", "--set", "vary={ttl={random=1}}"];
    let input = input::read(&args(&[&PAIR[..], &words].concat())).unwrap();
    assert_eq!(input.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let stream = &input.streams[0];
    assert_eq!((stream.flows, &stream.vlan[..], stream.vary.len()), (9, &[1, 2][..], 1));
    assert_eq!(stream.size, Sizes::Table { mix: vec![(68, 7), (570, 4)] });
}

#[test]
fn a_file_has_streams_and_ports() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("streams.toml");
    let text = "[[stream]]\nname = \"small\"\nsize = 60\n[[stream]]\nsize = \"imix\"\nrate = \"1kpps\"\n\
        vlan = [5]\nvxlan = { vni = 7 }\n[stream.vary]\nsource = { count = 4, step = 2 }\n\
        [[port]]\nkind = \"virtio-user\"\nsocket = \"/tmp/lr-none.sock\"\n";
    std::fs::write(&path, text).unwrap();
    let refused = told(&[path.to_str().unwrap()]);
    assert!(
        refused.contains("stream 1: `size`: 64 bytes are too few") && refused.contains("write 114 or more"),
        "{refused}"
    );
    std::fs::write(&path, text.replace("\"imix\"", "200")).unwrap();
    let input = input::read(&args(&[path.to_str().unwrap()])).unwrap();
    assert_eq!((input.streams.len(), input.ports.len()), (2, 1));
    let twice = told(&[path.to_str().unwrap(), "--size", "64"]);
    assert!(twice.contains("the file has streams as well"), "{twice}");
    std::fs::write(&path, "[[stream]]\nname = \"a\"\nsiez = 60\n").unwrap();
    let unknown = told(&[path.to_str().unwrap()]);
    assert!(unknown.contains("streams.toml:3: unknown field `siez`"), "{unknown}");
}

#[test]
fn invalid_input_is_rejected_with_place_reason_and_remedy() {
    assert!(told(&[]).contains("there are 0 ports, and a generator has one or two"));
    assert!(told(&["--port", "tap"]).contains("`tap` has no `=`"));
    assert!(told(&["--port", "kind=null,vlan=7"]).contains("the send port: `vlan` is not supported"));
    assert!(told(&["--port", "kind=null,kind=tap"]).contains("`kind` is given twice"));
    let unknown = told(&["--port", "kind=null", "--set", "colour=red"]);
    assert!(unknown.contains("--set colour=red: unknown field `colour`"), "{unknown}");
    let short = told(&["--port", "kind=null", "--size", "59"]);
    assert!(
        short.contains(
            "the command line, stream 0: `size`: a size of 59 bytes is out of range\n    remedy: write 60"
        ),
        "{short}"
    );
    let kind = told(&["--port", "kind=nothing"]);
    assert!(kind.contains("remedy: "), "{kind}");
}

#[test]
fn value_of_wrong_type_is_rejected_with_key_and_expected_form() {
    for (set, reason, remedy) in [
        ("rate=5", "`rate`: `5` is not a rate", "write 10kpps, 2.5Gbit/s"),
        ("size=70000", "`size`: a size of 70000 bytes is out of range", "write 60 to 9212"),
        (
            "size=5.5",
            "`size`: 5.5 is not a list of sizes",
            "write a number such as 64, several such as [64, 1514]",
        ),
        (
            "vary={ttl={rand=1}}",
            "`vary`: `ttl`: {\"rand\":1} is not a pattern",
            "write { count = 4, from = 1",
        ),
        (
            "vary={ttl={list=[\"x\"]}}",
            "`vary`: `ttl`: `list` holds \"x\"",
            "write whole numbers, or addresses",
        ),
        ("flows=\"x\"", "invalid type: string \"x\", expected u32", "write a key of a [[stream]] section"),
    ] {
        let refused = told(&[&PAIR[..], &["--set", set]].concat());
        let expected = format!("--set {set}: {reason}\n    remedy: {remedy}");
        assert!(refused.contains(&expected), "{refused}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("streams.toml");
    std::fs::write(&path, "[[stream]]\nname = \"a\"\nvary = { ttl = { rand = 1 } }\n").unwrap();
    let refused = told(&[path.to_str().unwrap()]);
    assert!(
        refused.contains("streams.toml:3: `vary`: `ttl`: {\"rand\":1} is not a pattern\n    remedy: write"),
        "{refused}"
    );
    std::fs::write(&path, "[[stream]]\nrate = 5\n").unwrap();
    let refused = told(&[path.to_str().unwrap()]);
    assert!(
        refused.contains("streams.toml:2: `rate`: `5` is not a rate\n    remedy: write 10kpps"),
        "{refused}"
    );
}

#[test]
fn addresses_that_change_may_be_texts() {
    let set = "vary={source={list=[\"10.0.0.1\"]},source_mac={count=2,from=\"02:00:00:00:00:07\"}}";
    let input = input::read(&args(&[&PAIR[..], &["--set", set]].concat())).unwrap();
    assert_eq!(input.streams[0].vary.len(), 2);
}

#[test]
fn flags_beside_a_capture_are_refused_by_name() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/pcap/pcap-microseconds");
    for (flag, value) in
        [("--size", "64"), ("--vlan", "1"), ("--source", "198.18.0.1"), ("--source-mac", "02:00:00:00:00:01")]
    {
        let refused = told(&[&PAIR[..], &["--pcap", capture, flag, value]].concat());
        assert!(
            refused.contains(&format!("--pcap with {flag}: frames of a capture are sent unchanged")),
            "{refused}"
        );
    }
    let refused = told(&[&PAIR[..], &["--pcap", capture, "--set", "mpls=[16]"]].concat());
    assert!(
        refused.contains(
            "stream 0: `mpls`: conflicts with `pcap`, whose frames determine it\n    remedy: remove one of the two"
        ),
        "{refused}"
    );
}

#[test]
fn a_port_that_never_sends_and_receives_is_refused_before_it_is_waited_for() {
    assert!(
        told(&["--port", "kind=null"])
            .contains("the send port: no frame is received from a port of kind \"null\"")
    );
    let written = told(&["--port", "kind=pcap,write=/tmp/lr-none.pcapng"]);
    assert!(
        written.contains("the send port: no frame is received from a file that is only written"),
        "{written}"
    );
    let alone = told(&["--port", "kind=patch,name=a,peer=b"]);
    assert!(
        alone.contains("the send port: the `peer` of this patch port is not among these ports"),
        "{alone}"
    );
    let other = told(&[&PAIR[..2], &["--port", "kind=null"]].concat());
    assert!(other.contains("remedy: add the port that `peer` names"), "{other}");
}

#[test]
fn streams_of_one_name_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("streams.toml");
    let validated = |text: &str| {
        std::fs::write(&path, text).unwrap();
        told(&[&PAIR[..], &[path.to_str().unwrap()]].concat())
    };
    let both = validated("[[stream]]\nname = \"a\"\n[[stream]]\n[[stream]]\nname = \"a\"\n");
    assert!(both.contains("streams.toml: streams 0 and 2 are both called \"a\""), "{both}");
    let numbered = validated("[[stream]]\nname = \"1\"\n[[stream]]\n");
    assert!(numbered.contains("streams 0 and 1 are both called \"1\""), "{numbered}");
}

/// Keys of `vary` that a stream has, by its own error.
fn fields(set: &[&str]) -> Vec<String> {
    let words: Vec<_> = set.iter().flat_map(|set| ["--set", set]).collect();
    let told = told(&[&PAIR[..], &["--set", "vary={none={count=1}}", "--set", "size=300"], &words].concat());
    let names = told.split("name one of ").nth(1).unwrap().lines().next().unwrap();
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_manual_has_every_field_of_a_stream() {
    let six = ["source=\"::1\"", "destination=\"::2\""];
    let tunnel = "vxlan={source=\"::1\",destination=\"::2\"}";
    let some = [
        &["vlan=[1,2,3,4]", "mpls=[1,2,3,4]", "transport=\"tcp\"", "vxlan={}"][..],
        &[&six[..], &[tunnel]].concat(),
    ];
    let fields = some.into_iter().flat_map(fields);
    let help = long_help();
    let words: std::collections::BTreeSet<_> =
        help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    for word in fields {
        assert!(words.contains(word.as_str()), "{word}");
    }
    let dir = tempfile::tempdir().unwrap();
    console::manual::man(<crate::args::Cli as clap::CommandFactory>::command(), Some(dir.path())).unwrap();
    let page = std::fs::read_to_string(dir.path().join("linerate-gen.1")).unwrap();
    assert!(page.contains("Patterns:"), "{page}");
}

#[test]
fn the_table_has_the_jitter_of_the_floor_and_the_variation_of_both() {
    let stream = |jitter_ns: f64, p99| {
        let ipdv_ns = Summary { p99, ..Summary::default() };
        StreamOutcome { name: "a".to_owned(), jitter_ns, ipdv_ns, ..StreamOutcome::default() }
    };
    let outcome = |stream| Outcome { streams: vec![stream], ..Outcome::default() };
    let (own, most) = (outcome(stream(1_500.0, 2_500)), outcome(StreamOutcome::default()));
    let baseline = LoopbackBaseline::new(&own, &most);
    let report = Report::new(&args(&PAIR), &[], None, outcome(stream(7_500.0, 8_500)), Some(baseline));
    let text = report.text(false);
    let ends: Vec<_> =
        text.lines().take(3).map(|line| line.split_whitespace().rev().take(3).collect::<Vec<_>>()).collect();
    assert_eq!(ends[0], ["p99", "IPDV", "JITTER"], "{text}");
    assert_eq!((&ends[1][..2], &ends[2][..2]), (&["8.5", "7.5"][..], &["2.5", "1.5"][..]), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        (&json["baseline"]["jitter_ns"][0], &json["baseline"]["ipdv_ns"][0]["p99"]),
        (&1_500.0.into(), &2_500.into())
    );
}
