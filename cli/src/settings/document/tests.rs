use super::*;
use crate::host::Host;
use crate::settings::config;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::null::Null;
use crate::settings::policy::Policy;
use crate::settings::topology::{Polling, PortSettings, QueueFull, WorkerSettings};
use crate::settings::vlan::Vlan;

const FILE: &str = "# A laboratory.\n[switch]\nname = \"lab\" # for listings\n\n[[bridge]]\nname = \"main\"\n\n\
    # The first guest.\n[[port]]\nname = \"a\"\nkind = \"null\"   # counts only\nqueue_pairs = 0x1\n\n\
    # The second guest.\n[[port]]\nkind = \"null\"\nvlan = 5\nname = \"b\"\n\n# The end.\n";

fn read(text: &str) -> Topology {
    config::parse(text, &Host::of(&[0, 1, 2, 3], &[0, 1, 2, 3]), None)
        .unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
}

/// The text of `file` after `change`, which describes what `change` did.
fn changed(file: &str, change: impl FnOnce(&mut Topology)) -> String {
    let before = read(file);
    let mut after = before.clone();
    change(&mut after);
    let text = update(file, &before, &after).unwrap();
    let changes = Changes::between(&after, &read(&text)).report();
    assert!(changes.is_empty(), "{changes:?} in\n{text}");
    text
}

fn null(name: &str) -> PortSettings {
    PortSettings::named(name, PortKind::Null(Null {}))
}

#[test]
fn an_unchanged_switch_has_the_text_of_its_file() {
    assert_eq!(changed(FILE, |_| {}), FILE);
}

#[test]
fn an_added_port_is_a_new_section_and_the_rest_is_kept() {
    let text = changed(FILE, |topology| topology.ports.push(null("c")));
    let (head, added) = text.split_once("\n[[port]]\nname = \"c\"\n").unwrap();
    assert_eq!(FILE.replace("\n# The end.\n", ""), head.to_owned(), "{text}");
    assert!(added.contains("kind = \"null\"") && added.ends_with("# The end.\n"), "{text}");
}

#[test]
fn a_removed_port_takes_its_comment_along() {
    let text = changed(FILE, |topology| drop(topology.ports.remove(0)));
    assert!(!text.contains("first guest") && text.contains("# The second guest."), "{text}");
}

#[test]
fn only_the_keys_that_differ_are_written() {
    let vlan = Some(Vlan::Trunk { trunk: vec![7, 8], native: None });
    let text = changed(FILE, |topology| topology.ports[0].policy = Policy { vlan, ..Policy::default() });
    assert!(text.contains("kind = \"null\"   # counts only\nqueue_pairs = 0x1\n"), "{text}");
    let text = changed(&text, |topology| topology.ports[0].policy.vlan = None);
    assert_eq!(text.replace("\n\n", "\n"), FILE.replace("\n\n", "\n"));
}

#[test]
fn static_entries_are_below_their_bridge() {
    let entry = StaticEntry { mac: "02:00:00:00:00:01".parse().unwrap(), port: "a".into(), vlan: 0 };
    let text = changed(FILE, |topology| topology.bridges[0].statics.push(entry.clone()));
    assert!(text.find("[[bridge.static]]").unwrap() < text.find("[[port]]").unwrap(), "{text}");
    changed(&text, |topology| topology.bridges[0].statics.clear());
    // The only bridge needs no section.
    let without = FILE.replace("[[bridge]]\nname = \"main\"\n", "");
    changed(&without, |topology| topology.bridges[0].statics.push(entry));
}

#[test]
fn sections_may_be_written_as_a_list_of_tables() {
    let file = "port = [{ name = \"a\", kind = \"null\" }, { name = \"b\", kind = \"null\" }]\n";
    changed(file, |topology| topology.ports.push(null("c")));
    changed(file, |topology| drop(topology.ports.remove(1)));
}

#[test]
fn limits_of_connections_keep_the_other_keys() {
    let base = FILE.replace("name = \"main\"\n", "name = \"main\"\npipeline = \"openflow\"\n");
    let file = format!("{base}[conntrack]\nmax = 500_000\nzones = {{ 7 = 9 }}\n");
    let text = changed(&file, |topology| topology.conntrack.max_per_zone = Some(3));
    assert!(text.contains("max = 500_000\n"), "{text}");
    changed(&text, |topology| topology.conntrack = ConntrackSettings::default());
    changed(&base, |topology| topology.conntrack.max = 9);
}

