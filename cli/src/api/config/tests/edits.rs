use super::*;
use crate::settings::config::requests;
use serde_json::Value;

fn set(service: &ApiService, name: &str, keys: &Value) -> Result<Vec<(String, &'static str)>, Diagnostic> {
    let applied = service.set_port(name, keys, &Peer::own()).map_err(ApiError::into_diagnostic)?;
    assert!(applied.done);
    Ok(applied.changes.iter().map(|change| (change.object.clone(), change.action.name())).collect())
}

#[test]
fn a_changed_port_is_replaced_and_the_rest_is_not_touched() {
    let service = running(FILE);
    let before = state(&service);
    let replaced = [("port \"b\"".to_owned(), "replace")];
    assert_eq!(set(&service, "b", &json!({ "vlan": 6, "max_macs": 4 })).unwrap(), replaced);
    let after = state(&service);
    assert_eq!((after.0, after.1), (before.0.clone(), vec!["02:00:00:00:00:01 b 6".to_owned()]));
    let Configuration { text, loaded, .. } = service.configuration().unwrap();
    assert_eq!((text, loaded.as_str()), (FILE.replace("vlan = 5\n", "vlan = 6\nmax_macs = 4\n"), FILE));
    assert_eq!(set(&service, "b", &json!({ "vlan": 5, "max_macs": null })).unwrap(), replaced);
    assert_eq!((service.configuration().unwrap().text.as_str(), state(&service).1), (FILE, before.1));
    assert_eq!(set(&service, "b", &json!({ "vlan": 5 })).unwrap(), []);
}

#[test]
fn a_port_that_cannot_have_its_new_keys_runs_as_before() {
    let service = running(FILE);
    let (_, entries, topology) = state(&service);
    for (port, keys, reason) in [
        ("c", json!({ "vlan": 6 }), "there is no such port"),
        ("b", json!({ "name": "c" }), "`name` cannot be changed"),
        ("b", json!({ "colour": 7 }), "unknown key `colour`"),
        ("b", json!([]), "a list"),
        ("b", json!(7), "an integer"),
        ("b", json!({ "bridge": "other" }), "other"),
        ("b", json!({ "kind": "af_packet", "interface": "lr-none" }), "runs again"),
    ] {
        let error = set(&service, port, &keys).unwrap_err();
        assert!(error.reason.contains(reason) && error.line.is_none(), "{keys}: {error:?}");
        let after = state(&service);
        assert_eq!(
            (names(&service), &after.1, &after.2),
            (vec!["a".into(), "b".into()], &entries, &topology)
        );
    }
}

#[test]
fn keys_of_another_kind_leave_with_it() {
    let service = running(FILE);
    let socket = std::env::temp_dir().join("linerate-edits.sock");
    let keys = json!({ "kind": "virtio-user", "socket": socket, "ring": "packed", "vlan": null });
    set(&service, "b", &keys).unwrap();
    assert!(service.configuration().unwrap().text.contains("ring = \"packed\""));
    set(&service, "b", &json!({ "kind": "null", "vlan": 5 })).unwrap();
    let text = service.configuration().unwrap().text;
    assert!(
        Changes::between(&config::parse(FILE, &Host::here(), None).unwrap(), &service.topology())
            .ports
            .is_empty()
    );
    assert!(!text.contains("ring") && !text.contains("socket"), "{text}");
}

/// A file of the client's choice is neither read nor reported.
#[test]
fn files_outside_the_directories_of_a_client_are_not_read() {
    let service = running(FILE);
    let peer = Peer::remote("a client".to_owned());
    let keys = json!({ "kind": "pcap", "read": "/nowhere/secret.pcap", "vlan": null });
    let edited = service.set_port("b", &keys, &peer).unwrap_err();
    assert!(matches!(edited, ApiError::Forbidden(_)), "{edited:?}");
    let text = format!("{FILE}[[port]]\nname = \"c\"\nkind = \"pcap\"\nread = \"/nowhere/secret.pcap\"\n");
    for dry_run in [false, true] {
        let applied = service.apply((Path::new("/f.toml"), &text), dry_run, &peer).unwrap_err();
        assert!(matches!(applied, ApiError::Forbidden(_)), "{applied:?}");
    }
}

