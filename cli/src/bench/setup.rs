//! Who takes part: the generator's ports, the switch and the guest, made of what users ask for and judged before
//! anything starts.
//!
//! A switch of our own gets a configuration that mirrors the generator's ports. In `phy-vm-phy` it has two bridges,
//! so that frames must pass the guest, which is a second process of this program that bridges two virtio-user ports;
//! in `loop` the guest reflects.

use super::child::Start;
use super::command::{fill, names};
use super::folder::Folder;
use super::wishes::{Listener, Own, Wishes};
use super::workers::{worker, workers};
use crate::kinds::{PortKind, SocketSettings, vhost_user};
use crate::section;
use crate::topology::PortSettings;
use crate::traffic::input::{described, judged_ports, keys, wrong_stream};
use crate::trouble::Trouble;
use lab::bench::{CpuSet, Plan, PlanError, Setup, Topology};
use lab::traffic::Description;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Everything, judged.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) setup: Setup,
    pub(super) stream: Description,
    pub(super) ports: Vec<PortSettings>,
    pub(super) switch: Option<Start>,
    pub(super) guest: Option<Start>,
    pub(super) cpus: CpuSet,
    pub(super) patience: Duration,
    pub(super) folder: Folder,
    /// The switch runs within the generator's thread, over ports of its own.
    pub(super) merged: bool,
}

/// Who runs the switch.
enum Switch<'a> {
    Ours,
    Running,
    Merged,
    Command(&'a str),
}

/// Makes a job of what is asked for. Nothing is started.
pub(super) fn job(wishes: &Wishes, place: &str) -> anyhow::Result<Job> {
    let plan = wishes.plan();
    plan.judge().map_err(|error| wrong_plan(place, &error))?;
    let stream = stream(wishes, &plan, place)?;
    judge_cpus(wishes)?;
    let folder = Folder::new()?;
    let topology = wishes.topology.unwrap_or_default();
    let switch = match (&wishes.switch_command, wishes.switch.unwrap_or_default()) {
        (Some(command), _) => Switch::Command(command),
        (None, Own::Linerate) => Switch::Ours,
        (None, Own::Running) => Switch::Running,
        (None, Own::Merged) => Switch::Merged,
    };
    judge_merged(wishes, topology, &switch)?;
    judge_workers(wishes, &switch)?;
    let ports = ports(wishes, topology, &switch, &folder)?;
    let parts = Parts { wishes, topology, switch, ports: &ports, folder: &folder };
    let merged = matches!(parts.switch, Switch::Merged);
    let (switch, switch_ports) = parts.switch()?;
    let guest = parts.guest()?;
    let setup = parts.setup(&stream, guest.is_some(), &switch_ports)?;
    let cpus = CpuSet { generator: wishes.cpu, switch: wishes.switch_cpu, guest: wishes.guest_cpu };
    Ok(Job { plan, setup, stream, ports, switch, guest, cpus, patience: wishes.patience(), folder, merged })
}

/// There is no other thread, so there is nothing to place and nobody to connect to.
fn judge_merged(wishes: &Wishes, topology: Topology, switch: &Switch<'_>) -> Result<(), Trouble> {
    let given = !(wishes.ports.is_empty() && wishes.port_flags.is_empty());
    let not_here = [
        ("--topology", topology != Topology::VmVm),
        ("--port", given),
        ("--switch-cpu", wishes.switch_cpu.is_some()),
    ];
    let wrong = not_here.into_iter().find(|(_, wrong)| *wrong && matches!(switch, Switch::Merged));
    wrong.map_or(Ok(()), |(flag, _)| {
        let reason = "a switch within the generator has its two ports and the generator's CPU";
        Err(Trouble::bad(format!("--switch merged with {flag}"), reason, format!("leave out {flag}")))
    })
}

fn judge_workers(wishes: &Wishes, switch: &Switch<'_>) -> Result<(), Trouble> {
    let foreign = wishes.switch_workers.is_some() && !matches!(switch, Switch::Ours);
    let place = "--switch-workers";
    let reason = "only a switch that is started here as linerate is run by it";
    if foreign { Err(Trouble::bad(place, reason, "leave it out")) } else { Ok(()) }
}

/// A plan's error names its word, why, and behind `; ` what to do.
fn wrong_plan(place: &str, error: &PlanError) -> Trouble {
    let told = error.to_string();
    let (reason, remedy) = told.rsplit_once("; ").unwrap_or((&told, "correct it"));
    Trouble::bad(place, reason, remedy)
}

