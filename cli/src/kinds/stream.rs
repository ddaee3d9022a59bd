//! `kind = "stream"`: frames over a stream socket, Unix or TCP, as QEMU's `-netdev stream` and `passt` speak them.

use super::{Claim, Kind, Loaded, Mode};
use crate::args::GuestKind;
use crate::config::{Fields, Validation};
use crate::data_plane::DataPlaneError;
use crate::topology::PortSettings;
use ::port::PortControl;
use ::port::stream::{self as port_kind, Site};
use console::Diagnostic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

mod snippet;

/// What a stream port is asked for: one of a path and an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<SocketAddr>,
    pub(crate) mode: Mode,
}

impl Kind for Stream {
    const NAME: &'static str = "stream";
    const ABOUT: &'static str =
        "Frames over a Unix or TCP socket, as QEMU's `-netdev stream` and passt speak them";
    const KEYS: &'static [&'static str] = &["socket", "address", "mode"];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "socket = \"/tmp/lr-s.sock\"",
        "address = \"127.0.0.1:5555\"\nmode = \"client\"",
        "address = \"[::1]:5555\"\nmode = \"server\"",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let socket = fields.text("socket").map(PathBuf::from);
        let address = read_address(fields);
        let mode = Mode::read(fields).unwrap_or_default();
        Self { socket, address, mode }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        validation.one_queue_pair();
        validation.no_mtu();
        if let Some(path) = &self.socket {
            validation.socket_path("socket", path);
        }
        let unsure = validation.is_spoiled("address") || validation.is_spoiled("socket");
        match (&self.socket, &self.address) {
            (None, None) if !unsure => {
                let remedy = "add a line such as: socket = \"/run/linerate/guest-a.sock\", or address = \"127.0.0.1:5555\"";
                validation.wrong("socket", "neither `socket` nor `address` is there", remedy);
            }
            (Some(_), Some(_)) => {
                validation.wrong("address", "both `socket` and `address` are there", "remove one of them");
            }
            _ => {}
        }
    }

    /// Any number of ports may call the same address, and one may be called there.
    fn claims(&self) -> Vec<Claim<'_>> {
        let address = self.address.filter(|_| self.mode == Mode::Server);
        let address = address.map(|address| Claim::named("address", "address of TCP", address.to_string()));
        let socket = self.socket.iter().map(|path| Claim::file("socket", path));
        socket.chain(address).collect()
    }

    fn place(&self) -> String {
        self.site().to_string()
    }

    fn snippet(&self, port: &PortSettings, other: GuestKind) -> Result<String, Diagnostic> {
        snippet::snippet(port, self, other)
    }

    fn plug(&self, _port: &PortSettings, _: Loaded) -> Result<Box<dyn PortControl>, DataPlaneError> {
        let made = match self.mode {
            Mode::Server => port_kind::Stream::listen(&self.site()),
            Mode::Client => port_kind::Stream::connect(&self.site(), Instant::now()),
        };
        Ok(Box::new(made.map_err(DataPlaneError::said)?))
    }
}

impl Stream {
    /// Where the socket is. The settings have been judged: one of both is there.
    fn site(&self) -> Site {
        match self.address {
            Some(address) => Site::Tcp(address),
            None => Site::Unix(self.socket.clone().unwrap_or_default()),
        }
    }
}

/// An address has to be one of a machine, because looking a name up would hold up every other port.
fn read_address(fields: &mut Fields<'_, '_>) -> Option<SocketAddr> {
    let text = fields.text("address")?;
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Some(address),
        _ => {
            let reason = format!("`address` \"{text}\" is no IP address with a port behind it");
            fields.wrong("address", reason, "write it as 127.0.0.1:5555 or [::1]:5555".to_owned())
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.mode, self.site())
    }
}

#[cfg(test)]
mod tests {
    use crate::config;
    use crate::host::Host;

    /// `line: error (remedy)` for every error of one port with these lines, which begin with line 4.
    fn errors(lines: &str) -> Vec<String> {
        let text = format!("[[port]]\nname = \"a\"\nkind = \"stream\"\n{lines}\n");
        let host = Host::of(&[0], &[0]);
        let Err(errors) = config::parse(&text, &host, None) else { return Vec::new() };
        let told = errors.into_iter();
        told.map(|m| format!("{}: {} ({})", m.line.unwrap_or(0), m.error, m.remedy)).collect()
    }

    #[test]
    fn a_port_is_at_a_path_or_at_an_address() {
        let neither = "1: port \"a\": neither `socket` nor `address` is there (add a line such as: \
            socket = \"/run/linerate/guest-a.sock\", or address = \"127.0.0.1:5555\")";
        assert_eq!(errors(""), [neither]);
        let both = "5: port \"a\": both `socket` and `address` are there (remove one of them)";
        assert_eq!(errors("socket = \"/tmp/lr-s\"\naddress = \"127.0.0.1:1\""), [both]);
        let told = |text: &str| {
            format!(
                "4: port \"a\": `address` \"{text}\" is no IP address with a port behind it \
                 (write it as 127.0.0.1:5555 or [::1]:5555)"
            )
        };
        for text in ["localhost:5555", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", ":5555", ""] {
            assert_eq!(errors(&format!("address = \"{text}\"")), [told(text)]);
        }
        let relative = errors("socket = \"s\"");
        assert!(relative[0].contains("`socket` s: the path is not absolute"), "{relative:?}");
    }

    #[test]
    fn what_a_stream_cannot_do_is_said() {
        let lines = "address = \"127.0.0.1:5555\"\nqueue_pairs = 2\nmtu = 1500";
        let expected = [
            "5: port \"a\": `queue_pairs` is 2, and a port of kind \"stream\" has one pair of queues (remove it)",
            "6: port \"a\": `mtu` is nothing that a port of kind \"stream\" has (remove it)",
        ];
        assert_eq!(errors(lines), expected);
    }

    #[test]
    fn an_address_is_listened_on_once_and_called_by_many() {
        let second = |mode: &str| {
            format!("[[port]]\nname = \"b\"\nkind = \"stream\"\naddress = \"127.0.0.1:5555\"\n{mode}")
        };
        let taken = errors(&format!("address = \"127.0.0.1:5555\"\n{}", second("")));
        let expected = "8: port \"b\": `address` 127.0.0.1:5555 is already port \"a\"'s (line 4) \
            (give each port an address of its own)";
        assert_eq!(taken, [expected]);
        let client = "mode = \"client\"";
        assert_eq!(errors(&format!("address = \"127.0.0.1:5555\"\n{}", second(client))), [""; 0]);
    }
}
