//! A start with each call failing once, of a switch with one socket, and of one with all of `[switch]`.

use std::fs;

use linerate_tests::switch::Switch;
use linerate_tests::wait;

use super::super::{LIMIT, Lab, is_well, walk};
use crate::remote::Pki;

/// A loopback address of these tests alone, because other tests look for free ports while the switch does not run.
const HOST: &str = "127.77.0.1";

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_start_succeeds_or_has_one_error_and_leaves_nothing() {
    let lab = Lab::new();
    started_or_not(&lab, &lab.texts[0]);
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_start_with_all_sockets_succeeds_or_has_one_error_and_leaves_nothing() {
    let lab = Lab::new();
    let (folder, pki) = (lab.folder.path(), Pki::new(lab.folder.path()));
    let path = |name: &str| folder.join(name).display().to_string();
    let section = pki.section_at(&format!("{HOST}:9443"))
        + &format!(
            "metrics = \"{HOST}:9100\"\nweb = \"{HOST}:9102\"\nweb_token_file = \"{}\"\n",
            path("write")
        )
        + &format!("read_socket = \"{}\"\ngrants = \"{}\"\n", path("read.sock"), path("grants.sock"))
        + &format!("control_group = \"0\"\ncontrol_mode = \"0660\"\npaths = [\"{}\"]\n\n", folder.display());
    started_or_not(&lab, &(section + &lab.texts[0] + "\n[[grant]]\nports = 1\n"));
}

/// Starts a switch with this configuration with each call failing in turn.
fn started_or_not(lab: &Lab, text: &str) {
    lab.write("switch.toml", text);
    let log = lab.folder.path().join("linerate.log");
    let before = files(lab);
    walk(&lab.faults, |what| {
        // It is there after the first case.
        let _ = fs::remove_file(&log);
        let started = Switch::restart_as(lab.folder.path(), &lab.faults.command());
        let has_failed = lab.faults.disarm();
        match started.and_then(|switch| greeted(switch, what)) {
            Ok(switch) => switch.stop(),
            Err(output) => {
                assert!(output.contains("remedy: ") && !output.contains("panicked"), "{what}: {output}");
            }
        }
        assert_eq!(files(lab), before, "{what}");
        has_failed
    });
}

/// Files of the test but the log, and the lock: if it could not be taken it stays, because another process may hold it.
fn files(lab: &Lab) -> Vec<String> {
    let files = fs::read_dir(lab.folder.path()).expect("a folder").flatten();
    let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut files: Vec<_> =
        files.filter(|name| name != "control.sock.lock" && name != "linerate.log").collect();
    files.sort();
    files
}

/// Waits for the end of the start, of which the control API is not the last step.
pub(super) fn greeted(mut switch: Switch, what: &str) -> Result<Switch, String> {
    let greeted = wait::until(LIMIT, || {
        let has_ended = !switch.is_running();
        has_ended.then_some(false).or_else(|| switch.log().contains("\"topology\"").then_some(true))
    });
    if greeted == Some(false) {
        return Err(switch.log());
    }
    is_well(&mut switch, what);
    Ok(switch)
}
