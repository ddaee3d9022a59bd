//! Conditional requests (RFC 9110 section 13).

use super::entry::Facts;
use super::range::{Selected, select};
use super::request::Request;
use super::status::Status;
use std::time::{Duration, SystemTime};

/// Result of the preconditions and the range of a request for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Send(Selected),
    /// 304 or 412.
    Status(Status),
}

/// Evaluates the fields in the order of RFC 9110 section 13.2.2. `today` is the current time in whole seconds.
pub(super) fn evaluate(request: &Request<'_, '_>, facts: &Facts, today: SystemTime) -> Outcome {
    if !request.is_conditional {
        return Outcome::Send(Selected::Whole);
    }
    let failed = Outcome::Status(Status::PRECONDITION_FAILED);
    if request.values("if-match").next().is_some() {
        if !request.values("if-match").any(|list| matches(list, &facts.tag, false)) {
            return failed;
        }
    } else if date(request, "if-unmodified-since").is_some_and(|date| facts.modified > date) {
        return failed;
    }
    let is_known = if request.values("if-none-match").next().is_some() {
        request.values("if-none-match").any(|list| matches(list, &facts.tag, true))
    } else {
        date(request, "if-modified-since").is_some_and(|date| facts.modified <= date)
    };
    if is_known {
        return Outcome::Status(Status::NOT_MODIFIED);
    }
    let range = request.value("range").filter(|_| range_applies(request, facts, today));
    Outcome::Send(range.map_or(Selected::Whole, |range| select(range, facts.len)))
}

/// Evaluates `If-Range` (section 13.1.5). A date is a strong validator only a second later (section 8.8.2.2).
fn range_applies(request: &Request<'_, '_>, facts: &Facts, today: SystemTime) -> bool {
    let Some(value) = request.values("if-range").next() else { return true };
    if value.ends_with(b"\"") {
        return value == facts.tag.as_bytes();
    }
    let is_strong = facts.modified + Duration::from_secs(1) <= today;
    is_strong && parse_date(value) == Some(facts.modified)
}

/// Whether a list of entity tags has this one, which is strong. Only the weak comparison accepts weak ones.
fn matches(list: &[u8], tag: &str, is_weak: bool) -> bool {
    // No tag of this server has a comma, so a part of a foreign tag with one is not equal to it.
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|item| {
        let item = item.strip_prefix(b"W/").filter(|_| is_weak).unwrap_or(item);
        item == b"*" || item == tag.as_bytes()
    })
}

fn date(request: &Request<'_, '_>, name: &str) -> Option<SystemTime> {
    parse_date(request.value(name)?)
}

fn parse_date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(str::from_utf8(value).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::limits::MAX_FIELDS;
    use super::super::request::{Parsed, parse};
    use super::*;
    use std::mem::MaybeUninit;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    /// Status of a request with these fields for a file of ten bytes.
    fn status(fields: &[(&str, &str)]) -> u16 {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let facts = Facts { len: 10, modified: at, tag: "\"tag\"".into() };
        let lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let lines = lines.concat();
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let mut memory = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let Parsed::Request(request) = parse(head.as_bytes(), &mut memory) else { panic!("{head:?}") };
        match evaluate(&request, &facts, at + Duration::from_secs(100)) {
            Outcome::Status(status) => status.code,
            Outcome::Send(Selected::Whole) => 200,
            Outcome::Send(Selected::Part(_)) => 206,
            Outcome::Send(Selected::Unsatisfiable) => 416,
        }
    }

    #[test]
    fn preconditions_are_evaluated_in_their_order() {
        for (fields, code) in [
            (&[("If-None-Match", "\"tag\"")][..], 304),
            (&[("If-None-Match", "\"a\", W/\"tag\"")], 304),
            (&[("If-None-Match", "*")], 304),
            (&[("If-None-Match", "\"a\""), ("If-None-Match", "\"tag\"")], 304),
            (&[("If-None-Match", "\"a\""), ("If-Modified-Since", AT)], 200),
            (&[("If-Modified-Since", AT)], 304),
            (&[("If-Modified-Since", BEFORE)], 200),
            (&[("If-Modified-Since", "yesterday")], 200),
            (&[("If-Match", "\"tag\"")], 200),
            (&[("If-Match", "W/\"tag\"")], 412),
            (&[("If-Match", "\"a\"")], 412),
            (&[("If-Match", "\"tag\""), ("If-None-Match", "\"tag\"")], 304),
            (&[("If-Unmodified-Since", BEFORE)], 412),
            (&[("If-Unmodified-Since", AT)], 200),
            (&[("Range", "bytes=1-2")], 206),
            (&[("Range", "bytes=10-")], 416),
            (&[("Range", "bytes=1-2"), ("If-Range", "\"tag\"")], 206),
            (&[("Range", "bytes=1-2"), ("If-Range", "\"a\"")], 200),
            (&[("Range", "bytes=1-2"), ("If-Range", AT)], 206),
            (&[("Range", "bytes=1-2"), ("If-Range", BEFORE)], 200),
            (&[("Range", "bytes=1-2"), ("If-None-Match", "\"tag\"")], 304),
        ] {
            assert_eq!(status(fields), code, "{fields:?}");
        }
    }
}
