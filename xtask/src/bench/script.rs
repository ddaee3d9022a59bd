//! A reading that is taken by a shell script, in a temporary folder that the script finds in `FOLDER`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::Options;
use super::rounds::Values;
use crate::command;

/// Time in seconds that a script has for start and end.
const MORE: f64 = 180.0;
/// Maximum number of lines of each log in an error.
const SHOWN: usize = 12;

/// Runs a script with `SWITCH_CPU`, `GUEST_CPU`, `SECONDS_EACH`, `LINERATE`, `FOLDER` and `variables` in its
/// environment. Returns its standard output; an error contains the ends of the logs in its folder.
pub(super) fn run(options: &Options, text: &str, variables: &[(&str, &str)]) -> Result<String> {
    let folder =
        TempDir::with_prefix("linerate-bench-").context("cannot create a temporary folder: set TMPDIR")?;
    let script = folder.path().join("reading.sh");
    fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
    let mut command = Command::new("timeout");
    let limit = (3.0 * options.duration.as_secs_f64() + MORE).ceil();
    command
        .args(["--kill-after=10", &limit.to_string(), "bash"])
        .arg(&script)
        .envs(variables.iter().copied());
    command.env("SWITCH_CPU", options.switch_cpu.to_string()).env("GUEST_CPU", options.guest_cpu.to_string());
    command.env("SECONDS_EACH", options.duration.as_secs_f64().to_string());
    command.env("LINERATE", command::linerate()).env("FOLDER", folder.path());
    command::output(&mut command).with_context(|| logs(folder.path()))
}

/// A reading by a script, whose output `parse` understands.
pub(super) fn read(
    options: &Options,
    text: &str,
    variables: &[(&str, &str)],
    parse: impl Fn(&str) -> Option<Values>,
) -> Result<Values> {
    let said = run(options, text, variables)?;
    parse(&said).with_context(|| format!("the script printed {said:?}"))
}

/// Variables of a script with the labels of a subject.
pub(super) fn labelled<'a, const N: usize>(
    names: [&'a str; N],
    subject: &'a [String],
) -> Vec<(&'a str, &'a str)> {
    names.into_iter().zip(subject.iter().map(String::as_str)).collect()
}

/// The ends of the logs in a folder.
fn logs(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let shown = logs.map(|path| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
        format!("{}:\n{end}\n", path.file_name().unwrap_or_default().display())
    });
    "the reading failed; its logs end with\n".to_owned() + &shown.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_its_variables_and_an_error_shows_its_logs() {
        let run = |text| run(&Options::of_test(1), text, &[("SUBJECT", "ovs")]);
        assert_eq!(run("echo $SUBJECT $SECONDS_EACH").unwrap(), "ovs 1\n");
        let error = format!("{:#}", run("cd $FOLDER; echo no memory >switch.log; exit 3").unwrap_err());
        assert!(error.contains("switch.log:\nno memory"), "{error}");
    }
}
