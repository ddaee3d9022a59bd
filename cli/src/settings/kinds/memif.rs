//! `kind = "memif"`: memory shared with one other process, such as VPP, DPDK or a libmemif application.

use super::claim::Claim;
use super::kind::{Kind, Loaded, OpenError, succeeding};
use super::socket::{Mode, SERVER, SocketSettings};
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key, optional, required};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::memif::{
    self as port_kind, MAX_RING_SIZE, MAX_SECRET, MIN_RING_SIZE, Options, Secret, is_abstract,
};
use ::port::virtio_user::MAX_MEMORY;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Instant;

const RING_SIZE: RangeInclusive<i128> = MIN_RING_SIZE as i128..=MAX_RING_SIZE as i128;
const BUFFER_SIZE: RangeInclusive<i128> = 128..=65_536;
/// Maximum length of an abstract socket name in bytes: `sun_path` without the leading zero.
const MAX_NAME: usize = 107;
const ID: RangeInclusive<i128> = 0..=u32::MAX as i128;

/// Settings of a memif port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memif {
    /// Interface number behind the socket.
    pub(crate) id: u32,
    /// Secret required from clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    /// Entries per ring.
    pub(crate) ring_size: u16,
    /// Bytes of one buffer.
    pub(crate) buffer_size: u32,
    #[serde(flatten)]
    pub(crate) socket: SocketSettings,
}

impl Kind for Memif {
    const NAME: &'static str = "memif";
    const ABOUT: &'static str = "memif: memory shared with another process, such as VPP or DPDK";
    const KEYS: &'static [Key] = &[
        required("socket", "Absolute path of the Unix socket, or `@name` for an abstract socket."),
        SERVER,
        key("id", "0", "Number of the interface behind the socket, the same at both ends."),
        optional("secret", "none", "Secret of at most 24 bytes that both ends must have."),
        key("ring_size", "1024", "Entries per ring, a power of two."),
        key("buffer_size", "2048", "Bytes per buffer, in client mode."),
        Access::MODE,
        Access::OWNER,
        Access::GROUP,
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "socket = \"/tmp/lr-memif.sock\"",
        "socket = \"@lr-memif\"",
        "socket = \"/tmp/lr-memif.sock\"\nmode = \"client\"\nid = 7\nsecret = \"abc\"\nring_size = 256\nbuffer_size = 4096",
        "socket = \"/tmp/lr-memif.sock\"\nsocket_mode = \"0660\"\nsocket_owner = \"root\"\nsocket_group = \"root\"",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let default = Options::default();
        let id = fields.number("id", ID, "").unwrap_or(default.id);
        let secret = fields.text("secret").map(str::to_owned);
        if secret.as_deref().is_some_and(|words| Secret::new(words).is_none()) {
            let reason = format!("invalid `secret`: expected 1 to {MAX_SECRET} bytes without zero bytes");
            fields.wrong::<()>("secret", reason, "choose another secret".into());
        }
        let ring_size: u16 = fields.number("ring_size", RING_SIZE, "entries").unwrap_or(default.ring_size);
        if !ring_size.is_power_of_two() {
            let above = ring_size.next_power_of_two();
            let reason = format!("`ring_size` is {ring_size}, which is not a power of two");
            fields.wrong::<()>("ring_size", reason, format!("write {} or {above}", above / 2));
        }
        let buffer_size = fields.number("buffer_size", BUFFER_SIZE, "bytes").unwrap_or(default.buffer_size);
        Self { id, secret, ring_size, buffer_size, socket: SocketSettings::read(fields, Mode::Server) }
    }

    /// Checks the total memory: a client allocates its rings and buffers at once.
    fn validate(&self, validation: &mut Validation<'_>) {
        if is_abstract(&self.socket.path) {
            validate_name(validation, &self.socket.path);
            self.socket.access.validate(validation, false);
        } else {
            self.socket.validate(validation);
        }
        validation.no_mtu();
        let bytes = self.options(validation.port()).memory();
        SocketSettings::validate_memory(
            validation,
            bytes,
            MAX_MEMORY,
            "lower `queue_pairs`, `ring_size` or `buffer_size`",
        );
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        if is_abstract(&self.socket.path) {
            return vec![Claim::named("socket", "abstract socket", self.socket.place())];
        }
        self.socket.claims()
    }

    fn access_mut(&mut self) -> Option<&mut Access> {
        self.socket.access_mut()
    }

    fn socket(&self) -> Option<(&Path, bool)> {
        self.socket.file()
    }

    fn place(&self) -> String {
        self.socket.place()
    }

    fn successor(&self, port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
        let is_server = self.socket.mode == Mode::Server;
        Some(succeeding(
            port.name,
            port_kind::Memif::successor(&self.socket.path, is_server, self.options(port)),
        ))
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let options = self.options(port);
        let made = match self.socket.mode {
            Mode::Server => port_kind::Memif::listen(&self.socket.path, options),
            Mode::Client => port_kind::Memif::connect(&self.socket.path, options, Instant::now()),
        };
        self.socket.opened(port.name, made)
    }
}

/// Validates a name in the abstract namespace, without its `@`.
fn validate_name(validation: &mut Validation<'_>, path: &Path) {
    let name = &path.as_os_str().as_encoded_bytes()[1..];
    if name.is_empty() || name.len() > MAX_NAME || name.contains(&0) {
        let reason = format!("`socket` {} is not a valid abstract socket name", path.display());
        validation.wrong("socket", reason, format!("write @ and 1 to {MAX_NAME} bytes without zero bytes"));
    }
}

impl Memif {
    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Options {
        Options {
            id: self.id,
            secret: self.secret.as_deref().and_then(Secret::new),
            queue_pairs: port.queue_pairs,
            ring_size: self.ring_size,
            buffer_size: self.buffer_size,
        }
    }
}

impl fmt::Display for Memif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, interface {}, rings of {}", self.socket, self.id, self.ring_size)
    }
}
