//! Status codes that the server sends (RFC 9110 section 15, RFC 6585 section 5).

/// A status code with its reason phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) reason: &'static str,
}

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal,)*) => {
        impl Status {
            $(pub(super) const $name: Self = Self { code: $code, reason: $reason };)*
        }
    };
}

statuses! {
    OK 200 "OK",
    NO_CONTENT 204 "No Content",
    PARTIAL_CONTENT 206 "Partial Content",
    MOVED 301 "Moved Permanently",
    NOT_MODIFIED 304 "Not Modified",
    BAD_REQUEST 400 "Bad Request",
    FORBIDDEN 403 "Forbidden",
    NOT_FOUND 404 "Not Found",
    METHOD_NOT_ALLOWED 405 "Method Not Allowed",
    REQUEST_TIMEOUT 408 "Request Timeout",
    PRECONDITION_FAILED 412 "Precondition Failed",
    CONTENT_TOO_LARGE 413 "Content Too Large",
    URI_TOO_LONG 414 "URI Too Long",
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable",
    EXPECTATION_FAILED 417 "Expectation Failed",
    FIELDS_TOO_LARGE 431 "Request Header Fields Too Large",
    INTERNAL 500 "Internal Server Error",
    NOT_IMPLEMENTED 501 "Not Implemented",
    UNAVAILABLE 503 "Service Unavailable",
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported",
}
