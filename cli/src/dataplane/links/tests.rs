use super::*;
use crate::host::Host;
use crate::settings::config::parse;
use engine::{EngineConfig, Rss, WorkerConfig};
use port::Pipelines;

/// A bridge with a spanning tree, and an engine without ports.
fn links() -> Links {
    let text = "[[bridge]]\nname = \"lan\"\nstp = \"rstp\"\n[[port]]\nname = \"a\"\nkind = \"null\"\n";
    let topology = parse(text, &Host::of(&[0], &[0]), None).unwrap();
    let bridges = Arc::new(Switch::new(4));
    bridges.add_bridge("lan", bridge::BridgeConfig::default()).unwrap();
    let pipelines: Arc<dyn Pipelines> = bridges.clone();
    let config = EngineConfig { workers: vec![WorkerConfig::default()], max_ports: 4, rss: Rss::default() };
    Links::new(&topology, (bridges, None), Arc::new(Engine::start(config, &*pipelines).unwrap()))
}

#[test]
fn events_are_not_lost_if_the_thread_cannot_be_started_at_first() {
    let links = links();
    let add = |name: &str, port| {
        let (name, bridge, config) = (name.to_owned(), "lan".to_owned(), PortConfig::default());
        links.post(Event::AddToTree { port: PortId(port), name, bridge, config });
    };
    add("a", 0);
    // A stack of 256 TiB.
    assert!(links.start_with(Builder::new().stack_size(1 << 48)).is_err());
    assert!(links.stp_ports().is_empty());
    links.start().unwrap();
    links.start().unwrap();
    add("b", 1);
    links.stop();
    assert_eq!(links.stp_ports().keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn the_engine_ends_with_the_switch() {
    let links = links();
    links.start().unwrap();
    let engine = Arc::downgrade(&links.shared.environment.engine);
    drop(links);
    assert!(engine.upgrade().is_none());
}
