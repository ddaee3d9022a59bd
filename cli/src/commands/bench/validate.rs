//! Validates combinations of flags: rejects flags without effect and conflicting flags. Starts nothing, and reads
//! only user input.

use super::command::names;
use super::subject::Switch;
use crate::args::bench_options::BenchOptions;
use crate::host::Host;
use console::{Diagnostic, Span};
use std::time::Duration;

/// Minimum and maximum timeout, as in the generator.
const TIMEOUT: [Duration; 2] = [Duration::from_millis(1), Duration::from_hours(7 * 24)];

/// Checks that CPUs exist and are used only once.
pub(super) fn cpus(options: &BenchOptions) -> Result<(), Diagnostic> {
    let host = Host::here();
    let flags =
        [("--switch-cpu", options.switch_cpu), ("--guest-cpu", options.guest_cpu), ("--cpu", options.cpu)];
    let given: Vec<(&str, usize)> = flags.iter().filter_map(|(flag, cpu)| Some((*flag, (*cpu)?))).collect();
    for (flag, cpu) in &given {
        if let Some((reason, remedy)) = host.unusable(*cpu) {
            return Err(Diagnostic::bad(format!("{flag} {cpu}"), format!("this CPU {reason}"), remedy));
        }
    }
    let twice = given.iter().enumerate().find_map(|(n, (flag, cpu))| {
        let (other, _) = given[..n].iter().find(|(_, before)| before == cpu)?;
        Some(format!("{other} {cpu} and {flag} {cpu}"))
    });
    twice.map_or(Ok(()), |place| Err(shared(&place)))
}

/// Error for two threads that share a CPU.
pub(super) fn shared(place: &str) -> Diagnostic {
    let reason = "they would share one CPU, and scheduling would dominate the results";
    Diagnostic::bad(place, reason, "give each its own CPU; a guest without a CPU can be --guest inline")
}

/// Checks the range of the timeout.
pub(super) fn timeout(options: &BenchOptions) -> Result<(), Diagnostic> {
    let [least, longest] = TIMEOUT;
    if (least..=longest).contains(&options.timeout()) {
        return Ok(());
    }
    let reason = format!("invalid value {}: expected 1ms to a week", Span(options.timeout()));
    Err(Diagnostic::bad("--timeout", reason, "write a time from 1ms to a week, such as 20s"))
}

/// A flag without effect: name, reason and remedy.
type Ineffective = (&'static str, &'static str, &'static str);

/// Checks that every given flag has an effect.
pub(super) fn uses(options: &BenchOptions, switch: Switch<'_>, has_guest: bool) -> Result<(), Diagnostic> {
    let of_switch = [switch_ports(options, switch), switch_cpu(options, switch)];
    let of_guest = [guest(options, has_guest), guest_cpu(options, has_guest)];
    let found = of_switch.into_iter().chain(of_guest).chain([sockets(options, switch, has_guest)]);
    let found = found.flatten().next();
    found.map_or(Ok(()), |(flag, reason, remedy)| Err(Diagnostic::bad(flag, reason, remedy)))
}

fn switch_ports(options: &BenchOptions, switch: Switch<'_>) -> Option<Ineffective> {
    let given = !(options.switch_ports.is_empty() && options.switch_port_flags.is_empty());
    let reason = "this option applies only to the built-in switch";
    (given && !matches!(switch, Switch::Ours)).then_some(("--switch-port", reason, "leave it out"))
}

fn switch_cpu(options: &BenchOptions, switch: Switch<'_>) -> Option<Ineffective> {
    options.switch_cpu?;
    match switch {
        Switch::Running => Some(("--switch-cpu", "a running switch cannot be pinned", "leave it out")),
        Switch::Command(command) if !names(command, "cpu") => Some((
            "--switch-cpu",
            "the command does not use {cpu}, so the CPU would have no effect",
            "write {cpu} where --switch-command takes a CPU, or leave --switch-cpu out",
        )),
        Switch::Ours | Switch::Inline | Switch::Command(_) => None,
    }
}

fn guest(options: &BenchOptions, has_guest: bool) -> Option<Ineffective> {
    let reason = "this topology has no guest";
    (options.guest.is_some() && !has_guest).then_some(("--guest", reason, "leave it out"))
}

fn guest_cpu(options: &BenchOptions, has_guest: bool) -> Option<Ineffective> {
    options.guest_cpu?;
    match &options.guest_command {
        _ if !has_guest => Some(("--guest-cpu", "there is no guest to pin", "leave it out")),
        Some(command) if !names(command, "cpu") => Some((
            "--guest-cpu",
            "the command does not use {cpu}, so the CPU would have no effect",
            "write {cpu} where --guest-command takes a CPU, or leave --guest-cpu out",
        )),
        _ => None,
    }
}

fn sockets(options: &BenchOptions, switch: Switch<'_>, has_guest: bool) -> Option<Ineffective> {
    options.sockets?;
    let reason = match switch {
        Switch::Command(_) => "every port and guest is named, so no socket has a default",
        _ => "this option requires --switch-command",
    };
    let made_up = options.ports.is_empty() && options.port_flags.is_empty();
    let read =
        matches!(switch, Switch::Command(_)) && (made_up || has_guest && options.guest_command.is_none());
    (!read).then_some(("--sockets", reason, "leave it out"))
}