/// The frames, judged at each size.
fn stream(wishes: &Wishes, plan: &Plan, place: &str) -> Result<Description, Trouble> {
    let file = wishes.stream.clone().unwrap_or_default();
    let mut stream = described(&wishes.set, &file)?;
    stream.flows = wishes.flows.unwrap_or(stream.flows);
    let not_here = [("rate", stream.rate.is_some()), ("pcap", stream.pcap.is_some())];
    if let Some((key, _)) = not_here.into_iter().find(|(_, given)| *given) {
        let reason = format!("`{key}` of the stream is what a benchmark decides itself");
        return Err(Trouble::bad(place, reason, "remove it"));
    }
    for size in &plan.sizes {
        let sized = Description { size: size.clone(), ..stream.clone() };
        sized.plan().map_err(|error| wrong_stream(place, 0, &sized, &error))?;
    }
    Ok(stream)
}

fn judge_cpus(wishes: &Wishes) -> Result<(), Trouble> {
    let allowed = crate::host::Host::here().allowed();
    let given =
        [("--switch-cpu", wishes.switch_cpu), ("--guest-cpu", wishes.guest_cpu), ("--cpu", wishes.cpu)];
    for (flag, cpu) in given {
        if let Some(cpu) = cpu.filter(|cpu| !allowed.contains(cpu)) {
            let remedy = format!("choose one of the CPUs that this process may use: {allowed:?}");
            return Err(Trouble::bad(format!("{flag} {cpu}"), "this CPU cannot be used", remedy));
        }
    }
    Ok(())
}

/// The generator's ports: those that are named, or virtio-user ports on sockets of their own.
fn ports(
    wishes: &Wishes,
    topology: Topology,
    switch: &Switch<'_>,
    folder: &Folder,
) -> anyhow::Result<Vec<PortSettings>> {
    let flags = wishes.port_flags.iter().map(|port| keys(port)).collect::<Result<Vec<_>, _>>()?;
    let given = if flags.is_empty() { wishes.ports.clone() } else { flags };
    let wanted = if topology == Topology::Loop { 1 } else { 2 };
    if !given.is_empty() {
        if given.len() != wanted {
            let reason = format!("there are {} ports, and {} has {wanted}", given.len(), topology.name());
            return Err(Trouble::bad("--port", reason, "name so many, or none").into());
        }
        return judged_ports(given);
    }
    if matches!(switch, Switch::Merged) {
        return Ok(Vec::new());
    }
    if matches!(switch, Switch::Running) {
        let reason = "a switch that runs already does not know sockets that are made up here";
        return Err(Trouble::bad("--switch running", reason, "name its places with --port").into());
    }
    let mode = match (switch, wishes.sockets.unwrap_or_default()) {
        (Switch::Command(_), Listener::Ours) => "server",
        _ => "client",
    };
    let port = |name: &str| {
        let keys =
            json!({ "name": name, "kind": "virtio-user", "socket": folder.socket(name), "mode": mode });
        keys.as_object().cloned().unwrap_or_default()
    };
    judged_ports(["a", "b"][..wanted].iter().map(|name| port(name)).collect())
}

/// What switch and guest are made of.
struct Parts<'a> {
    wishes: &'a Wishes,
    topology: Topology,
    switch: Switch<'a>,
    ports: &'a [PortSettings],
    folder: &'a Folder,
}

