//! Peers of a stream port: a QEMU guest without shared memory, or another linerate.

use super::text::{quoted, shell};
use crate::args::GuestKind;
use crate::settings::kinds::socket::Mode;
use crate::settings::kinds::stream::Stream;
use crate::settings::topology::PortSettings;
use ::port::stream::SocketAddress;
use console::Diagnostic;
use wire::MacAddress;

/// Returns the snippet for a peer.
pub(super) fn snippet(
    port: &PortSettings,
    own: &Stream,
    other: GuestKind,
    mac: MacAddress,
) -> Result<String, Diagnostic> {
    match other {
        GuestKind::Qemu => Ok(qemu(port, own, mac)),
        GuestKind::Linerate => Ok(linerate(port, own)),
        GuestKind::Libvirt | GuestKind::Testpmd | GuestKind::Ovs => {
            let reason = "it does not support the protocol of a stream port";
            let remedy = "use --for qemu or linerate; or write kind = \"vhost-user\"";
            Err(Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy))
        }
    }
}

fn qemu(port: &PortSettings, own: &Stream, mac: MacAddress) -> String {
    let name = &port.name;
    // QEMU requires a comma in a value to be doubled.
    let site = match own.site() {
        SocketAddress::Unix(path) | SocketAddress::Packets(path) => {
            format!("addr.type=unix,addr.path={}", path.display().to_string().replace(',', ",,"))
        }
        SocketAddress::Tcp(address) => {
            format!("addr.type=inet,addr.host={},addr.port={}", address.ip(), address.port())
        }
    };
    let server = if own.mode == Mode::Client { "on" } else { "off" };
    let netdev = shell(&format!("stream,id=net-{name},server={server},{site}"));
    let hint = match own.mode {
        Mode::Server => "# QEMU 9.2 and later connects again with reconnect-ms=1000 after the address\n",
        Mode::Client => "",
    };
    format!("-netdev {netdev} \\\n-device virtio-net-pci,netdev=net-{name},mac={mac}\n{hint}")
}

fn linerate(port: &PortSettings, own: &Stream) -> String {
    let (key, place) = match own.site() {
        SocketAddress::Unix(path) | SocketAddress::Packets(path) => ("socket", path.display().to_string()),
        SocketAddress::Tcp(address) => ("address", address.to_string()),
    };
    format!(
        "[[port]]\nname = {}\nkind = \"stream\"\n{key} = {}\nmode = \"{}\"\n",
        quoted(&port.name),
        quoted(&place),
        own.mode.other()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::access::Access;
    use crate::settings::kinds::PortKind;

    fn port(site: &str, mode: Mode) -> PortSettings {
        let address = site.parse().ok();
        let socket = address.is_none().then(|| site.into());
        PortSettings::named(
            "a",
            PortKind::Stream(Stream { socket, address, mode, access: Access::default() }),
        )
    }

    fn snippet(site: &str, mode: Mode, other: GuestKind) -> Result<String, Diagnostic> {
        let port = port(site, mode);
        super::super::snippet(&port, other, "")
    }

    #[test]
    fn qemu_takes_the_other_side_of_the_socket() {
        let expected = "\
-netdev 'stream,id=net-a,server=off,addr.type=unix,addr.path=/tmp/a b,,c' \\
-device virtio-net-pci,netdev=net-a,mac=02:c2:57:6d:1d:b6
# QEMU 9.2 and later connects again with reconnect-ms=1000 after the address
";
        assert_eq!(snippet("/tmp/a b,c", Mode::Server, GuestKind::Qemu).unwrap(), expected);
        let text = snippet("[::1]:5555", Mode::Client, GuestKind::Qemu).unwrap();
        assert!(text.contains("server=on,addr.type=inet,addr.host=::1,addr.port=5555"), "{text}");
    }

    #[test]
    fn memif_snippet_serves_linerate_and_rejects_other_guests() {
        let expected =
            "[[port]]\nname = \"a\"\nkind = \"stream\"\naddress = \"127.0.0.1:5555\"\nmode = \"client\"\n";
        assert_eq!(snippet("127.0.0.1:5555", Mode::Server, GuestKind::Linerate).unwrap(), expected);
        for other in [GuestKind::Libvirt, GuestKind::Testpmd, GuestKind::Ovs] {
            let error = snippet("/tmp/a", Mode::Server, other).unwrap_err();
            assert!(error.remedy.contains("--for qemu or linerate"), "{error}");
        }
    }
}
