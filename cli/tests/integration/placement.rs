//! Placement commands: the machine's topology, the placement of a running switch, and a dry run.

use super::common::{command, json};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn linerate(control: &Path) -> Command {
    let mut command = command(&["--control"]);
    command.arg(control);
    command
}

/// A switch that is killed when its test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_machine_is_shown_without_a_switch() {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("c.sock");
    let machine = json(&linerate(&control).args(["placement", "machine", "-o", "json"]).output().unwrap());
    let cpus = machine["cpus"].as_array().unwrap();
    assert!(cpus.iter().any(|cpu| cpu["allowed"] == true), "{machine}");
    let table = linerate(&control).args(["placement", "machine"]).output().unwrap();
    assert!(String::from_utf8(table.stdout).unwrap().lines().next().unwrap().contains("CORE OF"));
}

#[test]
fn running_switch_reports_queue_placement_and_proposed_moves() {
    let dir = tempfile::tempdir().unwrap();
    let (control, file) = (dir.path().join("c.sock"), dir.path().join("s.toml"));
    let text = "[[worker]]\n[[worker]]\n[[port]]\nname = \"a\"\nkind = \"patch\"\npeer = \"b\"\nbridge = \"x\"\n\
        [[port]]\nname = \"b\"\nkind = \"patch\"\npeer = \"a\"\nbridge = \"y\"\n[[bridge]]\nname = \"x\"\n\
        [[bridge]]\nname = \"y\"\n[placement]\npattern = \"auto\"\nqueues = { a = 1 }\nisolated = [\"a\"]\n\
        rebalance = \"dry-run\"\ninterval = \"100ms\"\n";
    std::fs::write(&file, text).unwrap();
    let _running = Running(linerate(&control).arg("run").arg(&file).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(20);
    let report = loop {
        let shown = linerate(&control).args(["placement", "show", "-o", "json"]).output().unwrap();
        if shown.status.success() && json(&shown)["latest"].is_object() {
            break json(&shown);
        }
        assert!(Instant::now() < until, "{}", String::from_utf8_lossy(&shown.stderr));
        std::thread::sleep(Duration::from_millis(20));
    };
    let queues = report["queues"].as_array().unwrap();
    let worker = |port: &str| &queues.iter().find(|queue| queue["port"] == port).unwrap()["worker"];
    assert_eq!((worker("a"), worker("b")), (&1.into(), &0.into()), "{report}");
    assert!(report["workers"].as_array().unwrap().iter().all(|worker| worker["cpu"].is_number()), "{report}");
    let dry = linerate(&control)
        .args(["rebalance", "--dry-run", "--duration", "50ms", "-o", "json"])
        .output()
        .unwrap();
    assert_eq!((&json(&dry)["done"], json(&dry)["moves"].as_array().unwrap().len()), (&false.into(), 0));
    let wrong = linerate(&control).args(["rebalance", "--duration", "1h"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}
