//! Peers of a memif port: DPDK's driver, and another linerate.

use super::text::{linerate, no_comma, shell};
use crate::args::GuestKind;
use crate::settings::kinds::memif::Memif;
use crate::settings::kinds::socket::Mode;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use std::fmt::Write;
use wire::MacAddress;

/// Returns the snippet for a peer.
pub(super) fn snippet(
    port: &PortSettings,
    memif: &Memif,
    other: GuestKind,
    mac: MacAddress,
) -> Result<String, Diagnostic> {
    match other {
        GuestKind::Linerate => Ok(section(port, memif)),
        GuestKind::Testpmd => no_comma(port, &memif.socket).map(|()| testpmd(port, memif, mac)),
        GuestKind::Qemu | GuestKind::Libvirt | GuestKind::Ovs => Err(no_such_guest(port)),
    }
}

fn no_such_guest(port: &PortSettings) -> Diagnostic {
    let reason = "virtual machines and Open vSwitch do not support memif";
    let remedy = "use --for testpmd or linerate; or write kind = \"vhost-user\"";
    Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy)
}

/// Section of another linerate, with the settings that both peers must share.
fn section(port: &PortSettings, memif: &Memif) -> String {
    let mut section = linerate(port, "memif", &memif.socket);
    let default = port::memif::Options::default();
    // Writing to a String cannot fail.
    if memif.id != default.id {
        let _ = writeln!(section, "id = {}", memif.id);
    }
    if let Some(secret) = &memif.secret {
        let _ = writeln!(section, "secret = {}", serde_json::Value::from(secret.as_str()));
    }
    section
}

/// testpmd with one memif interface. Its ring sizes are given as base-2 logarithms.
fn testpmd(port: &PortSettings, memif: &Memif, mac: MacAddress) -> String {
    let (name, pairs, place, id) = (&port.name, port.queue_pairs, memif.socket.place(), memif.id);
    let (path, is_abstract) = place.strip_prefix('@').map_or((&*place, "no"), |name| (name, "yes"));
    let role = match memif.socket.mode {
        Mode::Server => "client",
        Mode::Client => "server",
    };
    let secret = memif.secret.as_ref().map(|secret| format!(",secret={secret}")).unwrap_or_default();
    let device = shell(&format!(
        "net_memif0,role={role},id={id},socket={path},socket-abstract={is_abstract},rsize={},bsize={},mac={}{secret}",
        memif.ring_size.trailing_zeros(),
        memif.buffer_size.min(u32::from(u16::MAX)),
        mac,
    ));
    format!(
        "dpdk-testpmd --no-pci --file-prefix={name} \\\n--vdev {device} \\\n-- -i --rxq={pairs} --txq={pairs}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kinds::PortKind;
    use crate::settings::kinds::socket::SocketSettings;

    fn port(mode: Mode, id: u32, secret: Option<&str>) -> PortSettings {
        let socket =
            SocketSettings { path: "/run/linerate/m.sock".into(), mode, ..SocketSettings::default() };
        let secret = secret.map(str::to_owned);
        let memif = Memif { id, secret, ring_size: 1024, buffer_size: 2048, socket };
        PortSettings::named("m", PortKind::Memif(memif))
    }

    fn text(port: &PortSettings, other: GuestKind) -> String {
        super::super::snippet(port, other, "").unwrap()
    }

    #[test]
    fn testpmd_takes_the_other_role() {
        let server = text(&port(Mode::Server, 7, Some("abc")), GuestKind::Testpmd);
        let device = "net_memif0,role=client,id=7,socket=/run/linerate/m.sock,socket-abstract=no,rsize=10,bsize=2048,mac=02:";
        assert!(server.contains(device) && server.contains(",secret=abc"), "{server}");
        assert!(text(&port(Mode::Client, 0, None), GuestKind::Testpmd).contains("role=server,id=0"));
    }

    #[test]
    fn profile_name_without_a_file_is_distinguished_from_a_path() {
        let PortKind::Memif(mut memif) = port(Mode::Server, 0, None).kind else { unreachable!() };
        memif.socket.path = "@lr-m".into();
        let port = PortSettings::named("m", PortKind::Memif(memif));
        let said = text(&port, GuestKind::Testpmd);
        assert!(said.contains(",socket=lr-m,socket-abstract=yes,"), "{said}");
        assert!(text(&port, GuestKind::Linerate).contains("socket = \"@lr-m\""));
    }

    #[test]
    fn snippet_for_linerate_names_the_settings_of_both_sides() {
        let expected = "[[port]]\nname = \"m\"\nkind = \"memif\"\nsocket = \"/run/linerate/m.sock\"\nmode = \"client\"\nid = 7\nsecret = \"abc\"\n";
        assert_eq!(text(&port(Mode::Server, 7, Some("abc")), GuestKind::Linerate), expected);
    }

    #[test]
    fn a_peer_without_memif_is_rejected_with_the_supported_ones() {
        let port = port(Mode::Server, 0, None);
        for other in [GuestKind::Qemu, GuestKind::Libvirt, GuestKind::Ovs] {
            let error = super::super::snippet(&port, other, "").unwrap_err();
            assert!(error.remedy.contains("--for testpmd or linerate"), "{error}");
        }
    }
}
