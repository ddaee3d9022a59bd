//! Listening sockets of a switch that do not belong to ports: opened by the first process, and inherited by those that
//! take over.

use crate::api::control::{self, SocketClaim};
use crate::api::remote::Remote;
use crate::api::server::{self, Role, Server};
use crate::api::service::ApiService;
use crate::api::web::Page;
use crate::api::{exporter, grants, routes};
use crate::settings::control::ReadSocket;
use crate::settings::topology::SwitchSettings;
use crate::socket_file::{self, SocketFile};
use crate::takeover::{Offer, SocketName};
use console::Diagnostic;
use rustix::fd::{AsFd, OwnedFd};
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// A listening socket, and what removes its file.
pub(super) type Socket = (SocketFile, UnixListener);

/// The sockets, before they are served.
pub(super) struct Sockets {
    pub(super) control: (SocketClaim, UnixListener),
    pub(super) read: Option<Socket>,
    pub(super) grants: Option<Socket>,
    pub(super) metrics: Option<TcpListener>,
    pub(super) web: Option<Page>,
    pub(super) remote: Option<Remote>,
}

/// The files of sockets that are served; they are removed with it if this process owns them.
pub(super) struct Files {
    claim: SocketClaim,
    read: Option<SocketFile>,
    grants: Option<SocketFile>,
}

impl Files {
    /// Makes this process the owner of files of another process.
    pub(super) fn own(&mut self) {
        self.claim.own();
        self.read.iter_mut().chain(&mut self.grants).for_each(SocketFile::own);
    }

    /// Leaves the files to another process.
    pub(super) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Sockets {
    /// Opens the sockets of a switch.
    pub(super) fn open(switch: &SwitchSettings, control: &Path) -> Result<Self, Diagnostic> {
        let claimed = control::claim(control, control::CONTROL)?;
        switch.control_access.apply(control)?;
        Ok(Self {
            control: claimed,
            read: switch.read.path.as_ref().map(|path| readers(path, &switch.read)).transpose()?,
            grants: switch.grants.as_deref().map(grants::listen).transpose()?,
            metrics: switch.metrics.map(exporter::listen).transpose()?,
            web: switch.web.map(|at| Page::listen(at, switch.web_token_file.as_deref())).transpose()?,
            remote: switch.remote.as_ref().map(Remote::listen).transpose()?,
        })
    }

    /// The sockets of another process, whose configuration `switch` has.
    pub(super) fn inherit(
        switch: &SwitchSettings,
        control: &Path,
        offer: &Offer,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, Diagnostic> {
        let mut given: Vec<_> = offer.sockets.iter().copied().zip(descriptors).collect();
        let mut take = |name| {
            let at = given.iter().position(|(of, _)| *of == name);
            at.map(|at| given.swap_remove(at).1)
        };
        let missing = || {
            let remedy = "stop the switch, and start the new version";
            Diagnostic::failed("sockets", "the running switch does not pass its sockets on", remedy)
        };
        let lock = File::from(take(SocketName::Lock).ok_or_else(missing)?);
        let listener = UnixListener::from(take(SocketName::Control).ok_or_else(missing)?);
        let mut of_file = |name, path: Option<&Path>| {
            let path = path.map(SocketFile::inherited);
            path.map(|file| Ok((file, UnixListener::from(take(name).ok_or_else(missing)?)))).transpose()
        };
        let read = of_file(SocketName::Read, switch.read.path.as_deref())?;
        let grants = of_file(SocketName::Grants, switch.grants.as_deref())?;
        let mut tcp = |name, is_used: bool| {
            is_used.then(|| take(name).map(TcpListener::from).ok_or_else(missing)).transpose()
        };
        let metrics = tcp(SocketName::Metrics, switch.metrics.is_some())?;
        let web = tcp(SocketName::Web, switch.web.is_some())?;
        let remote = tcp(SocketName::Remote, switch.remote.is_some())?;
        let remote = remote.zip(switch.remote.as_ref()).map(|(at, settings)| Remote::over(at, settings));
        let file = switch.web_token_file.as_deref();
        let web = web.map(|listener| Page::over(listener, file, offer.web_token.as_deref()));
        let control = (SocketClaim::inherited(control, lock), listener);
        Ok(Self { control, read, grants, metrics, web: web.transpose()?, remote: remote.transpose()? })
    }

    /// Serves the sockets.
    pub(super) fn serve(self, service: &Arc<ApiService>) -> Result<(Files, Vec<Server>), Diagnostic> {
        let ((claim, control), (read, reading)) = (self.control, self.read.unzip());
        let (grants, asked) = self.grants.unzip();
        let router = routes::router(service.clone());
        let mut servers = vec![server::start("control-api", Role::Changes, control, router)?];
        if let Some(listener) = reading {
            servers.push(server::start(
                "read-api",
                Role::Reads,
                listener,
                routes::read_router(service.clone()),
            )?);
        }
        if let Some(listener) = asked {
            servers.push(grants::start(listener, service.clone())?);
        }
        if let Some(listener) = self.metrics {
            servers.push(exporter::start(listener, service.clone())?);
        }
        if let Some(page) = self.web {
            servers.push(page.start(service.clone())?);
        }
        if let Some(remote) = self.remote {
            servers.push(remote.start(service.clone())?);
        }
        Ok((Files { claim, read, grants }, servers))
    }

    /// Duplicates for a process that takes over.
    pub(super) fn duplicates(&self) -> io::Result<Vec<(SocketName, OwnedFd)>> {
        let of_file =
            |socket: &Option<Socket>| socket.as_ref().map(|(_, listener)| copy(listener)).transpose();
        let sockets = [
            (SocketName::Control, Some(copy(&self.control.1)?)),
            (SocketName::Lock, Some(copy(self.control.0.lock())?)),
            (SocketName::Read, of_file(&self.read)?),
            (SocketName::Grants, of_file(&self.grants)?),
            (SocketName::Metrics, self.metrics.as_ref().map(copy).transpose()?),
            (SocketName::Remote, self.remote.as_ref().map(|remote| copy(remote.listener())).transpose()?),
            (SocketName::Web, self.web.as_ref().map(|page| copy(page.listener())).transpose()?),
        ];
        Ok(sockets.into_iter().filter_map(|(name, socket)| Some((name, socket?))).collect())
    }
}

fn copy(socket: &impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}

/// Listens at the socket for reading.
fn readers(path: &Path, access: &ReadSocket) -> Result<Socket, Diagnostic> {
    let place = format!("read socket {}", path.display());
    let listening = socket_file::listen(path, place, "choose another path with `read_socket` in [switch]")?;
    access.apply(path)?;
    Ok(listening)
}
