//! Opens ports with their wrappers, and loads the captures that they replay.

use crate::settings::kinds::PortKind;
use crate::settings::kinds::kind::{Loaded, OpenError};
use crate::settings::recording::{self, Loading};
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use port::PortControl;
use port::deferred::DeferredPort;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for retries while a resource is in use, and their interval.
const CLEARING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

fn open_once(port: &PortSettings, loaded: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
    port.wrappers.around(port.kind.open(port.common(), loaded)?, &port.name)
}

/// Loads the capture that the port replays, and opens the port. May block on disk reads.
pub(crate) fn open(port: &PortSettings) -> Result<Box<dyn PortControl>, Diagnostic> {
    open_loaded(port, &load(port)?).map_err(OpenError::into_diagnostic)
}

/// Loads the capture that a port replays. May block on disk reads.
pub(crate) fn load(port: &PortSettings) -> Result<Loaded, Diagnostic> {
    let placed = |error| Diagnostic { place: format!("port \"{}\"", port.name), ..error };
    recording::load(&port.kind).map_err(placed)
}

/// Opens a port. Retries for one second while another process uses its resource, because the sockets of a killed
/// switch remain until the kernel has released them.
pub(crate) fn open_loaded(port: &PortSettings, loaded: &Loaded) -> Result<Box<dyn PortControl>, OpenError> {
    let began = Instant::now();
    loop {
        match open_once(port, loaded.clone()) {
            Err(OpenError::Busy(_)) if began.elapsed() < CLEARING => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}

/// As [`open_loaded`], for a port of a switch, whose control must not wait for the answer of another switch.
pub(super) fn open_in_switch(
    port: &PortSettings,
    loaded: &Loaded,
) -> Result<Box<dyn PortControl>, OpenError> {
    match port.kind {
        PortKind::Grant(_) => Ok(repeated(port)),
        _ => open_loaded(port, loaded),
    }
}

/// A port that is opened, and opened again after it has ended ([`port::PortState::Ended`]), by a separate thread,
/// because opening may wait for an answer.
pub(crate) fn repeated(port: &PortSettings) -> Box<dyn PortControl> {
    let (settings, mut thread) = (port.clone(), None);
    let retry = move || opened_aside(&settings, &mut thread);
    let why = "not asked yet".to_owned();
    Box::new(DeferredPort::new(port.kind.name(), port.kind.place(), why, Box::new(retry)))
}

type Opening = JoinHandle<Result<Box<dyn PortControl>, OpenError>>;

/// Returns the port that `thread` has opened, or why there is none yet. Starts the thread if there is none.
fn opened_aside(port: &PortSettings, thread: &mut Option<Opening>) -> Result<Box<dyn PortControl>, String> {
    let begin = || {
        let port = port.clone();
        std::thread::Builder::new().name("open".to_owned()).spawn(move || open_once(&port, None))
    };
    let running = match thread.take() {
        Some(running) => running,
        None => begin().map_err(|error| format!("cannot start a thread: {error}"))?,
    };
    if !running.is_finished() {
        *thread = Some(running);
        return Err("the switch has not answered yet".to_owned());
    }
    let opened = running.join().map_err(|_| "opening ended without a result".to_owned())?;
    opened.map_err(|error| error.into_diagnostic().in_one_line())
}

/// A port that is opened once `is_free` returns true.
pub(super) fn deferred_until(
    port: &PortSettings,
    is_free: impl Fn() -> bool + Send + 'static,
) -> Box<dyn PortControl> {
    let (settings, mut loading) = (port.clone(), Loading::default());
    let why = "the process that is replaced still has it".to_owned();
    let retry = {
        let why = why.clone();
        move || {
            let loaded = loading.poll(&settings.kind)?;
            let opened = if is_free() { open_once(&settings, loaded) } else { return Err(why.clone()) };
            opened.map_err(|error| error.into_diagnostic().in_one_line())
        }
    };
    Box::new(DeferredPort::new(port.kind.name(), port.kind.place(), why, Box::new(retry)))
}

/// Creates a deferred port in place of a port that failed to open with `error`. The control thread retries the open;
/// the capture that the port replays is loaded by a separate thread.
pub(super) fn deferred(port: &PortSettings, error: &Diagnostic) -> Box<dyn PortControl> {
    let (settings, mut loading) = (port.clone(), Loading::default());
    let retry = move || {
        let loaded = loading.poll(&settings.kind)?;
        open_once(&settings, loaded).map_err(|error| error.into_diagnostic().in_one_line())
    };
    Box::new(DeferredPort::new(port.kind.name(), port.kind.place(), error.in_one_line(), Box::new(retry)))
}
