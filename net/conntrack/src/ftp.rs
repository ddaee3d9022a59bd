//! Control messages of FTP (RFC 959, RFC 2428): the address and the port at which the sender accepts a connection.

use std::net::{IpAddr, Ipv4Addr};

/// How a message gives an address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Six numbers with commas between them: `PORT` and the reply 227.
    Numbers,
    /// Version, address and port with this delimiter around them: `EPRT`.
    Extended(u8),
    /// The port alone in that form: the reply 229.
    Port(u8),
}

/// What a message announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Start and length of the text of address and port in the payload.
    pub(crate) place: (u16, u16),
    pub(crate) form: Form,
    /// Address, if the message gives one.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
}

impl Message {
    /// A client's `PORT` or `EPRT` command.
    pub(crate) fn of_client(payload: &[u8]) -> Option<Self> {
        let (command, argument) = line(payload)?.split_once(' ')?;
        let at = command.len() + 1;
        match command {
            _ if command.eq_ignore_ascii_case("PORT") => numbers(argument, at),
            _ if command.eq_ignore_ascii_case("EPRT") => extended(argument, at),
            _ => None,
        }
    }

    /// A server's reply to `PASV` or `EPSV`.
    pub(crate) fn of_server(payload: &[u8]) -> Option<Self> {
        let line = line(payload)?;
        let (before, argument) = line.split_once('(')?;
        let (argument, _) = argument.split_once(')')?;
        match line.get(..3)? {
            "227" => numbers(argument, before.len() + 1),
            "229" => extended(argument, before.len() + 1).filter(|found| found.address.is_none()),
            _ => None,
        }
    }

    /// The text with another address and port, if that differs.
    pub(crate) fn replaced(&self, address: IpAddr, port: u16) -> Option<Text> {
        let is_same = self.address.is_none_or(|own| own == address) && self.port == port;
        let (at, len) = self.place;
        (!is_same).then_some(Text { at, len, form: self.form, address, port })
    }
}

/// A text that replaces the address and the port of a message. [`std::fmt::Display`] writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Start of the replaced text in the payload.
    pub at: u16,
    /// Length of the replaced text in bytes.
    pub len: u16,
    form: Form,
    address: IpAddr,
    port: u16,
}

impl Text {
    /// Length of the new text in bytes.
    pub(crate) fn new_len(&self) -> usize {
        self.to_string().len()
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { address, port, .. } = self;
        let [high, low] = port.to_be_bytes();
        match self.form {
            Form::Numbers => write!(f, "{},{high},{low}", address.to_string().replace('.', ",")),
            Form::Extended(delimiter) => {
                let (d, version) = (char::from(delimiter), if address.is_ipv4() { 1 } else { 2 });
                write!(f, "{d}{version}{d}{address}{d}{port}{d}")
            }
            Form::Port(delimiter) => {
                let d = char::from(delimiter);
                write!(f, "{d}{d}{d}{port}{d}")
            }
        }
    }
}

/// The first line of a payload.
fn line(payload: &[u8]) -> Option<&str> {
    let end = payload.iter().position(|byte| *byte == b'\r' || *byte == b'\n')?;
    std::str::from_utf8(&payload[..end]).ok()
}

/// Start and length of the text `argument`, which begins at `at`, without spaces around it.
fn place(argument: &str, at: usize) -> (u16, u16) {
    let spaces = argument.len() - argument.trim_start().len();
    ((at + spaces) as u16, argument.trim().len() as u16)
}

/// Four numbers of an address and two of a port.
fn numbers(argument: &str, at: usize) -> Option<Message> {
    let mut parts = argument.trim().split(',').map(|part| part.parse::<u8>().ok());
    let mut next = || parts.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    let port = u16::from_be_bytes([next()?, next()?]);
    let message =
        Message { place: place(argument, at), form: Form::Numbers, address: Some(address.into()), port };
    (port != 0 && parts.next().is_none()).then_some(message)
}

