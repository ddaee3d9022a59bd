//! The other end of a connection: its name for the log, and whether it has all rights of the switch anyway.

use crate::socket_file;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::unix::UCred;

/// The client of a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    name: Arc<str>,
    /// Whether it is a process of root or of the user of the switch, which may open every file that the switch can.
    pub(super) is_trusted: bool,
    /// Whether the name is that of a verified certificate.
    pub(super) is_certified: bool,
    /// Whether it may only read.
    pub(super) is_reader: bool,
}

impl Peer {
    /// The switch itself, for requests without a client.
    pub(super) fn own() -> Self {
        Self { is_trusted: true, ..Self::remote("the switch".to_owned()) }
    }

    /// A client without rights on this machine.
    pub(super) fn remote(name: String) -> Self {
        Self { name: name.into(), is_trusted: false, is_certified: false, is_reader: false }
    }

    /// The process at the other end of a Unix socket, as the kernel knows it.
    pub(super) fn local(found: Option<&UCred>) -> Self {
        let own = rustix::process::geteuid().as_raw();
        let is_trusted = found.is_some_and(|peer| peer.uid() == 0 || peer.uid() == own);
        Self { is_trusted, ..Self::remote(socket_file::peer(found)) }
    }

    /// A client at `address` with a certificate of this subject.
    pub(super) fn certified(subject: &str, address: SocketAddr) -> Self {
        let remote = Self::remote(format!("certificate {subject}, {address}"));
        Self { is_certified: true, ..remote }
    }

    /// This client with the token called `name`.
    pub(super) fn named(&self, name: &str, is_reader: bool) -> Self {
        Self { name: format!("token {name}, {self}").into(), is_reader, ..self.clone() }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
