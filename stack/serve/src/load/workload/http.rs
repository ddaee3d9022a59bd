//! HTTP/1.1 `GET` requests over persistent connections (RFC 9112).

use super::super::input::{Framing, Input, Reply, WrongReply};
use super::Workload;
use host::Buffer;
use httparse::{Header, Status};
use stack::Slice;

/// Longest head of a reply in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Most header fields of a reply.
const MAX_FIELDS: usize = 100;
/// Longest line between chunks in bytes.
const MAX_LINE: usize = 1024;
/// Bytes of a head that are copied at first; most heads are shorter.
const FIRST: usize = 512;

const HEAD: u8 = 0;
/// Bytes of a known number.
const BODY: u8 = 1;
/// Bytes until the server closes.
const REST: u8 = 2;
const CHUNK_SIZE: u8 = 3;
const CHUNK: u8 = 4;
const CHUNK_END: u8 = 5;
const TRAILER: u8 = 6;
const STAGE: u8 = 7;
/// Bit of a stage: the server closes the connection behind the reply.
const LAST: u8 = 8;
/// Bit of a stage: the status is an error.
const ERROR: u8 = 16;

/// A request that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpLoadError {
    /// No path is given.
    #[error("no path")]
    NoPath,
    /// A path does not begin with a slash, or contains a space or a character outside of ASCII.
    #[error("invalid path {0:?}: expected / and printable ASCII characters without spaces")]
    Path(String),
    /// The host name has a character that a header field cannot have.
    #[error("invalid host name {0:?}: expected printable ASCII characters without spaces")]
    Host(String),
}

/// `GET` requests for one path after the other.
#[derive(Debug)]
pub struct HttpLoad {
    requests: Vec<Slice<Buffer>>,
    next: usize,
}