#[test]
fn stages_are_in_the_lists_of_the_file() {
    let file = "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [2]\n[[port]]\nname = \"a\"\nkind = \"null\"\n";
    let stage = |topology: &mut Topology, cpu| {
        let mut worker = topology.workers[1];
        worker.cpu = cpu;
        topology.workers.push(worker);
    };
    let before = read(file);
    let mut after = before.clone();
    stage(&mut after, Some(3));
    let text = update(file, &before, &after).unwrap();
    assert!(text.contains("work = [1, 3]"), "{text}");
    let fewer = changed(&text, |topology| {
        topology.workers.remove(1);
    });
    assert!(fewer.contains("work = [3]"), "{fewer}");
    let busy = changed(&text, |topology| topology.workers.iter_mut().for_each(|w| w.polling = Polling::Busy));
    assert!(busy.contains("polling = \"busy\""), "{busy}");
    stage(&mut after, None);
    assert!(matches!(update(file, &before, &after), Err(DocumentError::NotExpressed(..))));
    let mut one = before.clone();
    one.workers[0].polling = Polling::Busy;
    assert!(matches!(update(file, &before, &one), Err(DocumentError::NotExpressed(..))));
}

#[test]
fn workers_have_a_section_each() {
    let second = |topology: &mut Topology| {
        topology.workers.push(WorkerSettings {
            cpu: Some(1),
            queue_full: QueueFull::Wait,
            ..topology.workers[0]
        });
    };
    let text = changed(FILE, second);
    assert!(text.contains("[[worker]]\n\n[[worker]]\ncpu = 1\nqueue_full = \"wait\"\n"), "{text}");
    let text = changed(&text, |topology| topology.workers[0].cpu = Some(0));
    let text = changed(&text, |topology| {
        topology.workers.remove(0);
    });
    assert_eq!(text.matches("[[worker]]").count(), 1);
    assert!(text.contains("cpu = 1\nqueue_full"), "{text}");
    let list = format!("[worker]\nwork = [0, 1]\n\n{FILE}");
    let text = changed(&list, |topology| {
        topology.workers.remove(0);
    });
    assert!(text.contains("work = [1]\n"), "{text}");
}

#[test]
fn a_changed_bridge_has_the_keys_that_differ_from_the_default() {
    let change = |topology: &mut Topology| {
        topology.bridges[0].ageing = console::Span(std::time::Duration::from_secs(20));
        topology.bridges[0].max_macs_per_port = Some(7);
    };
    let text = changed(FILE, change);
    let section = "name = \"main\"\nageing = \"20s\"\nmax_macs_per_port = 7\n";
    assert_eq!(text, FILE.replace("name = \"main\"\n", section));
    let default = BridgeSettings::named("main");
    assert_eq!(changed(&text, |topology| topology.bridges[0] = default), FILE);
    let text = changed(&FILE.replace("[[bridge]]\nname = \"main\"\n\n", ""), change);
    assert!(text.contains("[[bridge]]\n") && !text.contains("bridge ="), "{text}");
}

#[test]
fn a_second_bridge_is_named_by_the_objects_of_the_first() {
    let bond = "[[bond]]\nname = \"u\"\nports = [\"a\", \"b\"]\n";
    let ports = "[[port]]\nname = \"a\"\nkind = \"null\"\n\n[[port]]\nname = \"b\"\nkind = \"null\"\n\n";
    for head in ["", "[[bridge]]\nname = \"main\"\nageing = \"20s\"\n\n"] {
        let file = format!("{head}{ports}{bond}");
        let mut lan = BridgeSettings::named("lan");
        lan.table = 1024;
        let text = changed(&file, |topology| topology.bridges.push(lan.clone()));
        assert_eq!(text.matches("bridge = \"main\"").count(), 3, "{text}");
        assert!(text.contains("[[bridge]]\nname = \"lan\"\ntable = 1024\n"), "{text}");
        changed(&text, |topology| topology.bridges.retain(|bridge| bridge.name != "lan"));
    }
}
