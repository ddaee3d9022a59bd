//! The same scenarios in the pipeline model, for all role divisions: the division affects only throughput.

use crate::guest::{Ending, Guest};
use crate::rig::{Rig, assert_sums_agree};
use crate::scope::pick;
use crate::{churn, sleep, swap};
use engine::{
    EngineError, HandoffConfig, Model, Order, PipelineConfig, QueueFull, Role, Roles, Snapshot, WorkerConfig,
};
use port::virtio_user::RingKind;
use ring::driver::{Packed, Split};
use std::sync::atomic::{AtomicBool, Ordering};

const IO: Roles = Roles { rx: true, work: false, tx: true };
const EVERYTHING: Roles = Roles { rx: true, work: true, tx: true };
const RX_WORK: Roles = Roles { rx: true, work: true, tx: false };

/// Role assignments, one entry per thread.
fn divisions() -> Vec<Vec<Roles>> {
    let [rx, work, tx] = [Role::Rx, Role::Work, Role::Tx].map(Roles::only);
    vec![
        vec![rx, work, tx],
        vec![IO, work, work],
        vec![EVERYTHING],
        vec![EVERYTHING; 2],
        vec![RX_WORK, tx],
        vec![rx, rx, work, work, tx, tx],
    ]
}

fn pipeline(roles: &[Roles], handoffs: HandoffConfig) -> Rig {
    Rig::in_model(&Model::Pipeline(PipelineConfig { roles: roles.to_vec(), handoffs }), roles.len())
}

#[test]
fn ports_are_added_and_removed_in_every_pipeline() {
    let drops = HandoffConfig { full: QueueFull::Drop, ..HandoffConfig::default() };
    for roles in divisions() {
        churn::scenario::<Split>(pipeline(&roles, drops), false);
    }
}

#[test]
fn ports_are_added_and_removed_with_any_handoff_config() {
    let small = HandoffConfig {
        ring: 256,
        write_unit: 7,
        read_unit: 5,
        full: QueueFull::Drop,
        ..HandoffConfig::default()
    };
    let large =
        HandoffConfig { write_unit: 200, read_unit: 256, full: QueueFull::Wait, ..HandoffConfig::default() };
    let by_port =
        HandoffConfig { ring: 256, order: Order::Port, full: QueueFull::Wait, ..HandoffConfig::default() };
    for handoffs in [small, large, by_port] {
        for roles in [&divisions()[1], &divisions()[3]] {
            churn::scenario::<Packed>(pipeline(roles, handoffs), true);
        }
    }
}

#[test]
fn memory_table_change_loses_nothing_in_handoff_queues() {
    for roles in [&divisions()[0], &divisions()[2]] {
        swap::scenario::<Split>(pipeline(roles, HandoffConfig::default()), false);
    }
}

#[test]
fn frame_wakes_stages_in_order() {
    for roles in divisions() {
        let rig = || pipeline(&roles, HandoffConfig::default());
        sleep::scenario::<Split>(rig(), rig(), RingKind::Split, true);
        sleep::scenario::<Packed>(rig(), rig(), RingKind::Packed, false);
    }
}

#[test]
fn workers_that_run_to_completion_hand_flows_to_each_other() {
    for full in [QueueFull::Drop, QueueFull::Wait] {
        let handoffs = HandoffConfig { full, ..HandoffConfig::default() };
        let rig = || Rig::in_model(&Model::SoftwareRss(handoffs), 2);
        churn::scenario::<Split>(rig(), false);
        sleep::scenario::<Split>(rig(), rig(), RingKind::Split, true);
    }
}

/// A change of the workers.
#[derive(Clone, Copy)]
enum Step {
    /// Adds one, which gets this index.
    Add(Role, usize),
    Remove(usize),
}

/// Adds and removes workers while guests check packet order. Checks the final counters.
fn changing(rig: &Rig, steps: &[Step]) -> Snapshot {
    let names = ["a", "b", "c", "d"];
    for name in &names[..3] {
        rig.add(name);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _ending = Ending(&done);
        let done = &done;
        let live = move |n: u8| {
            let guest = Guest::<Split>::plug_in(&rig.socket(names[usize::from(n)]), n, false);
            let peers: Vec<u8> = (0..4).filter(|peer| *peer != n).collect();
            s.spawn(move || guest.live(&peers, done));
        };
        (0..3).for_each(live);
        for (at, step) in steps.iter().enumerate() {
            if at == steps.len() / 2 {
                rig.add(names[3]);
                live(3);
            }
            rig.wait_for_traffic(&names[..3], pick(2_000, 500));
            match *step {
                Step::Add(role, index) => assert_eq!(rig.add_worker(role), index),
                Step::Remove(index) => rig.engine.remove_worker(index, None).unwrap(),
            }
        }
        rig.wait_for_traffic(&names, 4_000);
        done.store(true, Ordering::Relaxed);
    });
    let now = rig.settled();
    assert_sums_agree(&now);
    now
}

/// Index and role of each worker.
fn roles(now: &Snapshot) -> Vec<(usize, &str)> {
    now.workers.iter().map(|worker| (worker.index, worker.role.as_str())).collect()
}

