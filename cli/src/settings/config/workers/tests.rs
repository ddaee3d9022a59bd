use super::*;
use crate::host::Host;
use crate::settings::config::parse;
use crate::settings::config::worker_requests::{changed_worker, new_worker, without_worker};
use crate::settings::model::RoleSettings;
use crate::settings::reader::notes::Cause;
use console::Diagnostic;
use serde_json::json;

fn host() -> Host {
    Host::of(&[0, 1, 2, 3], &[0, 1, 2])
}

#[track_caller]
fn only(text: &str, expected: &str) {
    let errors = parse(text, &host(), None).err().unwrap_or_default();
    let told = |m: Diagnostic| format!("{}: {} ({})", m.line.unwrap_or(0), m.headline(), m.remedy);
    assert_eq!(errors.into_iter().map(told).collect::<Vec<_>>(), [expected]);
}

const PIPELINE: &str = "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [1, 2]\ntx = [0]\n";

#[test]
fn a_cpu_in_several_lists_is_one_worker_with_several_roles() {
    let text = format!(
        "{PIPELINE}ring = 512\nwrite_unit = 8\nread_unit = 32\nfull = \"wait\"\norder = \"port\"\npolling = \"busy\"\n"
    );
    let topology = parse(&text, &host(), None).unwrap();
    let (io, work) = (
        RoleSettings { rx: true, tx: true, ..Default::default() },
        RoleSettings { work: true, ..Default::default() },
    );
    let found: Vec<_> = topology.workers.iter().map(|w| (w.cpu, w.roles, w.polling)).collect();
    assert_eq!(
        found,
        [(Some(0), io, Polling::Busy), (Some(1), work, Polling::Busy), (Some(2), work, Polling::Busy)]
    );
    let model = topology.model.engine(topology.workers.iter().map(|w| w.roles));
    let engine::Model::Pipeline(pipeline) = model else { panic!("{model:?}") };
    let handoffs = pipeline.handoffs;
    assert_eq!((handoffs.ring, handoffs.write_unit, handoffs.read_unit), (512, 8, 32));
    assert_eq!((handoffs.full, handoffs.order), (engine::QueueFull::Wait, engine::Order::Port));
    let shown = topology.to_string();
    for line in [
        "├─ pipeline: rings of 512, read by 32, written by 8, ports keep their order, waits when a stage is full\n",
        "├─ worker 0: cpu 0, rx tx, always polls",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn workers_that_run_to_completion_may_be_listed_and_rss_mode_software() {
    let topology = parse("[worker]\nwork = [0, 1]\nqueue_full = \"wait\"\n", &host(), None).unwrap();
    assert_eq!(topology.workers.len(), 2);
    assert_eq!(topology.model, ModelSettings::default());
    let text = "[worker]\nwork = [0, 1]\nrss_mode = \"software\"\nring = 256\n\
        [[port]]\nname = \"a\"\nsocket = \"/tmp/lr-a.sock\"\nrss_mode = \"queues\"\n";
    let topology = parse(text, &host(), None).unwrap();
    assert!(
        matches!(topology.model.engine(std::iter::empty()), engine::Model::SoftwareRss(handoffs) if handoffs.ring == 256)
    );
    assert_eq!(topology.ports[0].rss_mode, Some(RssMode::Queues));
    assert!(topology.to_string().contains("run-to-completion, RSS in software: rings of 256"));
    assert_eq!(parse("[worker]\n", &host(), None).unwrap().workers, [WorkerSettings::default()]);
}

#[test]
fn a_pipeline_has_all_roles_on_cpus_that_are_there() {
    only(
        "[worker]\nmodel = \"pipeline\"\nrx = [0]\ntx = [1]\n",
        "1: workers: `work` lists no CPU, and a pipeline requires all three roles (add a line such as: work = [0])",
    );
    only(&PIPELINE.replace("[1, 2]", "[1, 1]"), "4: workers: `work` lists CPU 1 twice (list it once)");
    only(&PIPELINE.replace("[1, 2]", "[1, 9]"), "4: workers: CPU 9 is not online (choose one of 0, 1, 2)");
    only(
        &PIPELINE.replace("tx = [0]", "tx = [3]"),
        "5: workers: CPU 3 is outside this process's affinity mask \
         (choose one of 0, 1, 2, or start linerate with a wider mask (taskset))",
    );
    only(
        &PIPELINE.replace("[1, 2]", "1"),
        "4: workers: `work` is an integer, not a list of CPUs, such as [0, 1] (write a list of CPUs, such as [0, 1])",
    );
}

#[test]
fn keys_without_effect_in_a_model_are_rejected() {
    only(
        "[worker]\nring = 256\n",
        "2: workers: `ring` has no effect for run-to-completion workers \
         (remove it, or choose model = \"pipeline\" or rss_mode = \"software\")",
    );
    only(
        "[worker]\nrx = [0]\n",
        "2: workers: `rx` has no effect for run-to-completion workers (remove it, or choose model = \"pipeline\")",
    );
    only(
        &format!("{PIPELINE}rss_mode = \"software\"\n"),
        "6: workers: `rss_mode` has no effect in a pipeline, which distributes every port (remove it)",
    );
    only(
        "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-a.sock\"\nrss_mode = \"software\"\n",
        "4: port \"a\": `rss_mode` is \"software\", which [worker] does not enable \
         (write rss_mode = \"software\" in [worker] as well, or remove it here)",
    );
    only(
        &format!("{PIPELINE}ring = 300\n"),
        "6: workers: `ring` is 300, which is not a power of two (write 512)",
    );
    only(
        "[worker]\nmodel = \"inline\"\n",
        "2: workers: invalid value \"inline\" for `model`: expected \"run-to-completion\", \"stealing\" or \"pipeline\" (write \"run-to-completion\", \"stealing\" or \"pipeline\")",
    );
}

const STEALING: &str = "[worker]\nmodel = \"stealing\"\nwork = [0, 1]\n";

#[test]
fn rss_mode_of_a_port_is_rejected_under_models_that_ignore_it() {
    for rss_mode in ["queues", "software"] {
        let port =
            format!("[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-a.sock\"\nrss_mode = \"{rss_mode}\"\n");
        only(
            &format!("{port}{STEALING}"),
            "4: port \"a\": `rss_mode` has no effect with work stealing \
             (remove it, or choose model = \"run-to-completion\" in [worker])",
        );
        only(
            &format!("{port}{PIPELINE}"),
            "4: port \"a\": `rss_mode` has no effect in a pipeline, which distributes every port (remove it)",
        );
    }
}

#[test]
fn keys_of_stages_are_rejected_with_work_stealing() {
    only(
        &format!("{STEALING}order = \"none\"\n"),
        "4: workers: `order` has no effect with work stealing \
         (remove it, or choose model = \"pipeline\")",
    );
    only(
        &format!("{STEALING}tx = [2]\n"),
        "4: workers: `tx` has no effect with work stealing \
         (remove it, or choose model = \"pipeline\")",
    );
}

#[test]
fn a_unit_of_reading_is_a_burst_at_most() {
    only(
        &format!("{PIPELINE}read_unit = 65\n"),
        "6: workers: invalid value 65 for `read_unit`: expected 1 to 64 (give 1 to 64 packets, at most a burst)",
    );
    let topology = parse(&format!("{PIPELINE}read_unit = 64\nwrite_unit = 256\n"), &host(), None).unwrap();
    assert_eq!((topology.model.read_unit, topology.model.write_unit), (64, Some(256)));
}

#[test]
fn packets_are_not_kept_back_where_their_flow_may_have_another_worker() {
    let port = |packets| {
        format!(
            "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-a.sock\"\ntx_coalesce = {{ frames = {packets} }}\n"
        )
    };
    only(
        &format!("{}{STEALING}", port(2)),
        "4: port \"a\": `tx_coalesce` delays packets at each worker, and with work stealing \
         the packets of a flow would be reordered \
         (write tx_coalesce = \"immediate\", or choose model = \"run-to-completion\" in [worker])",
    );
    for sound in [format!("{}{STEALING}", port(1)), format!("{}{STEALING}", port(2)).replace("[0, 1]", "[0]")]
    {
        assert!(parse(&sound, &host(), None).is_ok(), "{sound}");
    }
}

#[test]
fn a_stage_joins_a_pipeline_on_a_free_cpu() {
    let running = parse(PIPELINE.replace("[1, 2]", "[1]").as_str(), &host(), None).unwrap();
    let ask = |json| new_worker(&json, &running, &host()).map_err(|(cause, m)| (cause, m.headline()));
    let (role, wanted) = ask(json!({ "role": "work", "cpu": 2 })).unwrap();
    let worker = wanted.workers[2];
    assert_eq!((role, worker.cpu, worker.roles.work), (Some(Role::Work), Some(2), true));
    assert_eq!(ask(json!({ "role": "tx" })).unwrap().1.workers[2].cpu, None);
    let refused = [
        (json!({}), "the new worker: `role` is missing"),
        (
            json!({ "role": "all" }),
            "the new worker: invalid value \"all\" for `role`: expected \"rx\", \"work\" or \"tx\"",
        ),
        (json!({ "role": "rx", "cpu": 0 }), "the new worker: CPU 0 is already assigned to worker 0 (line 3)"),
        (json!({ "role": "rx", "cpu": 9 }), "the new worker: CPU 9 is not online"),
        (json!({ "role": "rx", "cup": 1 }), "the new worker: unknown key `cup`"),
    ];
    for (json, expected) in refused {
        let (cause, told) = ask(json).unwrap_err();
        assert_eq!(cause == Cause::Taken, expected.contains("already"), "{told}");
        assert_eq!(told.split(" (line").next(), expected.split(" (line").next());
    }
    let whole = parse("[worker]\npolling = \"busy\"\n", &host(), None).unwrap();
    let (_, told) = new_worker(&json!({ "role": "work" }), &whole, &host()).unwrap_err();
    assert!(told.reason.contains("run to completion"), "{told}");
    let (role, wanted) = new_worker(&json!({}), &whole, &host()).unwrap();
    assert_eq!((role, wanted.workers[1].polling), (None, Polling::Busy), "as the first one");
}

#[test]
fn a_worker_is_changed_by_keys_of_its_section() {
    let running = parse("[[worker]]\ncpu = 0\n[[worker]]\ncpu = 1\n", &host(), None).unwrap();
    let ask = |json| changed_worker(&json, &running, 1, &host()).map_err(|(_, m)| m.headline());
    let own = WorkerSettings { cpu: Some(1), ..WorkerSettings::default() };
    let busy = ask(json!({ "polling": "busy" })).unwrap().workers;
    assert_eq!(busy, [running.workers[0], WorkerSettings { polling: Polling::Busy, ..own }]);
    assert_eq!(ask(json!({ "cpu": null })).unwrap().workers[1], WorkerSettings::default());
    assert_eq!(ask(json!({ "cpu": 1 })).unwrap().workers, running.workers);
    assert!(ask(json!({ "cpu": 0 })).unwrap_err().contains("CPU 0 is already assigned to worker 0"));
    assert!(ask(json!({ "role": "rx" })).unwrap_err().contains("unknown key `role`"));
}

#[test]
fn order_is_kept_when_workers_are_more() {
    let file = "[worker]\nmodel = \"stealing\"\nwork = [0]\n[[port]]\nname = \"a\"\nkind = \"null\"\ntx_coalesce = { frames = 9, delay = \"1ms\" }\n";
    let running = parse(file, &host(), None).unwrap();
    let (_, told) = new_worker(&json!({ "cpu": 1 }), &running, &host()).unwrap_err();
    assert!(told.reason.contains("would be reordered"), "{told}");
}

#[test]
fn a_role_is_removed_with_its_worker_unless_queues_are_numbered() {
    let running = parse(PIPELINE, &host(), None).unwrap();
    let wanted = without_worker(&running, 0, Some(Role::Tx)).unwrap();
    assert_eq!(wanted.workers[0].roles, RoleSettings { rx: true, ..RoleSettings::default() });
    assert_eq!(without_worker(&running, 2, Some(Role::Work)).unwrap().workers, running.workers[..2]);
    let numbered =
        "[[worker]]\n[[worker]]\n[placement]\nqueues = { a = 0 }\n[[port]]\nname = \"a\"\nkind = \"null\"\n";
    let running = parse(numbered, &host(), None).unwrap();
    let (_, told) = without_worker(&running, 0, None).unwrap_err();
    assert!(told.reason.contains("names workers by their numbers"), "{told}");
    assert_eq!(without_worker(&running, 1, None).unwrap().workers.len(), 1);
}
