use super::*;
use crate::machine::recorded::{TWO_CORES, machine, server, tree, write};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn workers(n: usize) -> Stages {
    Stages { run_to_completion: n, ..Stages::default() }
}

fn pipeline(rx: usize, worker: usize, tx: usize) -> Stages {
    Stages { rx, worker, tx, ..Stages::default() }
}

fn cpus(machine: &Machine, requirements: &Requirements) -> Vec<usize> {
    plan(machine, requirements).unwrap().threads.iter().map(|thread| thread.cpu).collect()
}

/// Threads with roles and CPU, such as `rx 0+tx 0@1 worker 0@2`.
fn said(plan: &Plan) -> String {
    let roles = |t: &Thread| t.roles.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    plan.threads.iter().map(|t| format!("{}@{}", roles(t), t.cpu)).collect::<Vec<_>>().join(" ")
}

#[test]
fn workers_use_all_cores_before_siblings_and_cpu_0_last() {
    let machine = machine(&server(1, 4), 8);
    let requirements = Requirements { stages: workers(8), pattern: Pattern::Auto, ..Requirements::default() };
    assert_eq!(cpus(&machine, &requirements), [1, 2, 3, 4, 5, 6, 7, 0]);
    let few = Requirements { stages: workers(3), ..requirements };
    assert_eq!((cpus(&machine, &few), plan(&machine, &few).unwrap().notes), (vec![1, 2, 3], vec![]));
}

#[test]
fn workers_prefer_the_receiving_node_and_others_are_noted() {
    let machine = machine(&server(2, 2), 8);
    let requirements =
        Requirements { stages: workers(3), pattern: Pattern::Auto, near: Some(1), ..Requirements::default() };
    let plan = plan(&machine, &requirements).unwrap();
    assert_eq!(said(&plan), "worker 0@2 worker 1@3 worker 2@1");
    assert_eq!(plan.notes, ["not on node 1, which receives the packets: worker 2 (CPU 1)"]);
}

#[test]
fn isolated_cpus_are_preferred_and_forbidden_ones_skipped() {
    let root = tree(&server(1, 4));
    write(root.path(), "devices/system/cpu/isolated", "3");
    let machine = Machine::read(root.path(), &[0, 1, 3]);
    let requirements = Requirements { stages: workers(3), ..Requirements::default() };
    assert_eq!(cpus(&machine, &requirements), [3, 1, 0]);
}

#[test]
fn cpu_list_takes_precedence_and_unusable_cpus_are_rejected() {
    let machine = machine(&server(1, 4), 4);
    let requirements =
        |cpus: &[usize]| Requirements { stages: workers(2), cpus: cpus.to_vec(), ..Requirements::default() };
    assert_eq!(cpus(&machine, &requirements(&[0, 3])), [0, 3]);
    assert_eq!(plan(&machine, &requirements(&[0, 9])), Err(PlanError::NoSuchCpu(9)));
    assert_eq!(plan(&machine, &requirements(&[7])), Err(PlanError::Forbidden(7)));
    let taken = Requirements { taken: vec![0], ..requirements(&[0]) };
    assert_eq!(plan(&machine, &taken), Err(PlanError::NoneLeft(2)));
}

#[test]
fn excess_threads_share_cpus_with_a_note() {
    let machine = machine(TWO_CORES, 2);
    let plan = plan(&machine, &Requirements { stages: workers(3), ..Requirements::default() }).unwrap();
    assert_eq!(said(&plan), "worker 0@1 worker 1@0 worker 2@1");
    assert_eq!(plan.notes, ["worker 0 and worker 2 share CPU 1: 3 busy threads, 2 usable CPUs"]);
}

#[test]
fn each_pattern_combines_its_stages() {
    let machine = machine(&server(1, 8), 16);
    for (pattern, stages, expected) in [
        (Pattern::Separate, pipeline(1, 1, 1), "rx 0@1 classify 0@2 tx 0@3"),
        (Pattern::Io, pipeline(2, 1, 1), "rx 0+tx 0@1 rx 1@2 classify 0@3"),
        (Pattern::All, pipeline(1, 2, 1), "rx 0+classify 0+tx 0@1 classify 1@2"),
        (Pattern::RxWorker, pipeline(1, 1, 1), "rx 0+classify 0@1 tx 0@2"),
        (Pattern::TxWorker, pipeline(1, 1, 1), "rx 0@1 classify 0+tx 0@2"),
        (Pattern::QuasiIo, pipeline(1, 1, 1), "rx 0@1 tx 0@9 classify 0@2"),
        (Pattern::Auto, pipeline(2, 2, 2), "rx 0+tx 0@1 rx 1+tx 1@2 classify 0@3 classify 1@4"),
    ] {
        let requirements = Requirements { stages, pattern, ..Requirements::default() };
        assert_eq!(said(&plan(&machine, &requirements).unwrap()), expected, "{pattern}");
    }
}

