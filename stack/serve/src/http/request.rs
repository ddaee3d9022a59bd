//! The head of a request (RFC 9112 sections 2 to 6): validated, borrowed from the received bytes.

use super::limits::{HttpLimits, MAX_FIELDS};
use super::status::Status;
use httparse::Header;
use std::mem::MaybeUninit;

/// Memory for the fields of one head.
pub(super) type Fields<'a> = [MaybeUninit<Header<'a>>; MAX_FIELDS];

/// A method (RFC 9110 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Options,
    /// Known, but not for files.
    Refused,
    Unknown,
}

/// Content of a request that follows its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// This number of bytes.
    Length(u64),
    Chunked,
}

impl Content {
    pub(super) const NONE: Self = Self::Length(0);
}

/// A request.
#[derive(Debug)]
pub(super) struct Request<'f, 'b> {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: &'b str,
    /// Minor version of HTTP/1.
    pub(super) minor: u8,
    /// Whether the connection continues after the response.
    pub(super) is_persistent: bool,
    pub(super) content: Content,
    /// `Expect`: `Some(true)` for 100-continue.
    pub(super) expects: Option<bool>,
    /// Whether there are fields that the response depends on.
    pub(super) is_conditional: bool,
    fields: &'f [Header<'b>],
}

/// Result of parsing.
#[derive(Debug)]
pub(super) enum Parsed<'f, 'b> {
    /// The end of the head is missing.
    Partial,
    Invalid(Status),
    Request(Request<'f, 'b>),
}

/// Bytes up to and with the empty line that ends a head; `from` is where a former search ended. A line may end with LF
/// alone (RFC 9112 section 2.2).
pub(super) fn head_len(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(2);
    memchr::memchr_iter(b'\n', bytes.get(from..)?).map(|at| from + at + 1).find_map(|after| {
        let rest = bytes.get(after..)?;
        let empty = if rest.starts_with(b"\r\n") { 2 } else { usize::from(rest.starts_with(b"\n")) };
        (empty > 0).then_some(after + empty)
    })
}

/// Validates the lengths of a head of which `bytes` have arrived. `end` is its length, if it is complete.
pub(super) fn check_len(bytes: &[u8], end: Option<usize>, limits: &HttpLimits) -> Result<(), Status> {
    let is_long = |limit: usize| bytes.len() > limit;
    if is_long(limits.line) && memchr::memchr(b'\n', &bytes[..limits.line]).is_none() {
        return Err(Status::URI_TOO_LONG);
    }
    if end.map_or_else(|| is_long(limits.head), |end| end > limits.head) {
        return Err(Status::FIELDS_TOO_LARGE);
    }
    Ok(())
}

/// Parses a complete head.
pub(super) fn parse<'f, 'b>(head: &'b [u8], fields: &'f mut Fields<'b>) -> Parsed<'f, 'b> {
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(head, fields) {
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Parsed::Invalid(Status::FIELDS_TOO_LARGE),
        Err(httparse::Error::Version) if has_other_version(head) => {
            return Parsed::Invalid(Status::VERSION_NOT_SUPPORTED);
        }
        Err(_) => return Parsed::Invalid(Status::BAD_REQUEST),
    }
    let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    let minor = parsed.version.unwrap_or_default();
    match validate(method, target, minor, parsed.headers) {
        Ok(request) => Parsed::Request(request),
        Err(status) => Parsed::Invalid(status),
    }
}

/// Whether the request line ends with a well-formed version.
fn has_other_version(head: &[u8]) -> bool {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).find(|line| !line.is_empty());
    let version = line.and_then(|line| line.rsplit(|byte| *byte == b' ').next());
    matches!(version, Some([b'H', b'T', b'T', b'P', b'/', a, b'.', b])
        if a.is_ascii_digit() && b.is_ascii_digit())
}

fn validate<'f, 'b>(
    name: &str,
    target: &'b str,
    minor: u8,
    fields: &'f [Header<'b>],
) -> Result<Request<'f, 'b>, Status> {
    let method = method(name);
    let mut request = Request {
        method,
        target: origin_form(target, method)?,
        minor,
        is_persistent: minor == 1,
        content: Content::NONE,
        expects: None,
        is_conditional: false,
        fields,
    };
    let mut framing = Framing::default();
    for field in fields {
        framing.add(field)?;
        request.note(field);
    }
    request.content = framing.content(minor)?;
    Ok(request)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Method::Refused,
        _ => Method::Unknown,
    }
}

/// Fields of which a second one is an error, or that must be there.
#[derive(Default)]
struct Framing {
    hosts: usize,
    length: Option<u64>,
    is_chunked: Option<bool>,
}

