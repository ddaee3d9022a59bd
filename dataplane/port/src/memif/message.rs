//! Messages of the memif control channel and their encoding.
//!
//! Each is one packet of 128 bytes on a `SOCK_SEQPACKET` socket: a type and, from the third byte on, packed fields in
//! native byte order, since both ends run on the same machine (libmemif's `memif.h`, protocol version 2.0). Bytes
//! after a message's fields are ignored. This module does no I/O and does not validate values: each value that fits
//! its field is accepted.

/// Size of every message in bytes.
pub(super) const BYTES: usize = 128;
/// `MEMIF_VERSION`: major 2, minor 0.
pub(super) const VERSION: u16 = 2 << 8;
/// Size of a secret in bytes.
pub const MAX_SECRET: usize = 24;
/// `MEMIF_MSG_ADD_RING_FLAG_S2M`: ring from client to server.
const TO_SERVER: u16 = 1;
const NAME: usize = 32;
const REASON: usize = 96;

/// A name in a message: shorter names are padded with zeros, longer ones truncated.
pub(super) type Name = [u8; NAME];

/// Error of a malformed message. The connection must not be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    /// The size is not that of a message.
    #[error("a message of {0} bytes, not {BYTES}")]
    Size(usize),
    /// Unknown type in version 2.0.
    #[error("a message of the unknown type {0}")]
    Type(u16),
}

/// Limits of a server. The limits for rings and regions are maximum indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: Name,
    pub(super) min_version: u16,
    pub(super) max_version: u16,
    pub(super) max_region: u16,
    /// Rings from server to client.
    pub(super) max_to_client: u16,
    pub(super) max_to_server: u16,
    pub(super) max_log2_ring_size: u8,
}

/// Interface requested by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Init {
    pub(super) version: u16,
    pub(super) id: u32,
    /// 0 is Ethernet.
    pub(super) mode: u8,
    pub(super) secret: [u8; MAX_SECRET],
    pub(super) name: Name,
}

/// A ring. Its eventfd is attached to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddRing {
    pub(super) to_server: bool,
    pub(super) index: u16,
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2_size: u8,
    pub(super) private_header: u16,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    /// Index and size in bytes; the file is attached.
    AddRegion(u16, u64),
    AddRing(AddRing),
    /// The client's description is complete.
    Connect(Name),
    /// The server has taken over all rings.
    Connected(Name),
    /// An error code and a reason as text.
    Disconnect(u32, [u8; REASON]),
}

/// Content of a zero-padded text field, for display.
pub(super) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).chars().filter(|c| !c.is_control()).collect()
}

/// Encodes `text` in a field of `N` bytes: truncated if too long, always zero-terminated.
pub(super) fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let n = text.len().min(N - 1);
    field[..n].copy_from_slice(&text.as_bytes()[..n]);
    field
}

impl Message {
    /// Name in the protocol.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion(..) => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect(_) => "CONNECT",
            Message::Connected(_) => "CONNECTED",
            Message::Disconnect(..) => "DISCONNECT",
        }
    }

    /// The disconnect message with this reason.
    pub(super) fn disconnect(reason: &str) -> Self {
        Message::Disconnect(0, field(reason))
    }

    /// Decodes a message.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() != BYTES {
            return Err(MessageError::Size(bytes.len()));
        }
        let mut from = Reader(bytes);
        Ok(match from.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: from.bytes(),
                min_version: from.u16(),
                max_version: from.u16(),
                max_region: from.u16(),
                max_to_client: from.u16(),
                max_to_server: from.u16(),
                max_log2_ring_size: from.u8(),
            }),
            3 => Message::Init(Init {
                version: from.u16(),
                id: from.u32(),
                mode: from.u8(),
                secret: from.bytes(),
                name: from.bytes(),
            }),
            4 => Message::AddRegion(from.u16(), from.u64()),
            5 => Message::AddRing(AddRing {
                to_server: from.u16() & TO_SERVER != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_size: from.u8(),
                private_header: from.u16(),
            }),
            6 => Message::Connect(from.bytes()),
            7 => Message::Connected(from.bytes()),
            8 => Message::Disconnect(from.u32(), from.bytes()),
            unknown => return Err(MessageError::Type(unknown)),
        })
    }

    /// Encodes a message.
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut to = Writer { bytes: [0; BYTES], at: 0 };
        to.u16(self.number());
        match self {
            Message::Ack => {}
            Message::Hello(hello) => hello.encode(&mut to),
            Message::Init(init) => init.encode(&mut to),
            Message::AddRegion(index, size) => {
                to.u16(*index);
                to.u64(*size);
            }
            Message::AddRing(ring) => ring.encode(&mut to),
            Message::Connect(name) | Message::Connected(name) => to.bytes(name),
            Message::Disconnect(code, reason) => {
                to.u32(*code);
                to.bytes(reason);
            }
        }
        to.bytes
    }

    /// Number of the type.
    fn number(&self) -> u16 {
        match self {
            Message::Ack => 1,
            Message::Hello(_) => 2,
            Message::Init(_) => 3,
            Message::AddRegion(..) => 4,
            Message::AddRing(_) => 5,
            Message::Connect(_) => 6,
            Message::Connected(_) => 7,
            Message::Disconnect(..) => 8,
        }
    }
}

