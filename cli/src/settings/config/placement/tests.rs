use crate::host::Host;
use crate::settings::config::parse;
use crate::settings::config::tests::{PORT, host, only};

/// Three workers, a port with two pairs, and a `[placement]` section whose first line is line 9.
fn placed(lines: &str) -> String {
    format!("[[worker]]\n[[worker]]\n[[worker]]\n{PORT}queue_pairs = 2\n[placement]\n{lines}")
}

#[test]
fn placement_assigns_cpus_and_names_shared_ones() {
    let host = Host::of(&[0, 1, 2, 3], &[0, 1, 2]);
    let cpus = |text: &str| {
        let topology = parse(text, &host, None).unwrap();
        let cpus: Vec<_> = topology.workers.iter().filter_map(|worker| worker.cpu).collect();
        (cpus, topology.placement.unwrap().plan.unwrap().notes)
    };
    assert_eq!(cpus(&placed("")), (vec![1, 2, 0], vec![]));
    assert_eq!(cpus(&placed("cpus = \"0-1\"\nnode = 0\n")).0, [0, 1, 0]);
    assert!(cpus(&placed("cpus = [2]\n")).1[0].contains("share CPU 2"));
    let fixed = placed("pattern = \"auto\"\n").replacen("[[worker]]", "[[worker]]\ncpu = 1", 1);
    assert_eq!(cpus(&fixed).0[..2], [1, 2]);
    let without = parse(&placed("").replace("[placement]", ""), &host, None).unwrap();
    assert_eq!((without.workers[0].cpu, without.placement), (None, None));
}

#[test]
fn a_placement_is_printed_with_its_rules_and_notes() {
    let lines = "isolated = [\"a.1\"]\nqueues = { \"a.0\" = 1 }\nrebalance = \"auto\"\ninterval = \"2s\"\n";
    let printed = parse(&placed(lines), &host(), None).unwrap().to_string();
    let expected = [
        "├─ placement separate, queues moved every 2s if that gains 0.1 of a core",
        "│  ├─ queue a.0: worker 1",
        "│  ├─ isolated a.1",
        "│  └─ note: worker 0 and worker 2 share CPU 1: 3 busy threads, 2 usable CPUs",
    ];
    assert!(printed.contains(&expected.join("\n")), "{printed}");
}

#[test]
fn invalid_placement_is_rejected_with_place_reason_and_remedy() {
    let port = "name a port of this file, or one of its queue pairs as port.pair, counted from 0";
    let list = "write a list of CPUs such as [2, 3] or \"2-3,8\"";
    for (lines, expected) in [
        (
            "pattern = \"io\"",
            "9: placement: `pattern` \"io\" joins stages, and these workers run to completion (write \"separate\" or \"auto\")"
                .to_owned(),
        ),
        ("cpus = [3]", "9: placement: CPU 3 is outside this process's affinity mask, so no thread can be placed there (list some of 0, 1, or start linerate with a wider mask (taskset))".to_owned()),
        ("cpus = [9]", "9: placement: CPU 9 is not online, so no thread can be placed there (list some of 0, 1)".to_owned()),
        ("cpus = [0, 0]", format!("9: placement: `cpus` lists CPU 0 twice ({list})")),
        ("cpus = []", format!("9: placement: `cpus` is empty, so no thread could be placed ({list})")),
        (
            "cpus = \"a\"",
            format!("9: placement: `cpus` \"a\" is not a list of CPUs: \"a\" is not a CPU's or node's number ({list})"),
        ),
        ("isolated = [\"b\"]", format!("9: placement: `isolated` names \"b\", which is not a port ({port})")),
        (
            "queues = { \"a.2\" = 0 }",
            format!("9: placement: `queues` names \"a.2\", and port \"a\" has 2 queue pairs, not a pair 2 ({port})"),
        ),
        (
            "queues = { a = 3 }",
            "9: placement: a is assigned to worker 3, and there are 3 workers, numbered from 0 (name a worker that is there, or add a [[worker]] section)".to_owned(),
        ),
        (
            "queues = { a = \"b\" }",
            "9: placement: `queues` gives \"a\" to a value that is not a worker number (write the worker of each port or queue, such as { red = 0, \"blue.1\" = 1 })".to_owned(),
        ),
        (
            "isolated = [\"a\", \"a.1\"]",
            "9: placement: a.1 is isolated twice (list it once)".to_owned(),
        ),
        (
            "node = 5",
            "9: placement: `node` is 5, which is not a NUMA node of this machine (choose one of 0, or remove it)".to_owned(),
        ),
        ("interval = 5", "9: placement: invalid value 5 for `interval`: expected a duration with a unit (write \"5s\")".to_owned()),
        ("interval = \"5\"", "9: placement: invalid value 5 for `interval`: expected a duration with a unit (write \"5s\")".to_owned()),
        ("interval = \"1ms\"", "9: placement: invalid value 1ms for `interval`: expected 100ms to 1h (give 100ms to 1h)".to_owned()),
        ("threshold = 2", "9: placement: invalid value 2 for `threshold`: expected 0.01 to 1 (give 0.01 to 1 of a core)".to_owned()),
        ("patern = \"auto\"", "9: placement: unknown key `patern` (did you mean `pattern`?)".to_owned()),
    ] {
        only(&placed(&format!("{lines}\n")), &expected);
    }
}