impl Framing {
    fn add(&mut self, field: &Header<'_>) -> Result<(), Status> {
        match field.name.len() {
            4 if field.name.eq_ignore_ascii_case("host") => {
                self.hosts += 1;
                check_host(field.value)
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let value = content_length(field.value)?;
                let is_other = self.length.replace(value).is_some_and(|other| other != value);
                if is_other { Err(Status::BAD_REQUEST) } else { Ok(()) }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                let is_chunked = field.value.eq_ignore_ascii_case(b"chunked");
                let is_second = self.is_chunked.replace(is_chunked).is_some();
                if is_second { Err(Status::NOT_IMPLEMENTED) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn content(&self, minor: u8) -> Result<Content, Status> {
        if self.hosts > 1 || minor == 1 && self.hosts == 0 {
            return Err(Status::BAD_REQUEST);
        }
        content(self.length, self.is_chunked, minor)
    }
}

/// Fields that [`super::conditional`] and [`super::range`] read.
fn is_condition(name: &str) -> bool {
    ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Length of the content (RFC 9112 section 6.3). Both fields together are refused, as an attempt at request smuggling.
fn content(length: Option<u64>, coding: Option<bool>, minor: u8) -> Result<Content, Status> {
    match (length, coding) {
        (length, None) => Ok(Content::Length(length.unwrap_or(0))),
        (Some(_), Some(_)) => Err(Status::BAD_REQUEST),
        (None, Some(_)) if minor == 0 => Err(Status::BAD_REQUEST),
        (None, Some(true)) => Ok(Content::Chunked),
        (None, Some(false)) => Err(Status::NOT_IMPLEMENTED),
    }
}

/// Path and query of a target in origin form, absolute form, or `*` (RFC 9112 section 3.2).
fn origin_form(target: &str, method: Method) -> Result<&str, Status> {
    if target.starts_with('/') || method == Method::Unknown || method == Method::Refused {
        return Ok(target);
    }
    if target == "*" && method == Method::Options {
        return Ok("/");
    }
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = scheme.and_then(|_| target.get(7..)).ok_or(Status::BAD_REQUEST)?;
    Ok(rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"))
}

/// Validates the characters of a host and port (RFC 3986 section 3.2.2).
fn check_host(value: &[u8]) -> Result<(), Status> {
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte);
    if value.iter().all(is_valid) { Ok(()) } else { Err(Status::BAD_REQUEST) }
}

fn content_length(value: &[u8]) -> Result<u64, Status> {
    let digits = value.iter().all(u8::is_ascii_digit).then(|| str::from_utf8(value).ok()).flatten();
    digits.and_then(|digits| digits.parse().ok()).ok_or(Status::BAD_REQUEST)
}

impl<'b> Request<'_, 'b> {
    /// Notes a field that changes how the request is handled.
    fn note(&mut self, field: &Header<'b>) {
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => self.connection(field.value),
            6 if field.name.eq_ignore_ascii_case("expect") => {
                self.expects = Some(field.value.eq_ignore_ascii_case(b"100-continue"));
            }
            5 | 8 | 13 | 17 | 19 => self.is_conditional |= is_condition(field.name),
            _ => {}
        }
    }

    /// Evaluates the options of a `Connection` field (RFC 9112 section 9.3).
    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.is_persistent = false;
            } else if option.eq_ignore_ascii_case(b"keep-alive") && !self.closes() {
                self.is_persistent = true;
            }
        }
    }

    /// Whether a `Connection` field has `close`, which has precedence.
    fn closes(&self) -> bool {
        let mut options = self.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    }

    /// Values of all fields of a name, in lower case.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// Value of a field that occurs once. Several are as none.
    pub(super) fn value(&self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.values(name);
        values.next().filter(|_| values.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(head: &str, check: impl FnOnce(Parsed<'_, '_>) -> R) -> R {
        check(parse(head.as_bytes(), &mut [const { MaybeUninit::uninit() }; MAX_FIELDS]))
    }

    fn status(head: &str) -> u16 {
        with(head, |parsed| match parsed {
            Parsed::Partial => 0,
            Parsed::Invalid(status) => status.code,
            Parsed::Request(_) => 200,
        })
    }

    #[test]
    fn invalid_heads_have_their_status() {
        for (head, code) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET / HTTP/1.1\nhost:a\n\n", 200),
            ("GET / HTTP/1.0\r\n\r\n", 200),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("GET / FTP/2.0\r\nHost: a\r\n\r\n", 400),
            ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n", 400),
        ] {
            assert_eq!(status(head), code, "{head:?}");
        }
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(64))), 431);
    }

    #[test]
    fn persistence_follows_version_and_options() {
        for (version, fields, expected) in [
            ("1.1", "", true),
            ("1.1", "Connection: close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive, close\r\n", false),
            ("1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
        ] {
            let head = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
            with(&head, |parsed| {
                let Parsed::Request(request) = parsed else { panic!("{head:?}") };
                assert_eq!(request.is_persistent, expected, "{head:?}");
            });
        }
    }

    #[test]
    fn end_of_a_head_is_found_from_every_resumption() {
        for (bytes, end) in [("a\r\n\r\nrest", 5), ("a\n\nrest", 3), ("a\r\n\nrest", 4), ("a\n\r\nrest", 4)] {
            for from in 0..end {
                assert_eq!(head_len(&bytes.as_bytes()[..end], from), Some(end), "{bytes:?} from {from}");
                assert_eq!(head_len(&bytes.as_bytes()[..end - 1], from), None);
            }
        }
    }
}
