//! Fuzzing of the replies of a server. Tests replay the corpus.

use super::input::{Framing, Input, Reply, WrongReply};
use super::{HttpLoad, Keys, KvLoad, KvOptions, Workload};
use stack::Slice;

/// Requests whose replies a script has.
const TAGS: [u32; 4] = [3, 5, 1 << 31, 3];

/// Replies to requests with these tags from pieces of these lengths, and the bytes after them that do not belong to
/// one.
pub(super) fn read<W: Workload>(
    workload: &W,
    tags: &[u32],
    bytes: &[u8],
    mut pieces: impl Iterator<Item = usize>,
) -> Result<(Vec<Reply>, usize, Framing), WrongReply> {
    let (mut framing, mut text, mut replies, mut rest) = (Framing::default(), Vec::new(), Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(pieces.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
        let data = Slice::new(piece.to_vec().into());
        let mut input = Input::new(&data, &mut text);
        while !input.is_empty() {
            let Some(tag) = tags.get(replies.len()) else {
                return Ok((replies, input.len() + after.len(), framing));
            };
            if let Some(reply) = workload.reply(&mut framing, *tag, &mut input)? {
                replies.push(reply);
                framing = Framing::default();
                assert!(input.text().is_empty(), "text of a complete reply is left");
            }
        }
        rest = after;
    }
    Ok((replies, 0, framing))
}

/// Reads a script as replies, once as a whole and once in pieces: both must be read the same. The first byte is the
/// workload, the second one the length of the pieces.
pub fn fuzz_replies(script: &[u8]) {
    let [kind, piece, bytes @ ..] = script else { return };
    let pieces = std::iter::repeat(usize::from(*piece) + 1);
    let (whole, parts) = if kind % 2 == 0 {
        let Ok(http) = HttpLoad::new("a", &["/".to_owned()]) else { return };
        (read(&http, &TAGS, bytes, std::iter::empty()), read(&http, &TAGS, bytes, pieces))
    } else {
        let kv = KvLoad::new(KvOptions {
            keys: 8,
            distribution: Keys::Uniform,
            value_size: 20,
            gets: 1.0,
            fill: false,
            seed: 1,
        });
        (read(&kv, &TAGS, bytes, std::iter::empty()), read(&kv, &TAGS, bytes, pieces))
    };
    // Where a head is found too long depends on the pieces; the rest of the segment is not read then.
    let is_long =
        |read: &Result<_, WrongReply>| read.as_ref().is_err_and(|wrong| wrong.what == "head too long");
    if !is_long(&whole) && !is_long(&parts) {
        let replies =
            |read: Result<(Vec<Reply>, usize, Framing), WrongReply>| read.map(|(replies, ..)| replies);
        assert_eq!(replies(whole), replies(parts));
    }
}
