//! The lines that make the other end of a port. Pure text: a port goes in, what to paste comes out.
//!
//! The other end takes the other side of the socket: it connects where the switch listens and listens where the
//! switch connects. Whoever connects tries again, so that either side may be restarted. Guests plug into a
//! vhost-user port; a virtio-user port plugs into another switch.

use crate::args::{GuestKind, SnippetArgs};
use crate::config;
use crate::topology::{Mode, PortKind, PortSettings};
use crate::trouble::Trouble;
use crate::{api, host};
use std::path::Path;
use wire::MacAddress;

/// The port that is asked for, from a file or from the running switch, as a snippet.
pub(crate) fn run(args: &SnippetArgs, control: Option<&Path>) -> anyhow::Result<String> {
    let port = if let Some(file) = &args.config {
        from_file(file, &args.port, control)?
    } else {
        let path = format!("/v1/ports/{}", api::client::quote(&args.port));
        api::client::Client::new(control).get::<api::model::PortReport>(&path)?.settings
    };
    if args.kind == GuestKind::Testpmd && port.socket.as_os_str().as_encoded_bytes().contains(&b',') {
        let reason = format!("DPDK takes no path with a comma, such as {}", port.socket.display());
        return Err(Trouble::bad(format!("port {}", port.name), reason, "choose another `socket`").into());
    }
    Ok(snippet(&port, args.kind)?)
}

fn from_file(file: &Path, name: &str, control: Option<&Path>) -> anyhow::Result<PortSettings> {
    let topology = config::read(file, &host::Host::here(), control)?;
    let names: Vec<String> = topology.ports.iter().map(|port| port.name.clone()).collect();
    let found = topology.ports.into_iter().find(|port| port.name == name);
    Ok(found.ok_or_else(|| {
        let remedy = match names.as_slice() {
            [] => "add a [[port]] section first".to_owned(),
            names => format!("name one of {}", names.join(", ")),
        };
        Trouble::bad(file.display(), format!("there is no port \"{name}\""), remedy)
    })?)
}

/// What to paste for this kind of other end.
pub(crate) fn snippet(port: &PortSettings, kind: GuestKind) -> Result<String, Trouble> {
    let guest = |name: &str| {
        let reason =
            format!("{name} is a guest, and a virtio-user port is one too: it plugs into another switch");
        let remedy =
            "ask --for linerate, ovs or testpmd; or write kind = \"vhost-user\" and let the guest plug in";
        Trouble::bad(format!("port \"{}\"", port.name), reason, remedy)
    };
    match (port.kind, kind) {
        (PortKind::VhostUser, GuestKind::Qemu) => Ok(qemu(port)),
        (PortKind::VhostUser, GuestKind::Libvirt) => Ok(libvirt(port)),
        (PortKind::VhostUser, GuestKind::Testpmd) => Ok(testpmd(port)),
        (PortKind::VhostUser, GuestKind::Ovs) => {
            let reason = "Open vSwitch is a switch, and a vhost-user port is one for guests";
            let remedy = "write kind = \"virtio-user\" to plug this port into Open vSwitch";
            Err(Trouble::bad(format!("port \"{}\"", port.name), reason, remedy))
        }
        (_, GuestKind::Linerate) => Ok(linerate(port)),
        (PortKind::VirtioUser(_), GuestKind::Testpmd) => Ok(testpmd_switch(port)),
        (PortKind::VirtioUser(_), GuestKind::Ovs) => ovs(port),
        (PortKind::VirtioUser(_), GuestKind::Qemu) => Err(guest("QEMU")),
        (PortKind::VirtioUser(_), GuestKind::Libvirt) => Err(guest("libvirt's domain")),
    }
}

/// A locally administered address that is always the same for a name (FNV-1a of the name).
fn mac(name: &str) -> MacAddress {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [hash @ .., _, _, _] = hash.to_be_bytes();
    MacAddress::new([0x02, hash[0], hash[1], hash[2], hash[3], hash[4]])
}

