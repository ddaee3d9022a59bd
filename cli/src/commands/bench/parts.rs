//! Builds switch and guest: as processes with their own files, as commands, or as components in the generator's
//! thread.

use super::child::Start;
use super::command::{fill, names};
use super::folder::Folder;
use super::opposite::{mirrored, own_port, socket_port};
use super::subject::Switch;
use super::workers::{validated, worker};
use crate::args::bench_options::{BenchOptions, Listener, OwnGuest};
use crate::commands::generate::input::{keys, validated_ports};
use crate::settings::section;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use generator::Description;
use rfc2544::{Setup, Topology};
use serde_json::json;
use std::fmt::Write as _;

/// The guest, if there is one.
#[derive(Debug)]
pub(super) enum Guest {
    /// A separate process.
    Process(Start),
    /// In the generator's thread, with these ports.
    Inline(Vec<PortSettings>),
    /// In the generator's thread, reflecting frames; the arguments are those of `linerate guest`.
    Reflector(Vec<String>),
}

/// Inputs from which switch and guest are built.
pub(super) struct Parts<'a> {
    pub(super) options: &'a BenchOptions,
    pub(super) topology: Topology,
    pub(super) switch: Switch<'a>,
    pub(super) ports: &'a [PortSettings],
    pub(super) folder: &'a Folder,
    /// Sections of our switch's workers, and the same text if it comes from a file.
    pub(super) workers: (String, Option<String>),
}

