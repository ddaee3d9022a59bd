//! `linerate run`: starts a switch from a configuration file, and stops it on a signal.
//!
//! The main thread waits for signals; the control API and the data plane have a thread each. They stop in the reverse
//! order of their start, so that no request reaches a data plane that has stopped. The control socket is removed last,
//! so that a process that watches it sees the end. A process that takes over another one (`successor`) inherits its
//! `sockets`, and leaves files in place when it is replaced itself.

mod sockets;
mod store;
mod successor;

use super::confinement;
use super::crash::Crash;
use super::supervision::{self, Supervision};
use crate::api::config::Applied;
use crate::api::error::ApiError;
use crate::api::inheritance::Inheritance;
use crate::api::model::ConfinementReport;
use crate::api::server::{self, Server};
use crate::api::service::ApiService;
use crate::api::source::{Overrides, Source};
use crate::args::RunArgs;
use crate::dataplane::switch::Switch;
use crate::event_log::EventLog;
use crate::host;
use crate::log::{self, LogFormat};
use crate::settings::config;
use crate::settings::needs::Kept;
use crate::settings::topology::{PortSettings, Topology};
use console::Diagnostic;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sockets::{Files, Sockets};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::Stored;
use successor::Takeover;
use tracing::{Level, error, info, warn};

/// What runs after everything has been opened.
struct Prepared {
    topology: Topology,
    /// The control socket.
    path: PathBuf,
    source: Source,
    sockets: Sockets,
    confinement: Option<ConfinementReport>,
    data_plane: Switch,
    /// Why ports wait.
    deferred: Vec<Diagnostic>,
    /// The process that is replaced, if there is one.
    takeover: Option<Takeover>,
}

/// Runs the switch until it is told to end, or another process has taken over.
pub(crate) fn run(args: &RunArgs, verbose: bool, socket: Option<&Path>) -> anyhow::Result<()> {
    // Not the path of the file that is there at the time of an upgrade, because this one may be gone then.
    let program = std::env::current_exe().map_err(|e| {
        Diagnostic::failed("program", e, "mount /proc, which has the path of the running program")
    })?;
    let stored = store::take();
    let kept = stored.iter().flatten().flat_map(Stored::ports).collect::<Vec<_>>();
    let topology = if args.take_over { None } else { Some(read(args, socket, &kept)?) };
    let events = Arc::<EventLog>::default();
    let format = log::start(args.log, level(verbose), Some(events.clone()))?;
    let is_text = format == LogFormat::Text;
    let crash = Crash::new(events.clone());
    crash.report_crashes(format);
    let mut signals = catch_signals()?;
    host::raise_descriptor_limit();
    let prepared = match (topology, stored) {
        (None, _) => Takeover::prepare(format)?,
        (Some((source, topology)), Some(Ok(stored))) => stored.prepare(source, topology, format)?,
        (Some((source, topology)), lost) => {
            lost.into_iter().filter_map(Result::err).for_each(|error| warn_lost(&error, is_text));
            prepare(source, topology, format)?
        }
    };
    let shown = prepared.topology.to_string();
    let running = Running::start(prepared, (program, events, crash), &signals, is_text)?;
    greet(&shown, &running, is_text);
    let ended_by = wait(&mut signals, &running.service, is_text);
    let is_unchanged = running.service.end_changes();
    if args.keep_ports
        && running.successor().is_none()
        && ended_by == Some(SIGTERM)
        && let Err(error) = is_unchanged.and_then(|()| store::keep(&running.service))
    {
        warn_lost(&error, is_text);
    }
    let text = running.end(ended_by.is_some())?;
    if is_text {
        console::note(&format!("linerate: {text}"));
    } else {
        info!("{text}");
    }
    Ok(())
}

/// Reads the configuration file. Files and interfaces of the ports `running` are in use, and valid.
fn read(
    args: &RunArgs,
    socket: Option<&Path>,
    running: &[PortSettings],
) -> Result<(Source, Topology), Diagnostic> {
    let text = config::text(&args.config)?;
    let file = std::path::absolute(&args.config).unwrap_or_else(|_| args.config.clone());
    let overrides = Overrides { control: socket.map(Path::to_owned), web: args.web };
    let topology = overrides.parse(&text, running);
    let topology = topology.map_err(|errors| config::in_file(&args.config, errors))?;
    Ok((Source { file, text, overrides, topology: topology.clone() }, topology))
}

fn prepare(source: Source, topology: Topology, format: LogFormat) -> Result<Prepared, Diagnostic> {
    let path = topology.switch.control.clone().unwrap_or_else(host::default_control);
    let sockets = Sockets::open(&topology.switch, &path)?;
    let confinement = confinement::start(&topology, &path, format, &[])?;
    let (data_plane, deferred) = Switch::start(&topology)?;
    Ok(Prepared { topology, path, source, sockets, confinement, data_plane, deferred, takeover: None })
}

/// A running switch. Its parts end in the reverse order of their start.
struct Running {
    supervision: Supervision,
    events: Arc<EventLog>,
    servers: Vec<Server>,
    service: Arc<ApiService>,
    files: Files,
    control: PathBuf,
    url: Option<String>,
}