/// Stages of each kind come, and those of the start go.
fn stages_come_and_go(handoffs: HandoffConfig) {
    let [rx, work, tx] = [Role::Rx, Role::Work, Role::Tx].map(Roles::only);
    let rig = pipeline(&[rx, work, tx], handoffs);
    let added = [(Role::Work, 3), (Role::Tx, 4), (Role::Work, 5), (Role::Rx, 6), (Role::Work, 7)];
    let grown = changing(&rig, &added.map(|(role, index)| Step::Add(role, index)));
    let expected = ["rx", "work", "tx", "work", "tx", "work", "rx", "work"];
    assert_eq!(roles(&grown), expected.into_iter().enumerate().collect::<Vec<_>>());
    let served = |role| grown.workers.iter().filter(|w| w.role == role && w.packets > 0).count();
    assert!(served("work") > 1, "a worker that was added has flows: {:#?}", grown.workers);
    assert!(
        served("rx") == 2 && served("tx") == 2,
        "and stages that were added have ports: {:#?}",
        grown.workers
    );
    rig.engine.stop().unwrap();

    let rig = pipeline(&[IO, work, work], handoffs);
    let steps = [
        Step::Add(Role::Rx, 4),
        Step::Remove(2),
        Step::Add(Role::Tx, 5),
        Step::Remove(0),
        Step::Remove(1),
        Step::Add(Role::Work, 2),
        Step::Remove(3),
    ];
    let now = changing(&rig, &steps);
    assert_eq!(roles(&now), [(2, "work"), (4, "rx"), (5, "tx")]);
    let last = rig.engine.remove_worker(4, None).unwrap_err();
    assert!(matches!(last, EngineError::LastWorker(4, "rx")), "{last}");
    let gone = rig.engine.remove_worker(0, None).unwrap_err();
    assert!(matches!(gone, EngineError::NoSuchWorker(0)), "{gone}");
    assert!(
        rig.engine.add_worker(Role::All, WorkerConfig::default(), None, &bridge::Switch::new(1)).is_err()
    );
    rig.engine.stop().unwrap();
}

#[test]
fn stages_are_added_and_removed_under_traffic_without_reordering() {
    stages_come_and_go(HandoffConfig { full: QueueFull::Drop, ..HandoffConfig::default() });
    stages_come_and_go(HandoffConfig { full: QueueFull::Wait, ring: 256, ..HandoffConfig::default() });
}

#[test]
fn workers_that_run_to_completion_are_added_and_removed_under_traffic() {
    use Step::{Add, Remove};
    for model in [Model::RunToCompletion, Model::Stealing] {
        let rig = Rig::in_model(&model, 2);
        let steps =
            [Add(Role::All, 2), Remove(0), Add(Role::All, 0), Remove(1), Remove(2), Add(Role::All, 1)];
        let now = changing(&rig, &steps);
        assert_eq!(roles(&now), [(0, "all"), (1, "all")]);
        assert!(now.workers.iter().all(|worker| worker.packets > 0), "both have queues: {:#?}", now.workers);
        rig.engine.stop().unwrap();
    }
    for full in [QueueFull::Drop, QueueFull::Wait] {
        let rig = Rig::in_model(&Model::SoftwareRss(HandoffConfig { full, ..HandoffConfig::default() }), 2);
        let now = changing(&rig, &[Add(Role::All, 4), Remove(0), Add(Role::All, 0), Remove(2), Remove(4)]);
        assert_eq!(roles(&now), [(0, "all"), (1, "rx")]);
        rig.engine.stop().unwrap();
    }
}

/// Packets lost in full handoff queues.
fn lost_between(now: &Snapshot) -> u64 {
    let ports = now.ports.iter().map(|port| &port.drops);
    ports.chain([&now.removed.drops]).filter_map(|drops| drops.get("handoff-full")).sum()
}

#[test]
fn waiting_stages_on_one_thread_lose_nothing_as_ports_change() {
    let handoffs = HandoffConfig { full: QueueFull::Wait, ..HandoffConfig::default() };
    for roles in [&divisions()[2], &divisions()[0]] {
        let now = churn::scenario::<Split>(pipeline(roles, handoffs), false);
        assert_eq!(lost_between(&now), 0, "{:#?}", now.removed);
    }
}

#[test]
fn waiting_stages_lose_no_packet() {
    let rig = pipeline(
        &divisions()[1],
        HandoffConfig { full: QueueFull::Wait, ring: 256, ..HandoffConfig::default() },
    );
    let done = AtomicBool::new(false);
    for name in ["a", "b"] {
        rig.add(name);
    }
    std::thread::scope(|s| {
        let _ending = Ending(&done);
        for (n, name) in [(0, "a"), (1, "b")] {
            let guest = Guest::<Split>::plug_in(&rig.socket(name), n, false);
            let done = &done;
            s.spawn(move || guest.live(&[1 - n], done));
        }
        rig.wait_for_traffic(&["a", "b"], pick(50_000, 10_000));
        done.store(true, Ordering::Relaxed);
    });
    let now = rig.settled();
    assert_sums_agree(&now);
    assert_eq!(lost_between(&now), 0, "{:#?}", now.ports);
    rig.engine.stop().unwrap();
}