impl Parts<'_> {
    /// Whether frames pass a guest.
    fn has_guest(&self) -> bool {
        let named = |command: &str| names(command, "c");
        match (self.topology, &self.switch) {
            (Topology::VmVm, _) => false,
            (Topology::PhyVmPhy, _) | (Topology::Loop, Switch::Ours) => true,
            (Topology::Loop, Switch::Command(command)) => {
                self.wishes.guest_command.is_some() || named(command)
            }
            (Topology::Loop, Switch::Running | Switch::Merged) => self.wishes.guest_command.is_some(),
        }
    }

    /// The guest's sockets, one for each of its devices.
    fn guest_sockets(&self) -> Vec<String> {
        let devices = match (self.has_guest(), self.topology) {
            (false, _) => &[][..],
            (true, Topology::PhyVmPhy) => &["c", "d"],
            (true, _) => &["c"],
        };
        devices.iter().map(|name| self.folder.socket(name)).collect()
    }

    fn fill(&self, flag: &str, command: &str, cpu: Option<usize>) -> Result<String, Trouble> {
        let places: Vec<String> = self.ports.iter().map(|port| port.kind.place()).collect();
        let (sockets, cpu) = (self.guest_sockets(), cpu.unwrap_or(0).to_string());
        let of = |places: &[String], n: usize| places.get(n).cloned();
        let all = [of(&places, 0), of(&places, 1), of(&sockets, 0), of(&sockets, 1), Some(cpu)];
        let named: Vec<_> =
            ["a", "b", "c", "d", "cpu"].into_iter().zip(all.iter().map(Option::as_deref)).collect();
        fill(flag, command, &named)
    }

    /// The switch as a process, and the ports that ours has.
    fn switch(&self) -> Result<(Option<Start>, Vec<String>), Trouble> {
        match self.switch {
            Switch::Running | Switch::Merged => Ok((None, Vec::new())),
            Switch::Command(command) => {
                self.judge_command(command)?;
                let filled = self.fill("--switch-command", command, self.wishes.switch_cpu)?;
                Ok((Some(Start::shell("the switch", &filled)), Vec::new()))
            }
            Switch::Ours => {
                let (text, ports) = self.configuration()?;
                let file = self.folder.write("switch.toml", &text)?;
                let control = self.folder.socket("switch-control");
                Ok((Some(Start::own("the switch", &["--control", &control, "run", &file])?), ports))
            }
        }
    }

    /// A place that was made up here has to be told to the switch.
    fn judge_command(&self, command: &str) -> Result<(), Trouble> {
        let made_up = self.wishes.port_flags.is_empty() && self.wishes.ports.is_empty();
        let mut wanted = Vec::new();
        if made_up {
            wanted.extend(["a", "b"].into_iter().take(self.ports.len()));
        }
        if self.wishes.guest_command.is_none() {
            wanted.extend(["c", "d"].into_iter().take(self.guest_sockets().len()));
        }
        let Some(missing) = wanted.into_iter().find(|place| !names(command, place)) else { return Ok(()) };
        let reason =
            format!("{} needs {{{missing}}}, and the command does not name it", self.topology.name());
        let remedy =
            "write it where the command takes this socket, or name places with --port and --guest-command";
        Err(Trouble::bad("--switch-command", reason, remedy))
    }

    /// The guest as a process.
    fn guest(&self) -> Result<Option<Start>, Trouble> {
        if !self.has_guest() {
            let Some(command) = &self.wishes.guest_command else { return Ok(None) };
            let reason = format!("{} has no guest, so `{command}` has nothing to do", self.topology.name());
            return Err(Trouble::bad("--guest-command", reason, "remove it, or choose another --topology"));
        }
        if let Some(command) = &self.wishes.guest_command {
            let filled = self.fill("--guest-command", command, self.wishes.guest_cpu)?;
            return Ok(Some(Start::shell("the guest", &filled)));
        }
        if matches!(self.switch, Switch::Running) {
            let reason =
                "a switch that runs already does not know the sockets of a guest that is made up here";
            return Err(Trouble::bad("--switch running", reason, "name a --guest-command"));
        }
        if self.topology == Topology::Loop { self.reflector() } else { self.forwarder() }.map(Some)
    }

    /// Whether the guest's sockets are the guest's.
    fn guest_listens(&self) -> bool {
        matches!(self.switch, Switch::Command(_)) && self.wishes.sockets.unwrap_or_default() == Listener::Ours
    }

    /// A guest that sends back what it gets.
    fn reflector(&self) -> Result<Start, Trouble> {
        let way = if self.guest_listens() { "--listen" } else { "--connect" };
        let (sockets, cpu) = (self.guest_sockets(), self.wishes.guest_cpu.map(|cpu| cpu.to_string()));
        let socket = sockets.first().map_or("", String::as_str);
        // Where the generator's frames go by themselves.
        let mac = Description::default().destination_mac.to_string();
        let mut words = vec!["guest", "--mode", "macswap", "--mac", &mac, way, socket];
        words.extend(cpu.as_deref().iter().flat_map(|cpu| ["--cpu", cpu]));
        Start::own("the guest", &words)
    }

    /// A guest that bridges its two devices.
    fn forwarder(&self) -> Result<Start, Trouble> {
        let mode = if self.guest_listens() { "server" } else { "client" };
        let mut text = format!("{}[[bridge]]\nname = \"guest\"\n", worker(self.wishes.guest_cpu));
        for (name, socket) in ["c", "d"].into_iter().zip(self.guest_sockets()) {
            text += &socket_port(name, "guest", "virtio-user", &socket, mode);
        }
        let file = self.folder.write("guest.toml", &text)?;
        Start::own("the guest", &["--control", &self.folder.socket("guest-control"), "run", &file])
    }

    /// The configuration of our own switch, and its ports in words.
    fn configuration(&self) -> Result<(String, Vec<String>), Trouble> {
        let flags =
            self.wishes.switch_port_flags.iter().map(|port| keys(port)).collect::<Result<Vec<_>, _>>()?;
        let given = if flags.is_empty() { self.wishes.switch_ports.clone() } else { flags };
        if !given.is_empty() && given.len() != self.ports.len() {
            let reason = format!(
                "there are {} ports of the switch, and {} of the generator",
                given.len(),
                self.ports.len()
            );
            return Err(Trouble::bad("--switch-port", reason, "name one for each, or none"));
        }
        let bridges = if self.topology == Topology::PhyVmPhy { &["in", "out"][..] } else { &["in"] };
        let (mut text, _) = workers(self.wishes)?;
        for name in bridges {
            // Writing to a String cannot fail.
            let _ = write!(text, "[[bridge]]\nname = \"{name}\"\n");
        }
        let last = bridges.last().copied().unwrap_or("in");
        let mut words = Vec::new();
        for (n, (port, bridge)) in self.ports.iter().zip(["in", last]).enumerate() {
            let own = match given.get(n) {
                Some(keys) => own_port(keys, n)?,
                None => mirrored(port)?,
            };
            words.push(own.kind.to_string());
            let own =
                PortSettings { name: ["a", "b"][n.min(1)].to_owned(), bridge: bridge.to_owned(), ..own };
            let remedy = "name it as a --switch-port";
            text += &section::port(&own).map_err(|e| Trouble::bad("the switch's port", e, remedy))?;
        }
        for ((name, bridge), socket) in [("c", "in"), ("d", last)].into_iter().zip(self.guest_sockets()) {
            text += &socket_port(name, bridge, "vhost-user", &socket, "server");
        }
        Ok((text, words))
    }

    /// In words that are the same whenever it is measured.
    fn setup(&self, stream: &Description, guest: bool, switch_ports: &[String]) -> Result<Setup, Trouble> {
        let folder = self.folder.path().display().to_string();
        let same = |text: &str| text.replace(&folder, "DIR");
        Ok(Setup {
            topology: self.topology,
            switch: match self.switch {
                Switch::Ours => "linerate".to_owned(),
                Switch::Running => "running".to_owned(),
                Switch::Merged => "linerate, merged".to_owned(),
                Switch::Command(command) => command.to_owned(),
            },
            version: match self.switch {
                Switch::Ours | Switch::Merged => Some(env!("CARGO_PKG_VERSION").to_owned()),
                _ => self.wishes.switch_version.clone(),
            },
            workers: workers(self.wishes)?.1,
            guest: guest.then(|| {
                let ours = if self.topology == Topology::Loop { "linerate guest" } else { "linerate" };
                self.wishes.guest_command.clone().unwrap_or_else(|| ours.to_owned())
            }),
            ports: self.ports.iter().map(|port| same(&port.kind.to_string())).collect(),
            switch_ports: switch_ports.iter().map(|port| same(port)).collect(),
            stream: stream.clone(),
        })
    }
}

