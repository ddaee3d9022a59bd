//! `linerate guest --hostile`: an attack, alone or alternating with a calm pair that measures its effect.

use super::calm::{self, Calm};
use super::validate_size;
use crate::args::guest::GuestArgs;
use console::{Diagnostic, Span};
use guest::GuestError;
use guest::hostile::{Attack, AttackConfig, AttackGroup, DeviceCounts, Socket, Target};
use port::virtio_user::FrontEndListener;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::MacAddress;

/// Interval of checks whether devices are connected.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Turns between two clock reads.
const STEPS: u32 = 4096;

/// Printed results of an attack.
#[derive(Debug, Serialize)]
pub(super) struct HostileReport {
    attack: &'static str,
    ring: &'static str,
    /// Seconds from the first turn to the end.
    seconds: f64,
    cpu: Option<usize>,
    devices: Vec<DeviceReport>,
    /// Measurements of the calm guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    calm: Option<Calm>,
}

/// One device of an attack.
#[derive(Debug, Serialize)]
struct DeviceReport {
    socket: PathBuf,
    mac: MacAddress,
    connects: u64,
    /// Connections that the switch closed.
    refused: u64,
    /// Chains that the switch took.
    sent: u64,
    received: u64,
    /// Received frames addressed to another guest.
    foreign: u64,
    kicks: u64,
    /// Fault for which the device was stopped on the guest's side.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// Runs the attack until its duration is over or a signal arrives.
pub(super) fn run(attack: &'static Attack, args: &GuestArgs, ending: &Arc<AtomicBool>) -> anyhow::Result<()> {
    validate(attack, args)?;
    let mut group = AttackGroup::new(attack, &orders(args), sockets(args)?);
    while !ending.load(Ordering::Relaxed) && !group.is_ready().map_err(|error| failed(attack, &error))? {
        std::thread::sleep(POLL_INTERVAL);
    }
    let began = Instant::now();
    let (device_counts, calm) = if args.attack.calm.is_empty() {
        alone(&mut group, args.duration, ending);
        (group.device_counts(), None)
    } else {
        let (device_counts, calm) = calm::run(args, group, ending)?;
        (device_counts, Some(calm))
    };
    let report = HostileReport {
        attack: attack.name,
        ring: args.ring.name(),
        seconds: began.elapsed().as_secs_f64(),
        cpu: args.cpu,
        devices: device_counts.into_iter().map(DeviceReport::from).collect(),
        calm,
    };
    console::print(&report, args.show.output, text)
}

fn alone(group: &mut AttackGroup, duration: Option<Span>, ending: &AtomicBool) {
    let until = duration.map(|duration| Instant::now() + duration.0);
    while !ending.load(Ordering::Relaxed) && until.is_none_or(|at| Instant::now() < at) {
        (0..STEPS).for_each(|_| group.step());
    }
}

fn validate(attack: &Attack, args: &GuestArgs) -> Result<(), Diagnostic> {
    validate_size(args)?;
    let place = || format!("--hostile {}", attack.name);
    let sockets = args.socket.connect.len() + args.socket.listen.len();
    if sockets > 2 {
        let reason = format!("an attack has one or two devices, and there are {sockets} sockets");
        return Err(Diagnostic::bad(place(), reason, "give one socket or two"));
    }
    if sockets < 2 && attack.needs_receiver {
        let remedy = "give a second socket, to another port of the same switch";
        return Err(Diagnostic::bad(place(), "this attack needs a second device", remedy));
    }
    if sockets < 2 && args.peer.is_none() && !attack.needs_no_victim() {
        let remedy = "give --peer MAC, or a second socket whose device receives";
        return Err(Diagnostic::bad(place(), "the destination of its frames is not set", remedy));
    }
    if attack.only_connects() && !args.socket.listen.is_empty() {
        let reason = "the device of this attack can only connect";
        return Err(Diagnostic::bad(place(), reason, "let the switch listen, and give --connect"));
    }
    if attack.uses_victim_address() && args.peer.is_none() && args.attack.calm.is_empty() {
        let reason = "the address to spoof is not set";
        return Err(Diagnostic::bad(place(), reason, "give --peer MAC, or --calm twice"));
    }
    if !matches!(args.attack.calm.len(), 0 | 2) {
        let reason = format!("--calm requires two sockets, and {} is given", args.attack.calm.len());
        return Err(Diagnostic::bad("--calm", reason, "give it twice: for the sender and for the receiver"));
    }
    Ok(())
}

fn orders(args: &GuestArgs) -> AttackConfig {
    let own = args.mac.octets();
    let mut next = own;
    next[5] = next[5].wrapping_add(1);
    let two = args.socket.connect.len() + args.socket.listen.len() == 2;
    let peer = args.peer.map(MacAddress::octets);
    let target = Target {
        own,
        to: if two { next } else { peer.unwrap_or(next) },
        victim: peer.or_else(|| (!args.attack.calm.is_empty()).then(|| calm::RECEIVER.octets())),
        queue_size: args.queue_size,
    };
    AttackConfig { ring: args.ring, target, anyway: args.attack.anyway }
}

fn sockets(args: &GuestArgs) -> Result<Vec<Socket>, Diagnostic> {
    let connect = args.socket.connect.iter().map(|path| Ok(Socket::Connect(path.clone())));
    let listen = args.socket.listen.iter().map(|path| match FrontEndListener::bind(path) {
        Ok(listener) => Ok(Socket::Listen(path.clone(), Arc::new(listener))),
        Err(error) => Err(Diagnostic::bad(path.display(), error, "choose another path for the socket")),
    });
    connect.chain(listen).collect()
}

/// Missing features of the switch are invalid input: another attack or configuration would work.
fn failed(attack: &Attack, error: &GuestError) -> Diagnostic {
    let place = format!("--hostile {}", attack.name);
    match error {
        GuestError::NotOffered(_) => {
            Diagnostic::bad(place, error, "enable it at the port, or attack without it by --anyway")
        }
        GuestError::Missing(_) => Diagnostic::bad(place, error, "choose another --ring"),
        _ => Diagnostic::failed(place, error, "check the switch's messages about this port"),
    }
}

impl From<DeviceCounts> for DeviceReport {
    fn from(account: DeviceCounts) -> Self {
        let DeviceCounts { socket, mac, connects, refused, counts, fault } = account;
        Self {
            socket,
            mac: mac.into(),
            connects,
            refused,
            sent: counts.sent,
            received: counts.received,
            foreign: counts.foreign,
            kicks: counts.kicks,
            fault,
        }
    }
}

fn text(report: &HostileReport) -> String {
    let titles = ["DEVICE", ">CONNECTS", ">REFUSED", ">SENT", ">RECEIVED", ">FOREIGN", ">KICKS", "FAULT"];
    let row = |device: &DeviceReport| {
        let numbers =
            [device.connects, device.refused, device.sent, device.received, device.foreign, device.kicks];
        let mut row = vec![device.socket.display().to_string()];
        row.extend(numbers.iter().map(u64::to_string));
        row.push(device.fault.clone().unwrap_or_default());
        row
    };
    let table = console::table(&titles, report.devices.iter().map(row));
    let calm = report.calm.as_ref().map(calm::text).unwrap_or_default();
    format!("{table}\n{}, {} ring, {:.1} s\n{calm}", report.attack, report.ring, report.seconds)
}
