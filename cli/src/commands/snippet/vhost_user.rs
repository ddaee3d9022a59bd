//! Peers of a vhost-user port: guests, and a virtio-user port of another linerate.

use super::text::{linerate, no_comma, shell, xml};
use crate::args::GuestKind;
use crate::settings::kinds::socket::{Mode, SocketSettings};
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use wire::MacAddress;

/// Returns the snippet for a peer.
pub(super) fn snippet(
    port: &PortSettings,
    socket: &SocketSettings,
    other: GuestKind,
    mac: MacAddress,
) -> Result<String, Diagnostic> {
    match other {
        GuestKind::Qemu => Ok(qemu(port, socket, mac)),
        GuestKind::Libvirt => Ok(libvirt(port, socket, mac)),
        GuestKind::Testpmd => no_comma(port, socket).map(|()| testpmd(port, socket, mac)),
        GuestKind::Linerate => Ok(linerate(port, "virtio-user", socket)),
        GuestKind::Ovs => {
            let reason = "Open vSwitch is a switch, and a vhost-user port connects guests";
            let remedy = "write kind = \"virtio-user\" to connect this port to Open vSwitch";
            Err(Diagnostic::bad(format!("port \"{}\"", port.name), reason, remedy))
        }
    }
}

fn qemu(port: &PortSettings, socket: &SocketSettings, mac: MacAddress) -> String {
    let (name, pairs) = (&port.name, port.queue_pairs);
    // QEMU requires a comma in a value to be doubled.
    let path = socket.path.display().to_string().replace(',', ",,");
    let side = match socket.mode {
        Mode::Server => "reconnect=1",
        Mode::Client => "server=on,wait=off",
    };
    let mut device = vec![format!("virtio-net-pci,netdev=net-{name},mac={mac}")];
    if pairs > 1 {
        // One vector per queue, one for configuration changes and one for the control queue.
        device.push(format!("mq=on,vectors={}", 2 * pairs + 2));
    }
    device.extend(port.mtu.map(|mtu| format!("host_mtu={mtu}")));
    let mut lines = vec![
        "-m 1G".to_owned(),
        "-object memory-backend-memfd,id=mem0,size=1G,share=on".to_owned(),
        "-machine memory-backend=mem0".to_owned(),
        format!("-chardev {}", shell(&format!("socket,id=chr-{name},path={path},{side}"))),
        format!("-netdev vhost-user,id=net-{name},chardev=chr-{name},queues={pairs}"),
        format!("-device {}", device.join(",")),
    ];
    // After the options, so that the options can be appended to a command line.
    let hint = match socket.mode {
        Mode::Server => "# QEMU 9.2 and later: reconnect-ms=1000 in place of reconnect=1\n",
        Mode::Client => "",
    };
    let last = lines.pop().unwrap_or_default();
    format!("{} \\\n{last}\n{hint}", lines.join(" \\\n"))
}

fn libvirt(port: &PortSettings, socket: &SocketSettings, mac: MacAddress) -> String {
    let path = xml(&socket.path.display().to_string());
    let source = match socket.mode {
        Mode::Server => format!(
            "    <source type='unix' path='{path}' mode='client'>\n      <reconnect enabled='yes' timeout='1'/>\n    </source>\n"
        ),
        Mode::Client => format!("    <source type='unix' path='{path}' mode='server'/>\n"),
    };
    let hint = match socket.mode {
        Mode::Server if !socket.access.has_group() => {
            "<!-- For QEMU as another user, on Debian libvirt-qemu in group kvm, write in the port's section:\n     \
             socket_group = \"kvm\" and socket_mode = \"0660\" -->\n"
        }
        _ => "",
    };
    let driver = match port.queue_pairs {
        1 => String::new(),
        pairs => format!("    <driver queues='{pairs}'/>\n"),
    };
    let mtu = match port.mtu {
        None => String::new(),
        Some(bytes) => format!("    <mtu size='{bytes}'/>\n"),
    };
    format!(
        "<memoryBacking>\n  <source type='memfd'/>\n  <access mode='shared'/>\n</memoryBacking>\n<devices>\n  \
         <interface type='vhostuser'>\n    <mac address='{mac}'/>\n{source}    <model type='virtio'/>\n\
         {driver}{mtu}  </interface>\n</devices>\n{hint}"
    )
}