#[test]
fn pattern_without_stages_gives_one_error() {
    let remedy = "(write stages = { rx = 1, work = 1, tx = 1 } here";
    let worker = "[worker]\nmodel = \"pipeline\"\n";
    only(
        &format!("{worker}[placement]\npattern = \"io\"\n"),
        &format!("4: placement: `pattern` \"io\" joins stages, and their number is not configured {remedy})"),
    );
    only(
        &format!("{worker}rx = [0]\n[placement]\npattern = \"all\"\n"),
        &format!(
            "5: placement: `pattern` \"all\" joins stages, and [worker] lists the CPUs of these {remedy}, in place of the lists)"
        ),
    );
}

#[test]
fn missing_node_is_reported_with_other_errors() {
    let text = placed("node = 5\npattern = \"io\"\n");
    let errors = parse(&text, &host(), None).unwrap_err();
    assert_eq!(errors.iter().filter_map(|error| error.line).collect::<Vec<_>>(), [9, 10], "{errors:?}");
}

#[test]
fn nothing_is_isolated_if_software_rss_serves_a_port() {
    let worker = "[worker]\nwork = [0, 1]\nrss_mode = \"software\"\n";
    let placement = "[placement]\nisolated = [\"a\"]\n";
    only(
        &format!("{PORT}{worker}{placement}"),
        "8: placement: `isolated` has no effect: port \"a\" is distributed over all workers \
         (remove it, or write rss_mode = \"queues\" for every port with one queue pair)",
    );
    let sound = format!("{PORT}rss_mode = \"queues\"\n{worker}{placement}");
    assert!(parse(&sound, &host(), None).is_ok());
}

#[test]
fn stages_of_a_pipeline_are_placed_by_pattern() {
    let host = Host::of(&[0, 1, 2, 3], &[0, 1, 2, 3]);
    let text = |lines: &str| {
        format!("{PORT}[worker]\nmodel = \"pipeline\"\npolling = \"busy\"\n[placement]\n{lines}")
    };
    let workers = |lines: &str| {
        let topology = parse(&text(lines), &host, None).unwrap();
        assert_eq!(topology.takers(), 1);
        let told = topology.workers.iter().map(|w| format!("{}@{}", w.roles, w.cpu.unwrap()));
        told.collect::<Vec<_>>().join(", ")
    };
    let stages = "stages = { rx = 1, work = 2, tx = 1 }\n";
    assert_eq!(workers(&format!("pattern = \"io\"\n{stages}")), "rx tx@1, work@2, work@3");
    assert_eq!(workers(&format!("pattern = \"all\"\n{stages}")), "rx work tx@1, work@2");
    assert_eq!(workers(&format!("pattern = \"separate\"\n{stages}")), "rx@1, work@2, work@3, tx@0");
    assert_eq!(workers("stages = {}\npattern = \"quasi-io\"\n"), "rx@1, tx@1, work@2");
    only(
        "[placement]\nstages = { rx = 1 }\n",
        "2: placement: `stages` requires a pipeline, and these workers run to completion (remove it, or write model = \"pipeline\" in [worker])",
    );
    let lists = text(stages).replace("polling = \"busy\"", "rx = [0]");
    only(
        &lists,
        "6: workers: `rx` lists CPUs, which conflicts with `stages` in [placement] (remove one of the two)",
    );
    only(
        "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [0]\n[placement]\npattern = \"io\"\n",
        "7: placement: `pattern` \"io\" joins stages, and [worker] lists the CPUs of these (write stages = { rx = 1, work = 1, tx = 1 } here, in place of the lists)",
    );
}