/// Version, address and port between delimiters, the first of which is the first character (RFC 2428 section 2).
/// Version and address may be absent.
fn extended(argument: &str, at: usize) -> Option<Message> {
    let text = argument.trim();
    let delimiter = *text.as_bytes().first()?;
    let mut parts = text.get(1..)?.split(char::from(delimiter));
    let (version, address, port) = (parts.next()?, parts.next()?, parts.next()?);
    let port = port.parse().ok().filter(|port: &u16| *port != 0)?;
    let (form, address) = match (version, address) {
        ("", "") => (Form::Port(delimiter), None),
        ("1" | "2", address) => (Form::Extended(delimiter), Some(address.parse().ok()?)),
        _ => return None,
    };
    let is_over = parts.next() == Some("") && parts.next().is_none();
    is_over.then_some(Message { place: place(argument, at), form, address, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_client(text: &str) -> Option<(Option<IpAddr>, u16)> {
        Message::of_client(text.as_bytes()).map(|found| (found.address, found.port))
    }

    fn of_server(text: &str) -> Option<(Option<IpAddr>, u16)> {
        Message::of_server(text.as_bytes()).map(|found| (found.address, found.port))
    }

    #[test]
    fn commands_and_replies_are_read() {
        let v4 = Some(IpAddr::from([10, 0, 0, 1]));
        assert_eq!(of_client("PORT 10,0,0,1,4,1\r\n"), Some((v4, 1025)));
        assert_eq!(of_client("eprt |1|10.0.0.1|1025|\r\n"), Some((v4, 1025)));
        assert_eq!(of_client("EPRT |2|fe80::1|6446|\r\n"), Some(("fe80::1".parse().ok(), 6446)));
        assert_eq!(of_server("227 Entering Passive Mode (10,0,0,1,4,1).\r\n"), Some((v4, 1025)));
        assert_eq!(of_server("229 Entering Extended Passive Mode (|||6446|)\r\n"), Some((None, 6446)));
    }

    #[test]
    fn malformed_messages_announce_nothing() {
        for text in [
            "PORT 10,0,0,1,4,1",
            "PORT 10,0,0,1,4\r\n",
            "PORT 10,0,0,256,4,1\r\n",
            "PORT 10,0,0,1,4,1,9\r\n",
            "PORT 1,1,1,1,0,0\r\n",
            "EPRT |1|10.0.0.1|1025\r\n",
            "EPRT |3|10.0.0.1|1025|\r\n",
            "EPRT \u{e9}1\u{e9}10.0.0.1\u{e9}1025\u{e9}\r\n",
            "EPRT\r\n",
        ] {
            assert_eq!(of_client(text), None, "{text}");
        }
        for text in
            ["227 (1,2,3)\r\n", "229 (|||0|)\r\n", "229 ()\r\n", "200 (10,0,0,1,4,1)\r\n", "2\u{e9}9 ()\r\n"]
        {
            assert_eq!(of_server(text), None, "{text}");
        }
    }

    #[test]
    fn text_keeps_its_form() {
        let text = |line: &str, is_client, address: &str| {
            let of = if is_client { Message::of_client } else { Message::of_server };
            let found = of(line.as_bytes()).unwrap();
            let new = found.replaced(address.parse().unwrap(), 65_535).unwrap();
            let (at, len) = (usize::from(new.at), usize::from(new.len));
            assert_eq!(new.to_string().len(), new.new_len());
            [&line[..at], &new.to_string(), &line[at + len..]].concat()
        };
        assert_eq!(text("PORT  1,2,3,4,0,9 \r\n", true, "192.0.2.1"), "PORT  192,0,2,1,255,255 \r\n");
        assert_eq!(text("227 Hi (1,2,3,4,0,9).\r\n", false, "192.0.2.1"), "227 Hi (192,0,2,1,255,255).\r\n");
        assert_eq!(text("EPRT !1!1.2.3.4!9!\r\n", true, "192.0.2.1"), "EPRT !1!192.0.2.1!65535!\r\n");
        assert_eq!(text("EPRT |2|::9|9|\r\n", true, "2001:db8::1"), "EPRT |2|2001:db8::1|65535|\r\n");
        assert_eq!(text("229 Hi (|||9|)\r\n", false, "192.0.2.1"), "229 Hi (|||65535|)\r\n");
    }

    proptest! {
        #[test]
        fn text_is_read_back(bytes: [u8; 4], port in 1..=u16::MAX, is_extended: bool) {
            let address = IpAddr::from(bytes);
            let form = if is_extended { Form::Extended(b'|') } else { Form::Numbers };
            let text = Text { at: 0, len: 0, form, address, port }.to_string();
            let command = if is_extended { "EPRT" } else { "PORT" };
            let line = format!("{command} {text}\r\n");
            let place = (5, text.len() as u16);
            let expected = Message { place, form, address: Some(address), port };
            prop_assert_eq!(Message::of_client(line.as_bytes()), Some(expected));
        }

        #[test]
        fn no_payload_is_read_beyond_its_end(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for found in [Message::of_client(&bytes), Message::of_server(&bytes)].into_iter().flatten() {
                let (at, len) = (usize::from(found.place.0), usize::from(found.place.1));
                prop_assert!(at + len <= bytes.len());
            }
        }
    }
}
