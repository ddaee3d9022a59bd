use super::parts::Guest;
use super::setup::{Job, job};
use crate::args::bench::{BenchArgs, RunArgs};
use crate::args::bench_options::BenchOptions;
use crate::args::{Cli, Command};
use clap::Parser;
use generator::Sizes;
use rfc2544::{Test, Topology};

fn args(words: &[&str]) -> BenchArgs {
    let words = ["linerate", "bench"].iter().chain(words);
    match Cli::try_parse_from(words).unwrap().command {
        Command::Bench(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn run_args(words: &[&str]) -> RunArgs {
    args(words).bench
}

fn validated(words: &[&str]) -> anyhow::Result<Job> {
    job(&run_args(words).options, "the command line")
}

fn told(words: &[&str]) -> String {
    let (code, text) = console::verdict("linerate", &validated(words).unwrap_err());
    assert_eq!(code, console::BAD_INPUT, "{text:?}");
    text.unwrap()
}

#[test]
fn flags_set_the_plan_and_omitted_ones_have_defaults() {
    let words =
        ["--sizes", "64,imix", "--tests", "latency,back-to-back", "--loss", "1%", "--duration", "500ms"];
    let plan = run_args(&words).options.plan();
    assert_eq!(plan.sizes, [Sizes::Fixed(64), Sizes::Named("imix".into())]);
    assert_eq!(plan.tests, [Test::Latency, Test::BackToBack]);
    assert!((plan.loss - 0.01).abs() < 1e-12 && (plan.trial - 0.5).abs() < 1e-12);
    let usual = BenchOptions::default().plan();
    usual.validate().unwrap();
    assert_eq!((usual.sizes.len(), usual.loads.len(), usual.rounds), (8, 10, 1));
}

#[test]
fn flags_go_before_the_file() {
    let text = "topology = \"loop\"\nsizes = [64, \"imix\", \"128\"]\nloss = \"2%\"\nrounds = 6\nduration = \"1s\"\n\
        switch_command = \"sw {a}\"\n[stream]\nflows = 7\n[[port]]\nkind = \"null\"\n";
    let file: BenchOptions = toml::from_str(text).unwrap();
    let options = run_args(&["--rounds", "2", "--switch", "linerate"]).options.over(file.clone());
    let plan = options.plan();
    assert_eq!((plan.rounds, options.topology), (2, Some(Topology::Loop)));
    assert_eq!(plan.sizes, [Sizes::Fixed(64), Sizes::Named("imix".into()), Sizes::Fixed(128)]);
    assert_eq!((options.ports.len(), &options.stream["flows"]), (1, &7.into()));
    // A switch selected by a flag is not combined with the file's command.
    assert_eq!(options.switch_command, None);
    assert!(run_args(&[]).options.over(file).switch_command.is_some());
    assert!(toml::from_str::<BenchOptions>("sise = [64]").is_err());
}

#[test]
fn keys_of_the_stream_in_a_file_are_rejected_with_reason_and_remedy() {
    for (line, reason, remedy) in [
        ("rate = 5", "`rate`: `5` is not a rate", "write 10kpps"),
        ("size = 5.5", "`size`: 5.5 is not a list of sizes", "write a number such as 64"),
        ("siez = 60", "unknown field `siez`", "write a key of a [[stream]] section"),
    ] {
        let options: BenchOptions = toml::from_str(&format!("[stream]\n{line}\n")).unwrap();
        let told = console::verdict("linerate", &job(&options, "a.toml").unwrap_err()).1.unwrap();
        let expected = [format!("a.toml, [stream]: {reason}"), format!("remedy: {remedy}")];
        assert!(expected.iter().all(|part| told.contains(part)), "{told}");
    }
}

#[test]
fn our_own_switch_mirrors_the_ports_and_has_a_guest_where_frames_pass_one() {
    let between = validated(&[]).unwrap();
    assert!(between.guest.is_none() && between.switch.is_some());
    let text = std::fs::read_to_string(between.folder.path().join("switch.toml")).unwrap();
    assert_eq!(text.matches("kind = \"vhost-user\"").count(), 2, "{text}");
    drop(between);
    let through = validated(&["--topology", "phy-vm-phy", "--switch-cpu", "0"]).unwrap();
    let text = std::fs::read_to_string(through.folder.path().join("switch.toml")).unwrap();
    assert_eq!((text.matches("[[bridge]]").count(), text.matches("[[port]]").count()), (2, 4), "{text}");
    assert!(text.contains("cpu = 0") && through.guest.is_some());
    let folder = through.folder.path().to_owned();
    drop(through);
    assert!(!folder.exists());
    let within = validated(&["--topology", "phy-vm-phy", "--guest", "inline"]).unwrap();
    assert_eq!(within.setup.guest.as_deref(), Some("linerate, inline"));
    let Some(Guest::Inline(ports)) = &within.guest else { panic!("{:?}", within.guest) };
    let text = std::fs::read_to_string(within.folder.path().join("switch.toml")).unwrap();
    assert!(ports.len() == 2 && ports.iter().all(|port| text.contains(port.kind.place().as_str())), "{text}");
    let within = validated(&["--topology", "loop", "--guest", "inline"]).unwrap();
    assert_eq!(within.setup.guest.as_deref(), Some("linerate guest, inline"));
    assert!(matches!(within.guest, Some(Guest::Reflector(_))), "{:?}", within.guest);
    let back = validated(&["--topology", "loop"]).unwrap();
    assert_eq!((back.ports.len(), back.setup.guest.as_deref()), (1, Some("linerate guest")));
}

#[test]
fn stored_setup_is_independent_of_the_process() {
    let setup = validated(&["--switch-command", "sw {a} {b}"]).unwrap().setup;
    assert_eq!(setup.switch, "sw {a} {b}");
    assert!(setup.ports[0].contains("DIR/a.sock"), "{setup:?}");
}

#[test]
fn a_flag_without_effect_is_rejected() {
    const OTHER: [&str; 2] = ["--switch-command", "sw {a} {b}"];
    const NAMED: [&str; 4] = ["--port", "kind=tap,interface=lrx0", "--port", "kind=tap,interface=lrx1"];
    let inline = ["--switch", "inline"];
    for (words, flag) in [
        ([&inline[..], &["--switch-port", "kind=null"]].concat(), "--switch-port"),
        ([&inline[..], &["--guest-cpu", "0"]].concat(), "--guest-cpu"),
        ([&inline[..], &["--sockets", "switch"]].concat(), "--sockets"),
        ([&OTHER[..], &["--switch-port", "kind=foo"]].concat(), "--switch-port"),
        ([&OTHER[..], &["--switch-cpu", "0"]].concat(), "--switch-cpu"),
        ([&OTHER[..], &["--guest-cpu", "0"]].concat(), "--guest-cpu"),
        ([&OTHER[..], &NAMED, &["--sockets", "switch"]].concat(), "--sockets"),
        ([&["--switch", "running", "--switch-cpu", "0"][..], &NAMED].concat(), "--switch-cpu"),
        (["--guest-cpu", "0"].to_vec(), "--guest-cpu"),
        (["--sockets", "ours"].to_vec(), "--sockets"),
        (["--guest", "linerate"].to_vec(), "--guest"),
        (
            ["--topology", "phy-vm-phy", "--guest-command", "vm {c} {d}", "--guest-cpu", "0"].to_vec(),
            "--guest-cpu",
        ),
    ] {
        let told = told(&words);
        assert!(
            told.contains(&format!("linerate: {flag}: ")) && told.contains("leave "),
            "{words:?}: {told}"
        );
    }
    let through = ["--topology", "phy-vm-phy", "--guest-cpu", "0"];
    validated(&through).unwrap();
    validated(&[&OTHER[..], &["--sockets", "switch"]].concat()).unwrap();
    validated(&["--switch-command", "sw {cpu} {a} {b}", "--switch-cpu", "0"]).unwrap();
}

#[test]
fn a_cpu_placeholder_needs_its_flag_and_cpus_are_distinct() {
    let through = ["--topology", "phy-vm-phy"];
    let guest = [&through[..], &["--guest-command", "vm {cpu} {c} {d}"]].concat();
    for (words, expected) in [
        (
            ["--switch-command", "sw {cpu} {a} {b}"].to_vec(),
            "--switch-command: the command uses {cpu}, and --switch-cpu is missing\n    remedy: add --switch-cpu",
        ),
        (guest, "remedy: add --guest-cpu"),
        (
            ["--cpu", "0", "--switch-cpu", "0"].to_vec(),
            "linerate: --switch-cpu 0 and --cpu 0: they would share",
        ),
        (
            [&through[..], &["--cpu", "0", "--guest-cpu", "0"]].concat(),
            "linerate: --guest-cpu 0 and --cpu 0: ",
        ),
        (
            [&through[..], &["--switch-cpu", "0", "--guest-cpu", "0"]].concat(),
            "linerate: --switch-cpu 0 and --guest-cpu 0: ",
        ),
    ] {
        let told = told(&words);
        assert!(told.contains(expected), "{words:?}: {told}");
    }
}

#[test]
fn invalid_worker_file_is_rejected_before_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.toml");
    let of = |text: &str, more: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        validated(&[&["--switch-workers", &path][..], more].concat())
    };
    let told = |text: &str, more: &[&str]| {
        let (code, told) = console::verdict("linerate", &of(text, more).unwrap_err());
        assert_eq!(code, console::BAD_INPUT, "{told:?}");
        told.unwrap()
    };
    of("[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [0]\ntx = [0]", &[]).unwrap();
    for (text, line) in [
        ("[worker]\nmodel = \"pipline\"\n", 2),
        ("# [[bridge]]\n[worker]\n\nwork = [9999]", 4),
        ("[worker]\nwork = [\n\n", 2),
    ] {
        let told = told(text, &[]);
        let place = format!("{}:{line}: ", path.display());
        assert!(told.starts_with(&place) && told.contains("remedy: "), "{told}");
    }
    let shared = told("[worker]\nwork = [0]\n", &["--cpu", "0"]);
    assert!(
        shared.contains("linerate: --cpu 0 and --switch-workers ") && shared.contains("w.toml: "),
        "{shared}"
    );
    let _ = of("[[port]]\nkind = \"null\"\n", &[]).unwrap_err();
}

#[test]
fn invalid_input_is_rejected_with_place_reason_and_remedy() {
    for (words, expected) in [
        (&["--sizes", "59"][..], "`sizes`: a size of 59 bytes is out of range\n    remedy: write 60"),
        (&["--tests", "loss,loss"], "`tests` names loss twice\n    remedy: name it once"),
        (
            &["--loss", "100%"],
            "invalid value 100% for `loss`: expected 0% to less than 100%\n    remedy: write 0%",
        ),
        (&["--rounds", "0"], "invalid value 0 for `rounds`: expected 1 to 10000"),
        (&["--ceiling", "fast"], "`ceiling`: `fast` is not a rate"),
        (&["--set", "pcap=x"], "`pcap` of the stream is set by the benchmark"),
        (&["--set", "colour=red"], "unknown field `colour`"),
        (&["--port", "kind=null"], "there are 1 ports, and vm-vm has 2"),
        (&["--port", "kind=null", "--port", "kind=null"], "has no default"),
        (&["--switch", "running"], "name its sockets or interfaces with --port"),
        (&["--switch-command", "sw {a}"], "vm-vm needs {b}"),
        (&["--switch-command", "sw {a} {c}", "--topology", "phy-vm-phy"], "needs {b}"),
        (&["--switch-command", "sw {a} {b} {c}"], "the command uses {c}"),
        (&["--guest-command", "x"], "vm-vm has no guest"),
        (&["--switch", "inline", "--topology", "loop"], "--switch inline with --topology"),
        (&["--switch", "inline", "--switch-cpu", "0"], "leave out --switch-cpu"),
        (&["--guest", "inline"], "--guest inline with --topology: an inline guest"),
        (&["--guest", "inline", "--topology", "phy-vm-phy", "--guest-cpu", "0"], "leave out --guest-cpu"),
        (&["--switch-workers", "/nowhere.toml"], "--switch-workers /nowhere.toml: "),
        (&["--switch-workers", "/nowhere.toml", "--switch-cpu", "0"], "the file sets the CPUs"),
        (&["--switch-workers", "x", "--switch", "inline"], "this option applies only"),
        (&["--agree", "200%"], "invalid value 200% for `agree`: expected 0% to 100%"),
        (&["--switch-cpu", "9999"], "--switch-cpu 9999: this CPU is not online\n    remedy: choose one of "),
        (&["--timeout", "0s"], "--timeout: invalid value 0s: expected 1ms to a week"),
    ] {
        let told = told(words);
        assert!(told.contains(expected) && told.contains("remedy: "), "{words:?}: {told}");
    }
    for (wrong, expected) in [
        (&["--loss", "1"][..], "expected a percentage"),
        (&["--topology", "star"], "expected \"vm-vm\", \"phy-vm-phy\" or \"loop\""),
        (&["--tests", "speed"], "expected \"throughput\", \"latency\", \"loss\" or \"back-to-back\""),
        (&["--resume"], "--keep <FILE>"),
    ] {
        let words: Vec<&str> = ["linerate", "bench"].iter().chain(wrong).copied().collect();
        let error = Cli::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(expected), "{wrong:?}: {error}");
    }
}