#[test]
fn quasi_io_without_siblings_shares_one_cpu() {
    let machine = machine(TWO_CORES, 2);
    let requirements =
        Requirements { stages: pipeline(1, 1, 1), pattern: Pattern::QuasiIo, ..Requirements::default() };
    let plan = plan(&machine, &requirements).unwrap();
    assert_eq!(said(&plan), "rx 0@1 tx 0@1 classify 0@0");
    assert!(plan.notes[0].starts_with("rx 0 and tx 0 share CPU 1"), "{:?}", plan.notes);
}

#[test]
fn auto_falls_back_to_all_with_a_note() {
    let machine = machine(TWO_CORES, 2);
    let requirements =
        Requirements { stages: pipeline(2, 2, 2), pattern: Pattern::Auto, ..Requirements::default() };
    let plan = plan(&machine, &requirements).unwrap();
    assert_eq!(
        (plan.pattern, said(&plan).as_str()),
        (Pattern::All, "rx 0+classify 0+tx 0@1 rx 1+classify 1+tx 1@0")
    );
    assert_eq!(plan.notes, ["pattern all: there are 2 CPUs, and separate Rx, Tx and worker threads need 4"]);
}

proptest! {
    /// For any input: every role occurs once, only on CPUs that may be used, and no CPU has two threads while one is
    /// free, except with a pattern that requires it.
    #[test]
    fn each_role_has_one_thread_and_cpus_are_shared_only_if_needed(
        rtc in 0_usize..6, rx in 0_usize..5, worker in 0_usize..5, tx in 0_usize..5,
        pattern in 0_usize..7, packages in 1_usize..3, cores in 1_usize..4, near in 0_usize..3,
    ) {
        let machine = machine(&server(packages, cores), 2 * packages * cores);
        let stages = Stages { run_to_completion: rtc, rx, worker, tx };
        let pattern = Pattern::NAMES[pattern].1;
        let plan = plan(&machine, &Requirements { stages, pattern, near: Some(near), ..Requirements::default() }).unwrap();
        let roles: Vec<Role> = plan.threads.iter().flat_map(|t| t.roles.clone()).collect();
        prop_assert_eq!(roles.len(), rtc + rx + worker + tx);
        prop_assert_eq!(roles.iter().collect::<BTreeSet<_>>().len(), roles.len());
        prop_assert!(plan.threads.iter().all(|t| !t.roles.is_empty() && machine.cpu(t.cpu).is_some_and(|c| c.allowed)));
        let used: BTreeSet<_> = plan.threads.iter().map(|t| t.cpu).collect();
        if pattern != Pattern::QuasiIo {
            prop_assert_eq!(used.len(), plan.threads.len().min(machine.cpus.len()));
        }
        let shared = used.len() < plan.threads.len();
        prop_assert_eq!(shared, plan.notes.iter().any(|note| note.contains(" share CPU ")));
    }
}

fn queue(text: &str) -> QueueName {
    QueueName::parse(text, |name| ["red", "blue", "a.0"].contains(&name)).unwrap()
}

#[test]
fn queue_name_is_a_port_with_optional_pair() {
    assert_eq!(queue("red"), QueueName { port: "red".into(), pair: None });
    assert_eq!(queue("red.3"), QueueName { port: "red".into(), pair: Some(3) });
    assert_eq!((queue("a.0").pair, queue("a.0.1").pair), (None, Some(1)));
    assert_eq!(QueueName::parse("green.0", |_| false), None);
    assert_eq!(queue("a.0.1").to_string(), "a.0.1");
}

#[test]
fn pair_rule_takes_precedence_and_isolated_queues_have_their_own_worker() {
    let affinity = QueueAffinity::arrange(
        4,
        &[(queue("red"), 0), (queue("red.1"), 1)],
        &[queue("blue.0"), queue("red.1")],
    );
    let affinity = affinity.unwrap();
    assert_eq!(
        (affinity.of("red", 0), affinity.of("red", 1), affinity.of("blue", 1)),
        (Some(0), Some(1), None)
    );
    assert_eq!((affinity.of("blue", 0), affinity.open(4)), (Some(3), vec![0, 2]));
    assert_eq!(affinity.owner(3), Some(&queue("blue.0")));
}

#[test]
fn conflicting_rules_are_rejected_with_a_reason() {
    let arrange = |workers, queues: &[(&str, usize)], isolated: &[&str]| {
        let queues: Vec<_> = queues.iter().map(|(name, worker)| (queue(name), *worker)).collect();
        let isolated: Vec<_> = isolated.iter().map(|name| queue(name)).collect();
        QueueAffinity::arrange(workers, &queues, &isolated).unwrap_err().to_string()
    };
    assert_eq!(
        arrange(2, &[("red", 2)], &[]),
        "red is assigned to worker 2, and there are 2 workers, numbered from 0"
    );
    assert_eq!(
        arrange(2, &[("red", 1), ("blue", 1)], &["red"]),
        "red is isolated, and blue is assigned to its worker 1"
    );
    assert_eq!(arrange(3, &[], &["red", "red.1"]), "red.1 is isolated twice");
    assert_eq!(
        arrange(2, &[], &["red", "blue"]),
        "2 isolated queues and ports leave none of 2 workers for the others"
    );
}