impl HttpLoad {
    /// Requests for these paths in turn, with `host` as `Host` field.
    ///
    /// # Errors
    /// If a path or the host is not valid in a request.
    pub fn new(host: &str, paths: &[String]) -> Result<Self, HttpLoadError> {
        let is_printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !is_printable(host) {
            return Err(HttpLoadError::Host(host.to_owned()));
        }
        if let Some(wrong) = paths.iter().find(|path| !path.starts_with('/') || !is_printable(path)) {
            return Err(HttpLoadError::Path(wrong.clone()));
        }
        let request = |path: &String| {
            let text =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: linerate\r\nAccept: */*\r\n\r\n");
            Slice::new(Buffer::from(text.into_bytes())).summed()
        };
        let requests: Vec<_> = paths.iter().map(request).collect();
        if requests.is_empty() { Err(HttpLoadError::NoPath) } else { Ok(Self { requests, next: 0 }) }
    }
}

/// Body of a reply and what follows it, by its head (RFC 9112 sections 6.3 and 9.3).
fn framing(code: u16, version: u8, fields: &[Header<'_>]) -> Result<Framing, WrongReply> {
    let values = |name: &'static str| {
        fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    };
    let has = |name, token: &[u8]| {
        let is_token = |word: &[u8]| word.trim_ascii().eq_ignore_ascii_case(token);
        values(name).any(|value| value.split(|byte| *byte == b',').any(is_token))
    };
    let is_last = has("connection", b"close") || version == 0 && !has("connection", b"keep-alive");
    let bits = if is_last { LAST } else { 0 } | if code >= 400 { ERROR } else { 0 };
    if code == 204 || code == 304 {
        return Ok(Framing::at(BODY | bits));
    }
    if values("transfer-encoding").next().is_some() {
        let stage = if has("transfer-encoding", b"chunked") { CHUNK_SIZE } else { REST };
        return Ok(Framing::at(stage | bits));
    }
    let Some(length) = values("content-length").next() else { return Ok(Framing::at(REST | bits)) };
    let length = std::str::from_utf8(length.trim_ascii()).ok().filter(|text| !text.starts_with('+'));
    let length =
        length.and_then(|text| text.parse().ok()).ok_or(WrongReply::new("invalid Content-Length", 0))?;
    Framing::new(BODY | bits, length)
}

/// Reads a head. Returns `None` if it is not complete. The head of an informational status is passed.
fn head(input: &mut Input<'_>) -> Result<Option<Framing>, WrongReply> {
    let mut most = FIRST;
    while !input.is_empty() {
        input.collect(most);
        most *= 4;
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let parsed = response.parse(input.text()).map_err(|_| WrongReply::new("invalid head", 0))?;
        match (parsed, response.code, response.version) {
            (Status::Complete(len), Some(code), Some(version)) => {
                let found = framing(code, version, response.headers)?;
                input.keep_text(len);
                input.clear_text();
                // RFC 9110 section 15.2: any number of them precede the final one.
                if !(100..200).contains(&code) {
                    return Ok(Some(found));
                }
                most = FIRST;
            }
            _ if input.text().len() > MAX_HEAD => {
                return Err(WrongReply::new("head too long", MAX_HEAD as u64));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Reads the line with the size of a chunk. Returns `None` if it is not complete.
fn chunk_size(input: &mut Input<'_>) -> Result<Option<u64>, WrongReply> {
    if !input.line(MAX_LINE)? {
        return Ok(None);
    }
    let Ok(Status::Complete((_, size))) = httparse::parse_chunk_size(input.text()) else {
        return Err(WrongReply::new("invalid size of a chunk", 0));
    };
    input.clear_text();
    Ok(Some(size))
}

/// Reads the end of a chunk. Returns whether it is complete.
fn chunk_end(input: &mut Input<'_>) -> Result<bool, WrongReply> {
    if !input.line(2)? {
        return Ok(false);
    }
    if input.text() != b"\r\n" {
        return Err(WrongReply::new("chunk does not end with CR LF", 0));
    }
    input.clear_text();
    Ok(true)
}

/// Reads lines up to and including an empty one. Returns whether it was found.
fn trailer(input: &mut Input<'_>) -> Result<bool, WrongReply> {
    while input.line(MAX_LINE)? {
        let is_empty = matches!(input.text(), b"\r\n" | b"\n");
        input.clear_text();
        if is_empty {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Workload for HttpLoad {
    #[inline]
    fn request(&mut self, send: &mut impl FnMut(Slice<Buffer>)) -> u32 {
        send(self.requests[self.next].clone());
        let sent = self.next;
        self.next = (sent + 1) % self.requests.len();
        sent as u32
    }

    fn longest(&self) -> usize {
        self.requests.iter().map(Slice::len).max().unwrap_or(0)
    }

    fn reply(
        &self,
        framing: &mut Framing,
        _tag: u32,
        input: &mut Input<'_>,
    ) -> Result<Option<Reply>, WrongReply> {
        loop {
            let bits = framing.stage() & !STAGE;
            let reply = Reply { is_error: bits & ERROR != 0, is_last: bits & LAST != 0, is_miss: false };
            match framing.stage() & STAGE {
                HEAD => match head(input)? {
                    Some(found) => *framing = found,
                    None => return Ok(None),
                },
                CHUNK_SIZE => match chunk_size(input)? {
                    Some(0) => *framing = Framing::at(TRAILER | bits),
                    Some(size) => *framing = Framing::new(CHUNK | bits, size)?,
                    None => return Ok(None),
                },
                CHUNK_END if !chunk_end(input)? => return Ok(None),
                CHUNK_END => *framing = Framing::at(CHUNK_SIZE | bits),
                TRAILER => return Ok(trailer(input)?.then_some(reply)),
                REST => {
                    input.skip(u64::MAX);
                    return Ok(None);
                }
                stage => {
                    let passed = input.skip(framing.left());
                    framing.pass(passed);
                    match (stage, framing.left()) {
                        (BODY, 0) => return Ok(Some(reply)),
                        (_, 0) => *framing = Framing::at(CHUNK_END | bits),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn end(&self, framing: Framing) -> Option<Reply> {
        let is_error = framing.stage() & ERROR != 0;
        (framing.stage() & STAGE == REST).then_some(Reply { is_error, is_last: true, is_miss: false })
    }
}