impl Parts<'_> {
    /// Whether frames pass through a guest.
    pub(super) fn has_guest(&self) -> bool {
        let named = |command: &str| names(command, "c");
        match (self.topology, &self.switch) {
            (Topology::VmVm, _) => false,
            (Topology::PhyVmPhy, _) | (Topology::Loop, Switch::Ours) => true,
            (Topology::Loop, Switch::Command(command)) => {
                self.options.guest_command.is_some() || self.is_merged() || named(command)
            }
            (Topology::Loop, Switch::Running | Switch::Inline) => self.options.guest_command.is_some(),
        }
    }

    /// The guest's sockets, one for each device.
    fn guest_sockets(&self) -> Vec<String> {
        let devices = match (self.has_guest(), self.topology) {
            (false, _) => &[][..],
            (true, Topology::PhyVmPhy) => &["c", "d"],
            (true, _) => &["c"],
        };
        devices.iter().map(|name| self.folder.socket(name)).collect()
    }

    fn fill(&self, flag: &str, command: &str, cpu: Option<usize>) -> Result<String, Diagnostic> {
        let places: Vec<String> = self.ports.iter().map(|port| port.kind.place()).collect();
        let (sockets, own) = (self.guest_sockets(), cpu.map(|cpu| cpu.to_string()));
        let of = |places: &[String], n: usize| places.get(n).cloned();
        if cpu.is_none() && names(command, "cpu") {
            let wanted = flag.replace("command", "cpu");
            let reason = "the command uses {cpu}, and --switch-cpu is missing";
            return Err(Diagnostic::bad(flag, reason, format!("add {wanted}, or remove {{cpu}}")));
        }
        let all = [of(&places, 0), of(&places, 1), of(&sockets, 0), of(&sockets, 1), own];
        let named: Vec<_> =
            ["a", "b", "c", "d", "cpu"].into_iter().zip(all.iter().map(Option::as_deref)).collect();
        fill(flag, command, &named)
    }

    /// The switch as a process, and the ports of our own switch.
    pub(super) fn switch(&self) -> Result<(Option<Start>, Vec<String>), Diagnostic> {
        match self.switch {
            Switch::Running | Switch::Inline => Ok((None, Vec::new())),
            Switch::Command(command) => {
                self.validate_command(command)?;
                let filled = self.fill("--switch-command", command, self.options.switch_cpu)?;
                Ok((Some(Start::shell("the switch", &filled)), Vec::new()))
            }
            Switch::Ours => {
                let (text, ports) = self.configuration()?;
                let file = self.folder.write("switch.toml", &text)?;
                let control = self.folder.socket("switch-control");
                validated(self.options, &self.workers.0, &text, &control)?;
                Ok((Some(Start::own("the switch", &["--control", &control, "run", &file])?), ports))
            }
        }
    }

    /// Requires that the command uses every generated path, which the switch does not know otherwise.
    fn validate_command(&self, command: &str) -> Result<(), Diagnostic> {
        let made_up = self.options.port_flags.is_empty() && self.options.ports.is_empty();
        let mut wanted = Vec::new();
        if made_up {
            wanted.extend(["a", "b"].into_iter().take(self.ports.len()));
        }
        if self.options.guest_command.is_none() {
            wanted.extend(["c", "d"].into_iter().take(self.guest_sockets().len()));
        }
        let Some(missing) = wanted.into_iter().find(|place| !names(command, place)) else { return Ok(()) };
        let reason =
            format!("{} needs {{{missing}}}, and the command does not name it", self.topology.name());
        let remedy =
            "write it where the command takes this socket, or name places with --port and --guest-command";
        Err(Diagnostic::bad("--switch-command", reason, remedy))
    }

    /// The guest.
    pub(super) fn guest(&self) -> anyhow::Result<Option<Guest>> {
        if !self.has_guest() {
            let Some(command) = &self.options.guest_command else { return Ok(None) };
            let reason = format!("{} has no guest, so `{command}` has nothing to do", self.topology.name());
            return Err(Diagnostic::bad(
                "--guest-command",
                reason,
                "remove it, or choose another --topology",
            )
            .into());
        }
        if let Some(command) = &self.options.guest_command {
            let filled = self.fill("--guest-command", command, self.options.guest_cpu)?;
            return Ok(Some(Guest::Process(Start::shell("the guest", &filled))));
        }
        if matches!(self.switch, Switch::Running) {
            let reason = "a running switch has no ports for the built-in guest";
            return Err(Diagnostic::bad("--switch running", reason, "name a --guest-command").into());
        }
        Ok(Some(match (self.topology, self.is_merged()) {
            (Topology::Loop, true) => Guest::Reflector(self.reflector()),
            (Topology::Loop, false) => Guest::Process(Start::own("the guest", &self.reflector())?),
            (_, true) => Guest::Inline(self.guest_ports()?),
            (_, false) => Guest::Process(self.forwarder()?),
        }))
    }

    fn is_merged(&self) -> bool {
        self.options.guest == Some(OwnGuest::Inline)
    }

    /// Devices of a guest in the generator's thread.
    fn guest_ports(&self) -> anyhow::Result<Vec<PortSettings>> {
        let mode = if self.guest_listens() { "server" } else { "client" };
        let sockets = self.guest_sockets();
        let port = |(name, socket): (&str, &String)| {
            let keys = json!({ "name": name, "kind": "virtio-user", "socket": socket, "mode": mode });
            keys.as_object().cloned().unwrap_or_default()
        };
        validated_ports(["c", "d"].into_iter().zip(&sockets).map(port).collect())
    }

    /// Whether the guest creates its sockets.
    fn guest_listens(&self) -> bool {
        matches!(self.switch, Switch::Command(_))
            && self.options.sockets.unwrap_or_default() == Listener::Ours
    }

    /// Arguments of a guest that reflects frames.
    fn reflector(&self) -> Vec<String> {
        let way = if self.guest_listens() { "--listen" } else { "--connect" };
        let socket = self.guest_sockets().into_iter().next().unwrap_or_default();
        // The default destination address of the generator's frames.
        let mac = Description::default().destination_mac.to_string();
        let words = ["guest", "--wait", "--mode", "macswap", "--mac", &mac, way, &socket].map(str::to_owned);
        let cpu = self.options.guest_cpu.map(|cpu| ["--cpu".to_owned(), cpu.to_string()]);
        words.into_iter().chain(cpu.into_iter().flatten()).collect()
    }

    /// A guest that bridges its two devices.
    fn forwarder(&self) -> Result<Start, Diagnostic> {
        let mode = if self.guest_listens() { "server" } else { "client" };
        let mut text = format!("{}[[bridge]]\nname = \"guest\"\n", worker(self.options.guest_cpu));
        for (name, socket) in ["c", "d"].into_iter().zip(self.guest_sockets()) {
            text += &socket_port(name, "guest", "virtio-user", &socket, mode);
        }
        let file = self.folder.write("guest.toml", &text)?;
        Start::own("the guest", &["--control", &self.folder.socket("guest-control"), "run", &file])
    }

    /// The configuration of our own switch, and a description of its ports.
    fn configuration(&self) -> Result<(String, Vec<String>), Diagnostic> {
        let flags =
            self.options.switch_port_flags.iter().map(|port| keys(port)).collect::<Result<Vec<_>, _>>()?;
        let given = if flags.is_empty() { self.options.switch_ports.clone() } else { flags };
        if !given.is_empty() && given.len() != self.ports.len() {
            let reason = format!(
                "there are {} ports of the switch, and {} of the generator",
                given.len(),
                self.ports.len()
            );
            return Err(Diagnostic::bad("--switch-port", reason, "name one for each, or none"));
        }
        let bridges = if self.topology == Topology::PhyVmPhy { &["in", "out"][..] } else { &["in"] };
        let mut text = self.workers.0.clone();
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
            text +=
                &section::of("port", &own).map_err(|e| Diagnostic::bad("the switch's port", e, remedy))?;
        }
        for ((name, bridge), socket) in [("c", "in"), ("d", last)].into_iter().zip(self.guest_sockets()) {
            text += &socket_port(name, bridge, "vhost-user", &socket, "server");
        }
        Ok((text, words))
    }

    /// A description that is the same for every run of the same setup.
    pub(super) fn setup(&self, stream: &Description, guest: bool, switch_ports: &[String]) -> Setup {
        let folder = self.folder.path().display().to_string();
        let same = |text: &str| text.replace(&folder, "DIR");
        Setup {
            topology: self.topology,
            switch: match self.switch {
                Switch::Ours => "linerate".to_owned(),
                Switch::Running => "running".to_owned(),
                Switch::Inline => "linerate, inline".to_owned(),
                Switch::Command(command) => command.to_owned(),
            },
            version: match self.switch {
                Switch::Ours | Switch::Inline => Some(env!("CARGO_PKG_VERSION").to_owned()),
                _ => self.options.switch_version.clone(),
            },
            workers: self.workers.1.clone(),
            guest: guest.then(|| {
                let ours = match (self.topology, self.is_merged()) {
                    (Topology::Loop, false) => "linerate guest",
                    (Topology::Loop, true) => "linerate guest, inline",
                    (_, true) => "linerate, inline",
                    (_, false) => "linerate",
                };
                self.options.guest_command.clone().unwrap_or_else(|| ours.to_owned())
            }),
            ports: self.ports.iter().map(|port| same(&port.kind.to_string())).collect(),
            switch_ports: switch_ports.iter().map(|port| same(port)).collect(),
            stream: stream.clone(),
        }
    }
}
