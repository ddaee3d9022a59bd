//! Peers of the generator's and the guest's ports. They are ports of our own switch, configured or derived from the
//! peer's settings.

use crate::commands::generate::input::validated_ports;
use crate::settings::kinds::socket::SocketSettings;
use crate::settings::kinds::{PortKind, vhost_user};
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use serde_json::{Map, Value};

/// Configuration section of a port on a socket.
pub(super) fn socket_port(name: &str, bridge: &str, kind: &str, socket: &str, mode: &str) -> String {
    let socket = toml::Value::from(socket);
    format!(
        "[[port]]\nname = \"{name}\"\nbridge = \"{bridge}\"\nkind = \"{kind}\"\nsocket = {socket}\nmode = \"{mode}\"\n"
    )
}

/// A configured port of our switch.
pub(super) fn own_port(keys: &Map<String, Value>, n: usize) -> Result<PortSettings, Diagnostic> {
    let place = || format!("--switch-port {}", n + 1);
    let validated = validated_ports(vec![keys.clone()]);
    let validated = validated.map_err(|error| {
        Diagnostic::bad(place(), format!("{error:#}"), "write it as in a [[port]] section")
    })?;
    validated.into_iter().next().ok_or_else(|| {
        Diagnostic::bad(place(), "no port is given", "add its keys, as in a `[[port]]` section")
    })
}

/// The peer of a port of the generator.
pub(super) fn mirrored(port: &PortSettings) -> Result<PortSettings, Diagnostic> {
    let opposite = |socket: &SocketSettings| SocketSettings {
        path: socket.path.clone(),
        mode: socket.mode.other(),
        ..SocketSettings::default()
    };
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
            let reason = format!("a port of kind {} has no default for the opposite port", other.name());
            return Err(Diagnostic::bad(
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
    use crate::commands::generate::input::keys;
    use crate::settings::kinds::socket::Mode;

    #[test]
    fn opposite_ports_have_the_other_socket_mode() {
        let keys = keys("kind=memif,socket=/tmp/x.sock,mode=client,id=3").unwrap();
        let port = validated_ports(vec![keys]).unwrap().remove(0);
        let PortKind::Memif(other) = mirrored(&port).unwrap().kind else { panic!("another kind") };
        assert_eq!((other.socket.mode, other.id), (Mode::Server, 3));
    }
}
