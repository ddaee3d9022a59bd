//! `linerate run`: starts a switch from a configuration file, and stops it on a signal.
//!
//! The main thread waits for signals; the control API and the data plane have a thread each. They stop in the reverse
//! order of their start, so that no request reaches a data plane that has stopped. The control socket is removed last,
//! so that a process that watches it sees the end.

use super::supervision::{self, Supervision};
use crate::api::config::Applied;
use crate::api::error::ApiError;
use crate::api::service::ApiService;
use crate::api::source::{Overrides, Source};
use crate::api::web::Page;
use crate::api::{control, exporter, grants, routes, server};
use crate::args::RunArgs;
use crate::dataplane::switch::Switch;
use crate::host::{self, Host};
use crate::log::{self, LogFormat};
use crate::settings::config;
use crate::settings::control::ReadSocket;
use crate::settings::topology::SwitchSettings;
use crate::socket_file::{self, SocketFile};
use console::Diagnostic;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::{Level, error, info, warn};

/// Runs the switch until it is told to end.
pub(crate) fn run(args: &RunArgs, verbose: bool, socket: Option<&Path>) -> anyhow::Result<()> {
    let text = config::text(&args.config)?;
    let topology = config::parse(&text, &Host::here(), socket);
    let mut topology = topology.map_err(|errors| config::in_file(&args.config, errors))?;
    topology.switch.web = args.web.or(topology.switch.web);
    let path = topology.switch.control.clone().unwrap_or_else(host::default_control);
    let is_text = log::start(args.log, level(verbose))? == LogFormat::Text;
    log::panics();
    let mut signals = catch_signals()?;
    host::raise_descriptor_limit();
    let (claim, listener) = control::claim(&path, control::CONTROL)?;
    topology.switch.control_access.apply(&path)?;
    let reading =
        topology.switch.read.path.clone().map(|path| readers(&path, &topology.switch.read)).transpose()?;
    let grants = topology.switch.grants.as_deref().map(grants::listen).transpose()?;
    let metrics = topology.switch.metrics.map(exporter::listen).transpose()?;
    let page = web_page(&topology.switch)?;
    let url = page.as_ref().map(|page| page.url.clone());
    let (data_plane, deferred) = Switch::start(&topology)?;
    let waker = signals.handle();
    let (shown, control) = (topology.to_string(), path.clone());
    let file = std::path::absolute(&args.config).unwrap_or_else(|_| args.config.clone());
    let overrides = Overrides { control: socket.map(Path::to_owned), web: args.web };
    let source = Source { file, text, overrides, topology: topology.clone() };
    let service = ApiService::new(topology, path, Box::new(data_plane), move || waker.close());
    let service = Arc::new(service.with_source(source));
    let server = server::start("control-api", listener, routes::router(service.clone()))?;
    let (read_file, reading) = reading.unzip();
    let reading =
        reading.map(|listener| server::start("read-api", listener, routes::read_router(service.clone())));
    let reading = reading.transpose()?;
    let (grants, asked) = grants.unzip();
    let asked = asked.map(|listener| grants::start(listener, service.clone())).transpose()?;
    let metrics = metrics.map(|listener| exporter::start(listener, service.clone())).transpose()?;
    let page = page.map(|page| page.start(service.clone())).transpose()?;
    for error in deferred {
        if is_text {
            console::warn(&format!("linerate: {error}\n    until then the port waits"));
        } else {
            warn!(reason = %error, "a port waits");
        }
    }
    let supervision = Supervision::start(service.clone())
        .map_err(|e| Diagnostic::failed("watchdog", e, "raise the limit of threads of this process"))?;
    greet(&shown, &control, url.as_deref(), is_text);
    wait(&mut signals, &service, is_text);
    drop(supervision);
    drop((server, reading, asked, metrics, page));
    drop(service);
    drop((grants, read_file));
    drop(claim);
    if is_text {
        console::note("linerate: stopped");
    } else {
        info!("stopped");
    }
    Ok(())
}

/// Listens at the socket for reading.
fn readers(path: &Path, access: &ReadSocket) -> Result<(SocketFile, UnixListener), Diagnostic> {
    let place = format!("read socket {}", path.display());
    let listening = socket_file::listen(path, place, "choose another path with `read_socket` in [switch]")?;
    access.apply(path)?;
    Ok(listening)
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

/// Returns when the switch should end. SIGHUP applies its file again.
fn wait(signals: &mut Signals, service: &ApiService, is_text: bool) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return;
        }
        supervision::reloading();
        report(service.reload(), is_text);
        supervision::ready();
    }
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

/// The web page, if the switch has one.
fn web_page(switch: &SwitchSettings) -> Result<Option<Page>, Diagnostic> {
    let listen = |address| Page::listen(address, switch.web_token_file.as_deref());
    switch.web.map(listen).transpose()
}

/// Describes the running switch: plain text beside a log of text lines, otherwise one event of the log.
fn greet(topology: &str, control: &Path, url: Option<&str>, is_text: bool) {
    let control = control.display();
    if is_text {
        let page = url.map(|url| format!("\nlinerate: web page at {url}")).unwrap_or_default();
        console::note(&format!(
            "{topology}\nlinerate: running, control socket {control}; Ctrl-C ends it{page}"
        ));
    } else {
        info!(topology, %control, web = url, "running");
    }
}