impl Hello {
    fn encode(&self, to: &mut Writer) {
        to.bytes(&self.name);
        to.u16(self.min_version);
        to.u16(self.max_version);
        to.u16(self.max_region);
        to.u16(self.max_to_client);
        to.u16(self.max_to_server);
        to.u8(self.max_log2_ring_size);
    }
}

impl Init {
    fn encode(&self, to: &mut Writer) {
        to.u16(self.version);
        to.u32(self.id);
        to.u8(self.mode);
        to.bytes(&self.secret);
        to.bytes(&self.name);
    }
}

impl AddRing {
    fn encode(&self, to: &mut Writer) {
        to.u16(if self.to_server { TO_SERVER } else { 0 });
        to.u16(self.index);
        to.u16(self.region);
        to.u32(self.offset);
        to.u8(self.log2_size);
        to.u16(self.private_header);
    }
}

/// Reads consecutive fields. The size was checked before, and no message has more.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let n = N.min(self.0.len());
        field[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        field
    }

    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.bytes())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.bytes())
    }
}

/// Writes consecutive fields. No message has more than fit.
struct Writer {
    bytes: [u8; BYTES],
    at: usize,
}

impl Writer {
    fn bytes(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn u8(&mut self, number: u8) {
        self.bytes(&[number]);
    }

    fn u16(&mut self, number: u16) {
        self.bytes(&number.to_ne_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.bytes(&number.to_ne_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.bytes(&number.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn field_offsets_match_the_protocol() {
        let hello = Message::Hello(Hello {
            name: field("x"),
            min_version: 0x200,
            max_version: 0x201,
            max_region: 3,
            max_to_client: 4,
            max_to_server: 5,
            max_log2_ring_size: 6,
        });
        let bytes = hello.encode();
        assert_eq!(bytes[..3], [2, 0, b'x']);
        assert_eq!(bytes[34..46], [0, 2, 1, 2, 3, 0, 4, 0, 5, 0, 6, 0]);
        let init =
            Init { version: VERSION, id: 7, mode: 0, secret: field("secret"), name: field("client-a") };
        let bytes = Message::Init(init).encode();
        assert_eq!(bytes[..9], [3, 0, 0, 2, 7, 0, 0, 0, 0]);
        assert_eq!((&bytes[9..15], &bytes[33..41]), (&b"secret"[..], &b"client-a"[..]));
        let ring = AddRing {
            to_server: true,
            index: 2,
            region: 3,
            offset: 0x0403_0201,
            log2_size: 10,
            private_header: 0,
        };
        let bytes = Message::AddRing(ring).encode();
        assert_eq!(bytes[..15], [5, 0, 1, 0, 2, 0, 3, 0, 1, 2, 3, 4, 10, 0, 0]);
        let bytes = Message::AddRegion(1, 0x1000).encode();
        assert_eq!(bytes[..12], [4, 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::disconnect("why").encode()[..9], [8, 0, 0, 0, 0, 0, b'w', b'h', b'y']);
    }

    #[test]
    fn invalid_message_is_rejected() {
        assert_eq!(Message::decode(&[1; 127]), Err(MessageError::Size(127)));
        assert_eq!(Message::decode(&[]), Err(MessageError::Size(0)));
        let unknown = |kind: u16| {
            let mut bytes = [0; BYTES];
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            Message::decode(&bytes)
        };
        for kind in [0, 9, 256, u16::MAX] {
            assert_eq!(unknown(kind), Err(MessageError::Type(kind)));
        }
    }

    #[test]
    fn text_fields_end_at_nul_and_drop_control_characters() {
        assert_eq!(text(b"ab\x1b[1m\0cd"), "ab[1m");
        assert_eq!(text(&field::<8>("longer than it")), "longer ");
    }

    proptest! {
        #[test]
        fn messages_round_trip(kind in 0_u16..10, rest in prop::collection::vec(any::<u8>(), BYTES - 2)) {
            let bytes: Vec<u8> = kind.to_ne_bytes().into_iter().chain(rest).collect();
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
                prop_assert_eq!(&message.encode()[..2], &bytes[..2]);
            }
        }

        #[test]
        fn arbitrary_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Message::decode(&bytes).is_ok(), bytes.len() == BYTES && (1..=8).contains(&bytes[0]) && bytes[1] == 0);
        }
    }
}