#[test]
fn a_bridge_is_added_for_new_ports_and_removed_without_ports() {
    let implicit = "[[port]]\nname = \"a\"\nkind = \"null\"\n[[port]]\nname = \"b\"\nkind = \"null\"\n";
    for file in [FILE, implicit] {
        let service = running(file);
        let before = state(&service);
        let add = |json: Value| service.add_bridge(&json, &Peer::own()).map_err(ApiError::into_diagnostic);
        add(json!({ "name": "lan", "table": 1024 })).unwrap();
        assert_eq!(state(&service).0, before.0, "no port was touched");
        assert!(add(json!({ "name": "lan" })).unwrap_err().reason.contains("is called \"lan\""));
        let tree = add(json!({ "name": "tree", "stp": "rstp" })).unwrap_err();
        assert!(tree.reason.contains("those of the start"), "{tree:?}");
        let only = service.topology().ports[0].bridge.clone();
        set(&service, "a", &json!({ "bridge": "lan" })).unwrap();
        let text = service.configuration().unwrap().text;
        assert!(
            text.contains("name = \"lan\"\ntable = 1024\n") && text.contains("bridge = \"lan\""),
            "{text}"
        );
        let remove =
            |name: &str| service.remove_bridge(name, &Peer::own()).map_err(ApiError::into_diagnostic);
        assert!(remove("lan").unwrap_err().reason.contains("it has the ports a"));
        assert!(remove("none").unwrap_err().reason.contains("no such bridge"));
        set(&service, "a", &json!({ "bridge": only })).unwrap();
        remove("lan").unwrap();
        assert!(remove(&only).unwrap_err().reason.contains("at least one bridge"));
        assert_eq!(state(&service), before);
    }
}

#[test]
fn a_bridge_changes_with_its_ports_and_static_entries() {
    let service = running(FILE);
    let (before, file) = (state(&service), service.configuration().unwrap().text);
    let set = |json: Value| {
        let set = service.set_bridge("main", &json, &Peer::own()).map_err(ApiError::into_diagnostic)?;
        Ok::<_, Diagnostic>(set.changes.iter().map(|change| change.action.name()).collect::<Vec<_>>())
    };
    assert_eq!(set(json!({ "ageing": "20s", "mac_moves": "free" })).unwrap(), ["change"]);
    let after = state(&service);
    assert_eq!((after.0, after.1), (before.0.clone(), before.1.clone()));
    let text = service.configuration().unwrap().text;
    assert!(text.contains("name = \"main\"\nageing = \"20s\"\nmac_moves = \"free\"\n"), "{text}");
    for (json, reason) in [
        (json!({ "name": "other" }), "`name` cannot be changed"),
        (json!({ "static": null }), "sections of its own"),
        (json!({ "table": 1024 }), "change while it runs"),
        (json!({ "stp": "rstp", "ageing": "30s" }), "change while it runs"),
        (json!({ "ageing": "1s" }), "ageing"),
        (json!({ "colour": 7 }), "unknown key `colour`"),
        (json!([]), "a list"),
    ] {
        let error = set(json.clone()).unwrap_err();
        assert!(error.reason.contains(reason), "{json}: {error:?}");
        assert_eq!(service.configuration().unwrap().text, text);
    }
    assert_eq!(set(json!({ "ageing": null, "mac_moves": null })).unwrap(), ["change"]);
    assert_eq!((state(&service), service.configuration().unwrap().text), (before, file));
    assert!(set(json!({ "ageing": "5m" })).unwrap().is_empty());
}

