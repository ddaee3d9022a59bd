//! Sockets and files of a bridge before it runs: an error of the configuration ends the start.

use super::connect::Listener;
use super::tls::Tls;
use crate::settings::openflow::{OpenflowSettings, Target};
use crate::socket_file::{self, SocketFile};
use console::Diagnostic;
use std::net::TcpListener;
use std::path::Path;

/// A bridge that is not running yet: its sockets listen already, so that errors end the start.
pub(super) struct Prepared {
    pub(super) name: String,
    pub(super) settings: OpenflowSettings,
    pub(super) management: Option<Listener>,
    /// In the order of the configuration.
    pub(super) listeners: Vec<Listener>,
    pub(super) files: Vec<SocketFile>,
}

impl Prepared {
    /// Reads the files of a bridge and listens at its sockets.
    pub(super) fn new(name: String, settings: OpenflowSettings) -> Result<Self, Diagnostic> {
        let place = format!("bridge \"{name}\"");
        if let Some(files) = &settings.tls {
            let remedy = "correct the files of [bridge.tls]";
            Tls::load(files).map_err(|error| Diagnostic::bad(&place, error, remedy))?;
        }
        let mut prepared =
            Self { name, management: None, listeners: Vec::new(), files: Vec::new(), settings };
        if let Some(path) = prepared.settings.management.clone() {
            prepared.management = Some(prepared.listen_at(&path, &place, "`management`")?);
        }
        for target in &prepared.settings.controllers.clone() {
            let listener = match target {
                Target::Listen { address, port, .. } => {
                    let bound = TcpListener::bind((*address, *port));
                    let reason = |error| format!("cannot listen at {target}: {error}");
                    let remedy = "choose another address or port in `controllers`";
                    Listener::Tcp(bound.map_err(|e| Diagnostic::failed(&place, reason(e), remedy))?)
                }
                Target::ListenSocket(path) => prepared.listen_at(path, &place, "`controllers`")?,
                Target::Host { .. } | Target::Socket(_) => continue,
            };
            prepared.listeners.push(listener);
        }
        Ok(prepared)
    }

    /// Listens at a socket file with the access rights of the bridge.
    fn listen_at(&mut self, path: &Path, place: &str, key: &str) -> Result<Listener, Diagnostic> {
        let place = format!("{place}, socket {}", path.display());
        let (file, listener) =
            socket_file::listen(path, &place, &format!("choose another path with {key} in [[bridge]]"))?;
        let remedy =
            "run the switch as root or as a member of the group, or remove `socket_owner` and `socket_group`";
        self.settings.access.apply(path, &place, remedy)?;
        self.files.push(file);
        Ok(Listener::Unix(listener))
    }
}
