//! What was added to a running switch, as sections of the configuration file: the switch itself never writes there.

use crate::topology::PortSettings;
use serde::Serialize;

/// The file, as far as a port goes.
#[derive(Serialize)]
struct File<'a> {
    port: [&'a PortSettings; 1],
}

/// A port as its `[[port]]` section.
pub(crate) fn port(port: &PortSettings) -> Result<String, toml::ser::Error> {
    toml::to_string(&File { port: [port] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::host::Host;

    /// What is printed is read again as the same port.
    #[test]
    fn a_printed_section_is_the_port_that_it_was_made_of() {
        let host = Host { online: vec![0], allowed: vec![0] };
        for more in [
            "",
            "mtu = 9000\nqueue_pairs = 2\nmode = \"client\"\nbroadcast_limit = 5\nmac_limit = 3",
            "vlan = 10\nunknown_limit = 7",
            "vlan = { trunk = [10, 20], native = 1 }\nmac_limit = 1",
        ] {
            let text = format!("[[port]]\nname = \"a\"\nsocket = \"/tmp/it's \\\\ \\\"a\\\"\"\n{more}\n");
            let before = config::parse(&text, &host, None).unwrap().ports;
            let printed = port(&before[0]).unwrap();
            assert!(printed.starts_with("[[port]]\n"), "{printed}");
            assert_eq!(config::parse(&printed, &host, None).unwrap().ports, before, "{printed}");
        }
    }
}