impl Running {
    fn start(
        prepared: Prepared,
        (program, events, crash): (PathBuf, Arc<EventLog>, Arc<Crash>),
        signals: &Signals,
        is_text: bool,
    ) -> anyhow::Result<Self> {
        let Prepared { topology, path, source, sockets, confinement, data_plane, deferred, takeover } =
            prepared;
        let (waker, control, running) = (signals.handle(), path.clone(), topology.clone());
        let token = sockets.web.as_ref().and_then(|page| page.token.clone());
        let kept = Kept::of(&topology);
        let copies = sockets
            .duplicates()
            .map_err(|e| Diagnostic::failed("sockets", e, "raise the limit of open files of this process"))?;
        let inheritance = Inheritance::new(program, copies, token);
        let service = ApiService::new(topology, path, Box::new(data_plane), move || waker.close());
        let service = service.with_source(source).with_inheritance(inheritance).with_events(events.clone());
        let service = Arc::new(service.confined(kept, confinement));
        let url = sockets.web.as_ref().map(|page| page.url.clone());
        // Until the ports run, connections wait.
        server::accept_connections(takeover.is_none());
        let (mut files, servers) = sockets.serve(&service)?;
        for error in &deferred {
            warn_deferred(error, is_text);
        }
        // Before the ports are taken over, because afterwards an error would end the only switch.
        let mut supervision = Supervision::start(service.clone(), crash)
            .map_err(|e| Diagnostic::failed("watchdog", e, "raise the limit of threads of this process"))?;
        if let Some(takeover) = takeover {
            takeover.finish(service.data_plane(), &running)?;
            service.begin_rates();
            files.own();
            server::accept_connections(true);
        }
        supervision.ready();
        Ok(Self { supervision, events, servers, service, files, control, url })
    }

    /// The process that has taken over, if one has.
    fn successor(&self) -> Option<u32> {
        self.service.inheritance().and_then(Inheritance::successor)
    }

    /// The process that had taken over, if it has failed since.
    fn failed_successor(&self) -> Option<u32> {
        self.service.inheritance().and_then(Inheritance::failed_successor)
    }

    /// Ends the switch, because it `was_told` to by a signal or was replaced. Returns what has happened to it.
    ///
    /// # Errors
    /// The process that has taken over has failed, so that a supervisor must start the switch again.
    fn end(self, was_told: bool) -> Result<String, Diagnostic> {
        match self.successor().filter(|_| self.failed_successor().is_none()) {
            Some(pid) => self.supervision.leave(pid),
            None => drop(self.supervision),
        }
        self.events.end();
        drop(self.servers);
        // Again: an upgrade that outlasted the wait for it may have been taken back, and the successor may have failed.
        let inheritance = self.service.inheritance();
        let successor = inheritance.and_then(Inheritance::successor);
        let failed = inheritance.and_then(Inheritance::failed_successor);
        drop(self.service);
        match (successor, failed) {
            (_, Some(pid)) if !was_told => {
                let reason = format!("process {pid}, which had taken over, has ended");
                Err(Diagnostic::failed("upgrade", reason, "see its log, and start the switch again"))
            }
            (Some(pid), None) => {
                self.files.leave();
                Ok(format!("process {pid} runs the switch"))
            }
            _ => Ok("stopped".to_owned()),
        }
    }
}

fn warn_lost(error: &Diagnostic, is_text: bool) {
    if is_text {
        console::warn(&format!("linerate: {error}\n    ports are opened again"));
    } else {
        warn!(reason = %error, "ports are opened again");
    }
}

fn warn_deferred(error: &Diagnostic, is_text: bool) {
    if is_text {
        console::warn(&format!("linerate: {error}\n    until then the port waits"));
    } else {
        warn!(reason = %error, "a port waits");
    }
}

fn level(verbose: bool) -> Level {
    match verbose {
        true => Level::DEBUG,
        false if console::is_quiet() => Level::WARN,
        false => Level::INFO,
    }
}

/// SIGINT and SIGTERM end the switch; while it ends, a second one ends the process at once.
fn catch_signals() -> Result<Signals, Diagnostic> {
    let register = || {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, ending.clone())?;
            signal_hook::flag::register(signal, ending.clone())?;
        }
        Ok(signals)
    };
    console::register_signals(register).map_err(|e| {
        Diagnostic::failed("signal handlers", e, "allow this process to install them (seccomp?)")
    })
}

/// Returns when the switch should end: because of this signal, or of a request. SIGHUP applies its file again.
fn wait(signals: &mut Signals, service: &ApiService, is_text: bool) -> Option<i32> {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return Some(signal);
        }
        supervision::reloading();
        report(service.reload(), is_text);
        supervision::ready();
    }
    None
}

/// Reports the result of a reload.
fn report(result: Result<Applied, ApiError>, is_text: bool) {
    match result {
        Ok(applied) => info!(changes = applied.changes.len(), "the configuration file was applied"),
        Err(error) => {
            let error = error.into_diagnostic();
            if is_text {
                console::warn(&format!("linerate: {error}\n    the running configuration is unchanged"));
            } else {
                error!(reason = %error, "the configuration file was not applied");
            }
        }
    }
}

/// Describes the running switch: plain text beside a log of text lines, otherwise one event of the log.
fn greet(topology: &str, running: &Running, is_text: bool) {
    let (control, url) = (running.control.display(), running.url.as_deref());
    if is_text {
        let page = url.map(|url| format!("\nlinerate: web page at {url}")).unwrap_or_default();
        console::note(&format!(
            "{topology}\nlinerate: running, control socket {control}; Ctrl-C ends it{page}"
        ));
    } else {
        info!(topology, %control, web = url, "running");
    }
}
