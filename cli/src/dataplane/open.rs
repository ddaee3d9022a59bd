//! Opens ports, with their wrappers and the files that they play.

use crate::settings::kinds::kind::{Loaded, OpenError};
use crate::settings::recording::{self, Loading};
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use port::PortControl;
use port::deferred::DeferredPort;
use std::time::{Duration, Instant};

/// How long, and how often, a resource that is in use is retried.
const CLEARING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

fn open_once(port: &PortSettings, loaded: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
    port.wrappers.around(port.kind.open(port.common(), loaded)?, &port.name)
}

/// Reads the file that the port plays, and opens the port. May wait for the disk.
pub(crate) fn open(port: &PortSettings) -> Result<Box<dyn PortControl>, Diagnostic> {
    open_loaded(port, &load(port)?).map_err(OpenError::into_diagnostic)
}

/// Reads the file that a port plays. May wait for the disk.
pub(crate) fn load(port: &PortSettings) -> Result<Loaded, Diagnostic> {
    let placed = |error| Diagnostic { place: format!("port \"{}\"", port.name), ..error };
    recording::load(&port.kind).map_err(placed)
}

/// Opens a port, and retries for a second while another process uses its resource: the sockets of a killed switch stay
/// until the kernel has released them.
pub(crate) fn open_loaded(port: &PortSettings, loaded: &Loaded) -> Result<Box<dyn PortControl>, OpenError> {
    let began = Instant::now();
    loop {
        match open_once(port, loaded.clone()) {
            Err(OpenError::Busy(_)) if began.elapsed() < CLEARING => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}

/// Replaces a port that could not be opened because of `error` until it can be. The control thread retries; the file
/// that the port plays is read by a thread of its own.
pub(super) fn deferred(port: &PortSettings, error: &Diagnostic) -> Box<dyn PortControl> {
    let (settings, mut loading) = (port.clone(), Loading::default());
    let retry = move || {
        let loaded = loading.poll(&settings.kind)?;
        open_once(&settings, loaded).map_err(|error| error.into_diagnostic().in_one_line())
    };
    Box::new(DeferredPort::new(port.kind.name(), port.kind.place(), error.in_one_line(), Box::new(retry)))
}
