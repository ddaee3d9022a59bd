//! Flags beside flags: one that nobody would read is refused, as are two that stand in each other's way. Nothing is started here, and
//! nothing is read but what users wrote.

use super::command::names;
use super::setup::Switch;
use super::wishes::Wishes;
use crate::trouble::Trouble;
use std::time::Duration;

/// Least and longest time that ports may take, as the generator has it.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1), Duration::from_hours(7 * 24)];

/// CPUs that there are, and each only once.
pub(super) fn cpus(wishes: &Wishes) -> Result<(), Trouble> {
    let allowed = crate::host::Host::here().allowed();
    let flags =
        [("--switch-cpu", wishes.switch_cpu), ("--guest-cpu", wishes.guest_cpu), ("--cpu", wishes.cpu)];
    let given: Vec<(&str, usize)> = flags.iter().filter_map(|(flag, cpu)| Some((*flag, (*cpu)?))).collect();
    if let Some((flag, cpu)) = given.iter().find(|(_, cpu)| !allowed.contains(cpu)) {
        let remedy = format!("choose one of the CPUs that this process may use: {allowed:?}");
        return Err(Trouble::bad(format!("{flag} {cpu}"), "this CPU cannot be used", remedy));
    }
    let twice = given.iter().enumerate().find_map(|(n, (flag, cpu))| {
        let (other, _) = given[..n].iter().find(|(_, before)| before == cpu)?;
        Some(format!("{other} {cpu} and {flag} {cpu}"))
    });
    twice.map_or(Ok(()), |place| Err(shared(&place)))
}

/// Two who take turns on one CPU.
pub(super) fn shared(place: &str) -> Trouble {
    let reason = "they would take turns on one CPU, and what was measured would be how long a turn is";
    Trouble::bad(place, reason, "give each a CPU of its own; a guest that has none can be --guest merged")
}

/// A time in which something can come to life.
pub(super) fn patience(wishes: &Wishes) -> Result<(), Trouble> {
    let [least, longest] = PATIENCE;
    if (least..=longest).contains(&wishes.patience()) {
        return Ok(());
    }
    let reason = format!("no switch can be waited for as long as {:?}", wishes.patience());
    Err(Trouble::bad("--patience", reason, "write a time from 1ms to a week, such as 20s"))
}

/// A flag that is there and that nobody would read: its name, why, and what to do.
type Useless = (&'static str, &'static str, &'static str);

/// Every flag that is there has somebody who reads it.
pub(super) fn uses(wishes: &Wishes, switch: Switch<'_>, has_guest: bool) -> Result<(), Trouble> {
    let of_switch = [switch_ports(wishes, switch), switch_cpu(wishes, switch)];
    let of_guest = [guest(wishes, has_guest), guest_cpu(wishes, has_guest)];
    let found = of_switch.into_iter().chain(of_guest).chain([sockets(wishes, switch, has_guest)]);
    let found = found.flatten().next();
    found.map_or(Ok(()), |(flag, reason, remedy)| Err(Trouble::bad(flag, reason, remedy)))
}

fn switch_ports(wishes: &Wishes, switch: Switch<'_>) -> Option<Useless> {
    let given = !(wishes.switch_ports.is_empty() && wishes.switch_port_flags.is_empty());
    let reason = "only a switch that is started here as linerate is given ports";
    (given && !matches!(switch, Switch::Ours)).then_some(("--switch-port", reason, "leave it out"))
}

fn switch_cpu(wishes: &Wishes, switch: Switch<'_>) -> Option<Useless> {
    wishes.switch_cpu?;
    match switch {
        Switch::Running => {
            Some(("--switch-cpu", "a switch that runs already is where it is", "leave it out"))
        }
        Switch::Command(command) if !names(command, "cpu") => Some((
            "--switch-cpu",
            "the command does not name {cpu}, so nobody would run there",
            "write {cpu} where --switch-command takes a CPU, or leave --switch-cpu out",
        )),
        Switch::Ours | Switch::Merged | Switch::Command(_) => None,
    }
}

fn guest(wishes: &Wishes, has_guest: bool) -> Option<Useless> {
    let reason = "frames pass no guest here";
    (wishes.guest.is_some() && !has_guest).then_some(("--guest", reason, "leave it out"))
}

fn guest_cpu(wishes: &Wishes, has_guest: bool) -> Option<Useless> {
    wishes.guest_cpu?;
    match &wishes.guest_command {
        _ if !has_guest => {
            Some(("--guest-cpu", "there is no guest, so nobody would run there", "leave it out"))
        }
        Some(command) if !names(command, "cpu") => Some((
            "--guest-cpu",
            "the command does not name {cpu}, so nobody would run there",
            "write {cpu} where --guest-command takes a CPU, or leave --guest-cpu out",
        )),
        _ => None,
    }
}

fn sockets(wishes: &Wishes, switch: Switch<'_>, has_guest: bool) -> Option<Useless> {
    wishes.sockets?;
    let reason = match switch {
        Switch::Command(_) => "every port and guest is named, so there are no sockets but theirs",
        _ => "only a switch that --switch-command starts can have it either way",
    };
    let made_up = wishes.ports.is_empty() && wishes.port_flags.is_empty();
    let read =
        matches!(switch, Switch::Command(_)) && (made_up || has_guest && wishes.guest_command.is_none());
    (!read).then_some(("--sockets", reason, "leave it out"))
}