fn qemu(port: &PortSettings) -> String {
    let (name, pairs) = (&port.name, port.queue_pairs);
    // QEMU reads a doubled comma as one that belongs to the value.
    let path = port.socket.display().to_string().replace(',', ",,");
    let side = match port.mode {
        Mode::Server => "reconnect=1",
        Mode::Client => "server=on,wait=off",
    };
    let mut device = vec![format!("virtio-net-pci,netdev=net-{name},mac={}", mac(name))];
    if pairs > 1 {
        // One vector for each queue, one for configuration changes, one for the control queue.
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
    // Behind the options, so that they can be pasted behind other ones.
    let hint = match port.mode {
        Mode::Server => "# QEMU 9.2 and later: reconnect-ms=1000 in place of reconnect=1\n",
        Mode::Client => "",
    };
    let last = lines.pop().unwrap_or_default();
    format!("{} \\\n{last}\n{hint}", lines.join(" \\\n"))
}

fn libvirt(port: &PortSettings) -> String {
    let path = xml(&port.socket.display().to_string());
    let source = match port.mode {
        Mode::Server => format!(
            "    <source type='unix' path='{path}' mode='client'>\n      <reconnect enabled='yes' timeout='1'/>\n    </source>\n"
        ),
        Mode::Client => format!("    <source type='unix' path='{path}' mode='server'/>\n"),
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
         <interface type='vhostuser'>\n    <mac address='{}'/>\n{source}    <model type='virtio'/>\n\
         {driver}{mtu}  </interface>\n</devices>\n",
        mac(&port.name)
    )
}

fn testpmd(port: &PortSettings) -> String {
    let (name, pairs, path) = (&port.name, port.queue_pairs, port.socket.display());
    let mut device = format!("net_virtio_user0,path={path},mac={},queues={pairs},queue_size=1024", mac(name));
    if port.mode == Mode::Client {
        device += ",server=1";
    }
    // testpmd counts the Ethernet header and the checksum.
    let longest = port.mtu.map(|mtu| format!(" --max-pkt-len={}", u32::from(mtu) + 18)).unwrap_or_default();
    // Four times what the queues hold; by itself testpmd takes 400 MB for buffers.
    let buffers = 8192 * u32::from(pairs);
    let own = format!("-i --rxq={pairs} --txq={pairs} --rxd=1024 --txd=1024 --total-num-mbufs={buffers}")
        + &longest;
    format!(
        "dpdk-testpmd --no-pci --single-file-segments --file-prefix={name} \\\n--vdev {} \\\n-- {own}\n\
         # without huge pages: --no-huge -m 512 in place of --single-file-segments\n",
        shell(&device)
    )
}

/// testpmd as the switch that a virtio-user port plugs into.
fn testpmd_switch(port: &PortSettings) -> String {
    let (name, pairs, path) = (&port.name, port.queue_pairs, port.socket.display());
    let client = u8::from(port.mode == Mode::Server);
    let device = shell(&format!("net_vhost0,iface={path},queues={pairs},client={client}"));
    format!(
        "dpdk-testpmd --no-pci --file-prefix={name} \\\n--vdev {device} \\\n-- -i --rxq={pairs} --txq={pairs}\n"
    )
}

/// The section of another linerate's configuration.
fn linerate(port: &PortSettings) -> String {
    let kind = match port.kind {
        PortKind::VhostUser => "virtio-user",
        PortKind::VirtioUser(_) => "vhost-user",
    };
    let mode = match port.mode {
        Mode::Server => Mode::Client,
        Mode::Client => Mode::Server,
    };
    // What JSON escapes, TOML reads.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let section = format!(
        "[[port]]\nname = {}\nkind = \"{kind}\"\nsocket = {}\nmode = \"{mode}\"\n",
        quoted(&port.name),
        quoted(&port.socket.display().to_string()),
    );
    let pairs = match port.queue_pairs {
        1 => String::new(),
        pairs => format!("queue_pairs = {pairs}\n"),
    };
    section + &pairs + &port.mtu.map(|mtu| format!("mtu = {mtu}\n")).unwrap_or_default()
}

/// Open vSwitch listens only in a directory of its own, so it has to be the one that connects.
fn ovs(port: &PortSettings) -> Result<String, Trouble> {
    if port.mode == Mode::Client {
        let reason = "Open vSwitch makes its sockets in a directory of its own, and deprecates it";
        let remedy = "write mode = \"server\", so that Open vSwitch connects";
        return Err(Trouble::bad(format!("port \"{}\"", port.name), reason, remedy));
    }
    let path = shell(&format!("options:vhost-server-path={}", port.socket.display()));
    let name = &port.name;
    // Open vSwitch takes the number of queues from what is plugged in.
    Ok(format!("ovs-vsctl add-port br0 {name} -- set Interface {name} \\\ntype=dpdkvhostuserclient {path}\n"))
}