fn socket_port(name: &str, bridge: &str, kind: &str, socket: &str, mode: &str) -> String {
    let socket = toml::Value::from(socket);
    format!(
        "[[port]]\nname = \"{name}\"\nbridge = \"{bridge}\"\nkind = \"{kind}\"\nsocket = {socket}\nmode = \"{mode}\"\n"
    )
}

/// A port of our switch as it is named.
fn own_port(keys: &Map<String, Value>, n: usize) -> Result<PortSettings, Trouble> {
    let place = || format!("--switch-port {}", n + 1);
    let judged = judged_ports(vec![keys.clone()]);
    let judged = judged
        .map_err(|error| Trouble::bad(place(), format!("{error:#}"), "write it as in a [[port]] section"))?;
    judged.into_iter().next().ok_or_else(|| Trouble::bad(place(), "there is none", "name it"))
}

/// What stands opposite to a port of the generator.
fn mirrored(port: &PortSettings) -> Result<PortSettings, Trouble> {
    let opposite =
        |socket: &SocketSettings| SocketSettings { path: socket.path.clone(), mode: socket.mode.other() };
    let kind = match &port.kind {
        PortKind::VirtioUser(own) => {
            PortKind::VhostUser(vhost_user::VhostUser { socket: opposite(&own.socket), offloads: true })
        }
        PortKind::Memif(own) => {
            let mut other = own.clone();
            other.socket = opposite(&own.socket);
            PortKind::Memif(other)
        }
        other => {
            let reason = format!("what stands opposite to a port of kind {} cannot be guessed", other.name());
            return Err(Trouble::bad(
                "--switch linerate",
                reason,
                "name it with --switch-port for each --port",
            ));
        }
    };
    let queue_pairs = port.queue_pairs;
    Ok(PortSettings { kind, queue_pairs, mtu: None, ..port.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Mode;

    #[test]
    fn opposite_ports_exchange_who_makes_the_socket() {
        let keys = keys("kind=memif,socket=/tmp/x.sock,mode=client,id=3").unwrap();
        let port = judged_ports(vec![keys]).unwrap().remove(0);
        let PortKind::Memif(other) = mirrored(&port).unwrap().kind else { panic!("another kind") };
        assert_eq!((other.socket.mode, other.id), (Mode::Server, 3));
    }
}
