//! Arbitrary bytes as requests: head, content, path, conditions and ranges, in two arrivals.
//!
//! Invariants: the result does not depend on where the bytes are split, a path stays below the directory, and a range
//! lies in the file.

use super::conditional::{Outcome, evaluate};
use super::content::Discarded;
use super::entry::Facts;
use super::limits::{HttpLimits, MAX_FIELDS};
use super::path::resolve;
use super::range::Selected;
use super::request::{Content, Parsed, check_len, head_len, parse};
use std::mem::MaybeUninit;
use std::time::{Duration, SystemTime};

/// Runs a script: the place of the split, the length of the file, and the received bytes.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_request(script: &[u8]) {
    let [split, len, bytes @ ..] = script else { return };
    let split = usize::from(*split).min(bytes.len());
    let first = head_len(&bytes[..split], 0);
    let end = first.or_else(|| head_len(bytes, split));
    assert_eq!(end, head_len(bytes, 0));
    let limits = HttpLimits::default();
    if check_len(bytes, end, &limits).is_err() {
        return;
    }
    let Some((head, rest)) = end.and_then(|end| bytes.split_at_checked(end)) else { return };
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let Parsed::Request(request) = parse(head, &mut fields) else { return };
    let mut path = Vec::new();
    if resolve(request.target, &mut path).is_ok() {
        assert!(!path.is_empty() && !path.contains(&0) && path[0] != b'/');
        assert!(path.split(|byte| *byte == b'/').all(|part| part != b".."));
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let facts = Facts { len: u64::from(*len), modified, tag: "\"a\"".into() };
    if let Outcome::Send(Selected::Part(range)) = evaluate(&request, &facts, modified) {
        assert!(range.start < range.end && range.end <= facts.len);
    }
    content(request.content, rest, split, limits.content);
}

/// Discards content that arrives at once, and in two pieces.
fn content(content: Content, bytes: &[u8], split: usize, limit: u64) {
    let Some(mut whole) = Discarded::new(content, limit) else { return };
    let mut pieces = whole;
    let expected = whole.discard(bytes);
    let first = pieces.discard(&bytes[..split.min(bytes.len())]);
    let both = first.and_then(|n| pieces.discard(&bytes[n..]).map(|more| n + more));
    assert_eq!((both, pieces.is_complete()), (expected, whole.is_complete()));
}