/// `word` as one word of a shell command.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,=:+@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// `text` as the value of an XML attribute.
fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::DriverSettings;

    fn port(mode: Mode, queue_pairs: u16, mtu: Option<u16>) -> PortSettings {
        PortSettings {
            name: "guest-a".to_owned(),
            kind: PortKind::VhostUser,
            socket: "/run/linerate/guest-a.sock".into(),
            mode,
            queue_pairs,
            mtu,
            bridge: "main".to_owned(),
            vlan: None,
            broadcast_limit: None,
            unknown_limit: None,
            mac_limit: None,
        }
    }

    #[test]
    fn qemu_connects_again_and_again_to_a_port_that_listens() {
        let expected = "\
-m 1G \\
-object memory-backend-memfd,id=mem0,size=1G,share=on \\
-machine memory-backend=mem0 \\
-chardev socket,id=chr-guest-a,path=/run/linerate/guest-a.sock,reconnect=1 \\
-netdev vhost-user,id=net-guest-a,chardev=chr-guest-a,queues=1 \\
-device virtio-net-pci,netdev=net-guest-a,mac=02:c5:3a:5d:e1:39
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
-device virtio-net-pci,netdev=net-guest-a,mac=02:c5:3a:5d:e1:39,mq=on,vectors=6,host_mtu=9000
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
    <mac address='02:c5:3a:5d:e1:39'/>
    <source type='unix' path='/run/linerate/guest-a.sock' mode='client'>
      <reconnect enabled='yes' timeout='1'/>
    </source>
    <model type='virtio'/>
  </interface>
</devices>
";
        assert_eq!(snippet(&port(Mode::Server, 1, None), GuestKind::Libvirt).unwrap(), expected);
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
--vdev net_virtio_user0,path=/run/linerate/guest-a.sock,mac=02:c5:3a:5d:e1:39,queues=2,queue_size=1024,server=1 \\
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
        let mut odd = port(Mode::Server, 1, None);
        odd.socket = "/tmp/it's <a>,b".into();
        assert!(
            snippet(&odd, GuestKind::Qemu)
                .unwrap()
                .contains(r"'socket,id=chr-guest-a,path=/tmp/it'\''s <a>,,b,reconnect=1'")
        );
        assert!(snippet(&odd, GuestKind::Libvirt).unwrap().contains("path='/tmp/it&apos;s &lt;a>,b'"));
    }

    #[test]
    fn different_names_get_different_addresses_that_stations_may_have() {
        assert_ne!(mac("a"), mac("b"));
        assert!(mac("a").is_local() && !mac("a").is_group());
    }

    fn uplink(mode: Mode, queue_pairs: u16) -> PortSettings {
        let kind = PortKind::VirtioUser(DriverSettings::default());
        PortSettings { kind, name: "uplink".to_owned(), ..port(mode, queue_pairs, None) }
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
        let front = "[[port]]\nname = \"guest-a\"\nkind = \"virtio-user\"\nsocket = \"/run/linerate/guest-a.sock\"\nmode = \"client\"\nmtu = 9000\n";
        assert_eq!(snippet(&port(Mode::Server, 1, Some(9000)), GuestKind::Linerate).unwrap(), front);
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
        let trouble = snippet(&uplink(Mode::Client, 1), GuestKind::Ovs).unwrap_err();
        assert!(trouble.remedy.contains("mode = \"server\""), "{trouble}");
    }

    #[test]
    fn who_cannot_be_at_the_other_end_is_answered_with_who_can() {
        for guest in [GuestKind::Qemu, GuestKind::Libvirt] {
            let trouble = snippet(&uplink(Mode::Client, 1), guest).unwrap_err();
            assert!(trouble.remedy.contains("--for linerate, ovs or testpmd"), "{trouble}");
            assert_eq!(trouble.code, crate::trouble::BAD_INPUT);
        }
        let trouble = snippet(&port(Mode::Server, 1, None), GuestKind::Ovs).unwrap_err();
        assert!(trouble.remedy.contains("kind = \"virtio-user\""), "{trouble}");
    }
}