fn testpmd(port: &PortSettings, socket: &SocketSettings, mac: MacAddress) -> String {
    let (name, pairs, path) = (&port.name, port.queue_pairs, socket.path.display());
    let mut device = format!("net_virtio_user0,path={path},mac={mac},queues={pairs},queue_size=1024");
    if socket.mode == Mode::Client {
        device += ",server=1";
    }
    // testpmd's maximum includes the Ethernet header and the frame check sequence.
    let longest = port.mtu.map(|mtu| format!(" --max-pkt-len={}", u32::from(mtu) + 18)).unwrap_or_default();
    // Four times the capacity of the queues; testpmd's default takes 400 MB for buffers.
    let buffers = 8192 * u32::from(pairs);
    let own = format!("-i --rxq={pairs} --txq={pairs} --rxd=1024 --txd=1024 --total-num-mbufs={buffers}")
        + &longest;
    format!(
        "dpdk-testpmd --no-pci --single-file-segments --file-prefix={name} \\\n--vdev {} \\\n-- {own}\n\
         # without huge pages: --no-huge -m 512 in place of --single-file-segments\n",
        shell(&device)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kinds::PortKind;
    use crate::settings::kinds::vhost_user::VhostUser;

    fn port(mode: Mode, queue_pairs: u16, mtu: Option<u16>) -> PortSettings {
        at("/run/linerate/guest-a.sock", mode, queue_pairs, mtu)
    }

    fn at(path: &str, mode: Mode, queue_pairs: u16, mtu: Option<u16>) -> PortSettings {
        let kind = PortKind::VhostUser(VhostUser {
            socket: SocketSettings { path: path.into(), mode, ..SocketSettings::default() },
            offloads: true,
        });
        PortSettings { queue_pairs, mtu, ..PortSettings::named("guest-a", kind) }
    }

    fn snippet(port: &PortSettings, other: GuestKind) -> Result<String, Diagnostic> {
        super::super::snippet(port, other, "")
    }

    #[test]
    fn qemu_connects_again_and_again_to_a_port_that_listens() {
        let expected = "\
-m 1G \\
-object memory-backend-memfd,id=mem0,size=1G,share=on \\
-machine memory-backend=mem0 \\
-chardev socket,id=chr-guest-a,path=/run/linerate/guest-a.sock,reconnect=1 \\
-netdev vhost-user,id=net-guest-a,chardev=chr-guest-a,queues=1 \\
-device virtio-net-pci,netdev=net-guest-a,mac=02:74:b6:2f:1f:75
# QEMU 9.2 and later: reconnect-ms=1000 in place of reconnect=1
";
        assert_eq!(snippet(&port(Mode::Server, 1, None), GuestKind::Qemu).unwrap(), expected);
    }

    #[test]
    fn qemu_listens_for_a_port_that_connects_and_gets_a_vector_for_each_queue() {
        let expected = "\
-m 1G \\
-object memory-backend-memfd,id=mem0,size=1G,share=on \\
-machine memory-backend=mem0 \\
-chardev socket,id=chr-guest-a,path=/run/linerate/guest-a.sock,server=on,wait=off \\
-netdev vhost-user,id=net-guest-a,chardev=chr-guest-a,queues=2 \\
-device virtio-net-pci,netdev=net-guest-a,mac=02:74:b6:2f:1f:75,mq=on,vectors=6,host_mtu=9000
";
        assert_eq!(snippet(&port(Mode::Client, 2, Some(9000)), GuestKind::Qemu).unwrap(), expected);
    }

    #[test]
    fn libvirt_shares_its_memory_and_connects_to_a_port_that_listens() {
        let expected = "\
<memoryBacking>
  <source type='memfd'/>
  <access mode='shared'/>
</memoryBacking>
<devices>
  <interface type='vhostuser'>
    <mac address='02:74:b6:2f:1f:75'/>
    <source type='unix' path='/run/linerate/guest-a.sock' mode='client'>
      <reconnect enabled='yes' timeout='1'/>
    </source>
    <model type='virtio'/>
  </interface>
</devices>
";
        let text = snippet(&port(Mode::Server, 1, None), GuestKind::Libvirt).unwrap();
        let (elements, hint) = text.split_at(expected.len());
        assert_eq!(elements, expected);
        assert!(hint.contains("socket_group = \"kvm\" and socket_mode = \"0660\""), "{hint}");
    }

    #[test]
    fn libvirt_listens_for_a_port_that_connects() {
        let text = snippet(&port(Mode::Client, 4, Some(9000)), GuestKind::Libvirt).unwrap();
        let expected = "    <source type='unix' path='/run/linerate/guest-a.sock' mode='server'/>\n    <model type='virtio'/>\n    <driver queues='4'/>\n    <mtu size='9000'/>\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn testpmd_is_the_server_of_a_port_that_connects() {
        let expected = "\
dpdk-testpmd --no-pci --single-file-segments --file-prefix=guest-a \\
--vdev net_virtio_user0,path=/run/linerate/guest-a.sock,mac=02:74:b6:2f:1f:75,queues=2,queue_size=1024,server=1 \\
-- -i --rxq=2 --txq=2 --rxd=1024 --txd=1024 --total-num-mbufs=16384
# without huge pages: --no-huge -m 512 in place of --single-file-segments
";
        assert_eq!(snippet(&port(Mode::Client, 2, None), GuestKind::Testpmd).unwrap(), expected);
    }

    #[test]
    fn testpmd_is_the_client_of_a_port_that_listens() {
        let text = snippet(&port(Mode::Server, 1, Some(9000)), GuestKind::Testpmd).unwrap();
        assert!(!text.contains("server=1") && text.contains("--max-pkt-len=9018"), "{text}");
    }

    #[test]
    fn names_that_mean_something_to_a_shell_or_to_xml_are_quoted() {
        let odd = at("/tmp/it's <a>,b", Mode::Server, 1, None);
        assert!(
            snippet(&odd, GuestKind::Qemu)
                .unwrap()
                .contains(r"'socket,id=chr-guest-a,path=/tmp/it'\''s <a>,,b,reconnect=1'")
        );
        assert!(snippet(&odd, GuestKind::Libvirt).unwrap().contains("path='/tmp/it&apos;s &lt;a>,b'"));
        let error = snippet(&odd, GuestKind::Testpmd).unwrap_err();
        assert!(error.reason.contains("paths with a comma"), "{error}");
    }

    #[test]
    fn another_linerate_gets_the_section_of_the_other_end() {
        let front = "[[port]]\nname = \"guest-a\"\nkind = \"virtio-user\"\nsocket = \"/run/linerate/guest-a.sock\"\nmode = \"client\"\nmtu = 9000\n";
        assert_eq!(snippet(&port(Mode::Server, 1, Some(9000)), GuestKind::Linerate).unwrap(), front);
    }

    #[test]
    fn unsupported_peer_of_a_snippet_is_rejected_with_an_alternative() {
        let error = snippet(&port(Mode::Server, 1, None), GuestKind::Ovs).unwrap_err();
        assert!(error.remedy.contains("kind = \"virtio-user\""), "{error}");
    }
}
