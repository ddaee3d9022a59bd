//! The unit of the packages (`contrib/systemd`), run by systemd in a container.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use linerate_tests::{binary, container, folder};
use serde_json::Value;

const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/systemd");
const FILE: &str = r#"
[switch]
control = "/run/linerate/control.sock"
[[port]]
name = "a"
socket = "/run/linerate/guests/a"
[[port]]
name = "b"
socket = "/run/linerate/guests/b"
"#;

/// What a container has left in its folder.
struct Results<'a>(&'a Path);

impl Results<'_> {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Value {
        let text = self.text(name);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }

    fn after(&self, step: &str) -> Unit {
        let text = self.text(step);
        let properties: HashMap<_, _> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let number = |name| {
            let value = properties.get(name).and_then(|value| value.parse().ok());
            value.unwrap_or_else(|| panic!("{name} after {step}: {text}: {}", self.text("steps.log")))
        };
        Unit {
            process: number("MainPID"),
            stored: number("NFileDescriptorStore"),
            restarts: number("NRestarts"),
            state: properties.get("ActiveState").copied().unwrap_or_default().to_owned(),
        }
    }
}

/// Properties of the unit.
#[derive(Debug, PartialEq, Eq)]
struct Unit {
    process: u32,
    /// Stored descriptors.
    stored: u32,
    /// How often systemd has restarted it by itself.
    restarts: u32,
    state: String,
}

impl Unit {
    #[track_caller]
    fn is(&self, state: &str, restarts: u32) {
        assert_eq!((self.state.as_str(), self.restarts, self.stored), (state, restarts, 0), "{self:?}");
    }
}

mod every {
    use super::*;

    #[test]
    #[ignore = "needs root and systemd-nspawn: run by `cargo xtask test --all`"]
    fn unit_keeps_ports_over_a_restart_and_an_upgrade_and_is_restarted_when_it_hangs() {
        let folder = folder();
        fs::write(folder.path().join("switch.toml"), FILE).expect("a file of the test");
        let binds = [(binary::linerate(), "/usr/bin/linerate"), (Path::new(UNITS), "/units")];
        container::run(folder.path(), include_str!("systemd/steps.sh"), &binds);
        let results = Results(folder.path());
        let started = results.after("started");
        started.is("active", 0);
        let restarted = results.after("restarted");
        restarted.is("active", 0);
        assert_ne!(restarted.process, started.process);
        let ports = results.json("ports.json");
        let ports = ports.as_array().expect("ports").iter().map(|port| &port["live"]["state"]);
        assert_eq!(ports.collect::<Vec<_>>(), ["connected", "connected"]);
        assert_eq!(results.after("reloaded"), restarted);
        let upgraded = results.after("upgraded");
        upgraded.is("active", 0);
        assert_ne!(upgraded.process, restarted.process);
        let report = results.json("gen.json");
        let [sent, received, lost] = ["sent", "received", "lost"].map(|key| report[key].as_u64());
        assert_eq!((received, lost), (sent, Some(0)), "{report}");
        assert!(sent > Some(0), "{report}");
        let hung = results.after("hung");
        hung.is("active", 1);
        assert_ne!(hung.process, upgraded.process);
        results.after("stopped").is("inactive", 0);
    }
}
