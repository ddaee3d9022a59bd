//! `linerate snippet`: prints the configuration of a port's peer.
//!
//! `text` has shared helpers, and each kind with a peer has a module. The peer has the opposite mode: it connects if
//! the switch listens, and listens if the switch connects. The connecting side retries, so either side may be
//! restarted.

mod memif;
mod stream;
mod text;
mod vhost_user;
mod virtio_user;

use crate::api::client::{Client, quote};
use crate::api::model::PortReport;
use crate::args::{GuestKind, SnippetArgs};
use crate::host::{self, Host};
use crate::settings::config;
use crate::settings::kinds::PortKind;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use std::path::Path;

/// Returns the snippet for a port of a file or of the running switch.
pub(crate) fn run(args: &SnippetArgs, control: Option<&Path>, client: &Client) -> anyhow::Result<String> {
    let port = if let Some(file) = &args.config {
        from_file(file, &args.port, control)?
    } else {
        let path = format!("/v1/ports/{}", quote(&args.port));
        client.get::<PortReport>(&path)?.settings
    };
    Ok(snippet(&port, args.kind, &host::id())?)
}

fn from_file(file: &Path, name: &str, control: Option<&Path>) -> anyhow::Result<PortSettings> {
    let topology = config::read(file, &Host::here(), control)?;
    let names: Vec<String> = topology.ports.iter().map(|port| port.name.clone()).collect();
    let found = topology.ports.into_iter().find(|port| port.name == name);
    Ok(found.ok_or_else(|| {
        let remedy = match names.as_slice() {
            [] => "add a [[port]] section first".to_owned(),
            names => format!("name one of {}", names.join(", ")),
        };
        Diagnostic::bad(file.display(), format!("there is no port \"{name}\""), remedy)
    })?)
}

/// Returns the configuration that makes `other` the peer of `port` on the host `host`.
fn snippet(port: &PortSettings, other: GuestKind, host: &str) -> Result<String, Diagnostic> {
    let mac = text::mac(host, &port.name, &port.kind.place());
    match &port.kind {
        PortKind::VhostUser(own) => vhost_user::snippet(port, &own.socket, other, mac),
        PortKind::VirtioUser(own) => virtio_user::snippet(port, &own.socket, other),
        PortKind::Memif(own) => memif::snippet(port, own, other, mac),
        PortKind::Stream(own) => stream::snippet(port, own, other, mac),
        own => {
            let reason = format!("a port of kind \"{}\" has no peer to configure", own.name());
            let remedy = "name a port that guests or switches connect to, such as one of kind \"vhost-user\"";
            Err(Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy))
        }
    }
}