/// Keys that no request names are read back as they are.
#[test]
fn a_bridge_with_protocols_keeps_them_when_it_changes() {
    const TABLES: &str = "[[bridge]]\nname = \"main\"\npipeline = \"openflow\"\nauxiliary = 1\n\
        controllers = [\"tcp:127.0.0.1:6653\", \"punix:/tmp/c\"]\nfail_mode = \"standalone\"\n\
        datapath_id = \"00000000000000aa\"\nprobe_interval = \"7s\"\nmax_backoff = \"9s\"\nmax_flows = 500\n\
        tunnel_options = [\"{class=0x102,type=0x80,len=4}->tun_metadata0\"]\nmanagement = \"/tmp/m\"\n\
        socket_mode = \"0660\"\n\
        sflow = { collectors = [\"127.0.0.1\"], sampling = 9, header = 64, agent = \"127.0.0.2\" }\n\
        ipfix = { collectors = [\"127.0.0.1:9\"], domain = 7, cache_max_flows = 0 }\n";
    const TREE: &str = "[[bridge]]\nname = \"tree\"\nstp = \"rstp\"\nstp_priority = 4096\nstp_hello = \"1s\"\n\
        stp_address = \"02:00:00:00:00:09\"\ndhcp_snooping = true\nmulticast_snooping = { max_groups = 64, \
        query_interval = \"60s\", flood_unregistered = false, querier = true, querier_address = \"10.0.0.1\" }\n";
    let topology = config::parse(&format!("{TABLES}{TREE}"), &Host::here(), None).unwrap();
    for (index, bridge) in topology.bridges.iter().enumerate() {
        let same = requests::changed_bridge(&json!({}), &topology, index).unwrap();
        assert_eq!(same, *bridge);
    }
    let service = running(&format!("{TREE}[[port]]\nname = \"a\"\nkind = \"null\"\n"));
    service.set_bridge("tree", &json!({ "ageing": "20s" }), &Peer::own()).unwrap();
    assert_eq!(service.topology().bridges[0].ageing.to_string(), "20s");
}

#[test]
fn a_bridge_leaves_with_the_static_entries_of_its_ports() {
    let service = running(
        "[[bridge]]\nname = \"main\"\n[[bridge]]\nname = \"lan\"\n[[bridge.static]]\n\
         mac = \"02:00:00:00:00:01\"\nport = \"b\"\n[[port]]\nname = \"a\"\nkind = \"null\"\nbridge = \"main\"\n\
         [[port]]\nname = \"b\"\nkind = \"null\"\nbridge = \"lan\"\n",
    );
    service.remove_port("b").unwrap();
    service.remove_bridge("lan", &Peer::own()).unwrap();
    let text = service.configuration().unwrap().text;
    assert!(!text.contains("lan") && !text.contains("static"), "{text}");
}

#[test]
fn flows_and_rules_of_the_only_bridge_name_it_when_another_one_is_added() {
    let service = running(
        "[[bridge]]\nname = \"filed3\"\npipeline = \"openflow\"\n[[port]]\nname = \"a\"\nkind = \"null\"\n\
         [[port]]\nname = \"b\"\nkind = \"null\"\n[[flow]]\nflow = [\"priority=1,actions=NORMAL\"]\n\
         [[acl]]\nfrom = \"a\"\nto = \"b\"\naction = \"allow\"\n",
    );
    service.add_bridge(&json!({ "name": "lan" }), &Peer::own()).unwrap();
    let text = service.configuration().unwrap().text;
    assert_eq!(text.matches("bridge = \"filed3\"").count(), 4, "{text}");
}

#[test]
fn what_another_request_has_changed_is_not_taken_back() {
    let service = running(FILE);
    let edited = service.edit(&Peer::own(), |wanted| {
        wanted.ports[1].policy = Policy::default();
        service.remove_port("a").map(drop)
    });
    let error = edited.unwrap_err().into_diagnostic();
    assert!(error.reason.contains("another request"), "{error:?}");
    assert_eq!(names(&service), ["b"]);
}
