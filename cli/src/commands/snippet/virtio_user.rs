//! Peers of a virtio-user port: switches, including another linerate.

use super::text::{linerate, no_comma, shell};
use crate::args::GuestKind;
use crate::settings::kinds::socket::{Mode, SocketSettings};
use crate::settings::topology::PortSettings;
use console::Diagnostic;

/// Returns the snippet for a peer.
pub(super) fn snippet(
    port: &PortSettings,
    socket: &SocketSettings,
    other: GuestKind,
) -> Result<String, Diagnostic> {
    match other {
        GuestKind::Linerate => Ok(linerate(port, "vhost-user", socket)),
        GuestKind::Testpmd => no_comma(port, socket).map(|()| testpmd(port, socket)),
        GuestKind::Ovs => ovs(port, socket),
        GuestKind::Qemu => Err(guest(port, "QEMU")),
        GuestKind::Libvirt => Err(guest(port, "libvirt's domain")),
    }
}

fn guest(port: &PortSettings, name: &str) -> Diagnostic {
    let reason = format!("{name} is a guest, and so is a virtio-user port: it connects to another switch");
    let remedy =
        "use --for linerate, ovs or testpmd; or write kind = \"vhost-user\" and connect the guest to it";
    Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy)
}

/// testpmd as the switch to which the port connects.
fn testpmd(port: &PortSettings, socket: &SocketSettings) -> String {
    let (name, pairs, path) = (&port.name, port.queue_pairs, socket.path.display());
    let client = u8::from(socket.mode == Mode::Server);
    let device = shell(&format!("net_vhost0,iface={path},queues={pairs},client={client}"));
    format!(
        "dpdk-testpmd --no-pci --file-prefix={name} \\\n--vdev {device} \\\n-- -i --rxq={pairs} --txq={pairs}\n"
    )
}

/// Open vSwitch as a client: it creates sockets only in its own directory, so the port must be the server.
fn ovs(port: &PortSettings, socket: &SocketSettings) -> Result<String, Diagnostic> {
    if socket.mode == Mode::Client {
        let reason = "Open vSwitch creates its sockets in its own directory, which is deprecated";
        let remedy = "write mode = \"server\", so that Open vSwitch connects";
        return Err(Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy));
    }
    let path = shell(&format!("options:vhost-server-path={}", socket.path.display()));
    let name = &port.name;
    // Open vSwitch derives the number of queues from the peer.
    Ok(format!("ovs-vsctl add-port br0 {name} -- set Interface {name} \\\ntype=dpdkvhostuserclient {path}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kinds::PortKind;
    use crate::settings::kinds::virtio_user::VirtioUser;

    fn uplink(mode: Mode, queue_pairs: u16) -> PortSettings {
        let socket =
            SocketSettings { path: "/run/linerate/guest-a.sock".into(), mode, ..SocketSettings::default() };
        let kind = PortKind::VirtioUser(VirtioUser { socket, ..VirtioUser::default() });
        PortSettings { queue_pairs, ..PortSettings::named("uplink", kind) }
    }

    fn snippet(port: &PortSettings, other: GuestKind) -> Result<String, Diagnostic> {
        super::super::snippet(port, other, "")
    }

    #[test]
    fn testpmd_is_the_switch_of_a_virtio_user_port() {
        let expected = "\
dpdk-testpmd --no-pci --file-prefix=uplink \\
--vdev net_vhost0,iface=/run/linerate/guest-a.sock,queues=2,client=0 \\
-- -i --rxq=2 --txq=2
";
        assert_eq!(snippet(&uplink(Mode::Client, 2), GuestKind::Testpmd).unwrap(), expected);
        let text = snippet(&uplink(Mode::Server, 1), GuestKind::Testpmd).unwrap();
        assert!(text.contains("client=1"), "{text}");
    }

    #[test]
    fn another_linerate_gets_the_section_of_the_other_end() {
        let back = "[[port]]\nname = \"uplink\"\nkind = \"vhost-user\"\nsocket = \"/run/linerate/guest-a.sock\"\nmode = \"server\"\nqueue_pairs = 2\n";
        assert_eq!(snippet(&uplink(Mode::Client, 2), GuestKind::Linerate).unwrap(), back);
    }

    #[test]
    fn open_vswitch_connects_to_a_virtio_user_port_that_listens() {
        let expected = "\
ovs-vsctl add-port br0 uplink -- set Interface uplink \\
type=dpdkvhostuserclient options:vhost-server-path=/run/linerate/guest-a.sock
";
        for pairs in [1, 2] {
            assert_eq!(snippet(&uplink(Mode::Server, pairs), GuestKind::Ovs).unwrap(), expected);
        }
        let error = snippet(&uplink(Mode::Client, 1), GuestKind::Ovs).unwrap_err();
        assert!(error.remedy.contains("mode = \"server\""), "{error}");
    }

    #[test]
    fn an_unsupported_peer_is_rejected_with_the_supported_ones() {
        for guest in [GuestKind::Qemu, GuestKind::Libvirt] {
            let error = snippet(&uplink(Mode::Client, 1), guest).unwrap_err();
            assert!(error.remedy.contains("--for linerate, ovs or testpmd"), "{error}");
            assert_eq!(error.code, console::BAD_INPUT);
        }
    }
}
