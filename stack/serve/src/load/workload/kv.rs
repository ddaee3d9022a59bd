//! The text protocol of memcached: `get` and `set`.

use super::super::input::{Framing, Input, Reply, WrongReply};
use super::Workload;
use super::pattern::Pattern;
use fastrand::Rng;
use host::Buffer;
use rand::SeedableRng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Zipf;
use stack::Slice;
use std::ops::Range;
use std::sync::Arc;

const LINE: u8 = 0;
const VALUE: u8 = 1;
const TAIL: u8 = 2;

/// Longest line of a reply in bytes: key of 250 bytes, numbers, and an error message.
const MAX_LINE: usize = 1024;
/// End of a reply with a value.
const END: &[u8] = b"\r\nEND\r\n";
/// Bit of a tag for `set`; the others are the key's number.
const SET: u32 = 1 << 31;

/// Distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// All keys are equally frequent.
    Uniform,
    /// Key number n has a frequency proportional to n to the power of minus this exponent, which is positive.
    Zipf(f64),
}

/// Settings of [`KvLoad`].
#[derive(Clone, Copy, Debug)]
pub struct KvOptions {
    /// Number of keys: 1 to 2^24.
    pub keys: u32,
    /// Distribution of keys.
    pub distribution: Keys,
    /// Bytes of a value.
    pub value_size: u32,
    /// Fraction of `get` requests, 0 to 1.
    pub gets: f64,
    /// Whether all keys are set before the warm-up.
    pub fill: bool,
    /// Seed of the choice of keys and requests.
    pub seed: u64,
}

/// Requests to a memcached server.
#[derive(Debug)]
pub struct KvLoad {
    options: KvOptions,
    /// `get` lines, then `set` lines, all of one length.
    lines: Buffer,
    get_len: usize,
    set_len: usize,
    values: Pattern,
    end: Slice<Buffer>,
    rng: Rng,
    zipf: Option<(Zipf<f64>, SmallRng)>,
    /// Next key to set before the warm-up.
    filled: u32,
}

impl KvLoad {
    /// Requests with these settings; numbers out of range are limited.
    pub fn new(options: KvOptions) -> Self {
        let options = KvOptions { keys: options.keys.clamp(1, 1 << 24), ..options };
        let get = |key: u32| format!("get linerate{key:08}\r\n");
        let set = |key: u32| format!("set linerate{key:08} 0 0 {}\r\n", options.value_size);
        let all: Vec<u8> =
            (0..options.keys).map(get).chain((0..options.keys).map(set)).collect::<String>().into();
        let zipf = match options.distribution {
            Keys::Uniform => None,
            Keys::Zipf(exponent) => Zipf::new(f64::from(options.keys), exponent).ok(),
        };
        Self {
            options,
            lines: Arc::<[u8]>::from(all).into(),
            get_len: get(0).len(),
            set_len: set(0).len(),
            values: Pattern::new(options.value_size as usize),
            end: Slice::new(Buffer::from(&b"\r\n"[..])).summed(),
            rng: Rng::with_seed(options.seed),
            zipf: zipf.map(|zipf| (zipf, SmallRng::seed_from_u64(options.seed))),
            filled: 0,
        }
    }

    fn key(&mut self) -> u32 {
        match &mut self.zipf {
            Some((zipf, rng)) => (zipf.sample(rng) as u32).clamp(1, self.options.keys) - 1,
            None => self.rng.u32(..self.options.keys),
        }
    }

    fn line(&self, from: usize, len: usize, key: u32) -> Slice<Buffer> {
        let from = from + len * key as usize;
        let range: Range<usize> = from..from + len;
        Slice::of(self.lines.clone(), range)
    }

    fn set(&self, key: u32, send: &mut impl FnMut(Slice<Buffer>)) -> u32 {
        send(self.line(self.get_len * self.options.keys as usize, self.set_len, key));
        if self.values.len() > 0 {
            send(self.values.slice(key));
        }
        send(self.end.clone());
        key | SET
    }

    /// The first line of a reply. Returns the result of a complete reply.
    fn first_line(&self, line: &[u8], tag: u32) -> Result<Option<Reply>, WrongReply> {
        let line = line.strip_suffix(b"\r\n").ok_or(WrongReply::new("line does not end with CR LF", 0))?;
        let is_error =
            line == b"ERROR" || line.starts_with(b"CLIENT_ERROR ") || line.starts_with(b"SERVER_ERROR ");
        match (tag & SET != 0, line) {
            _ if is_error => Ok(Some(Reply { is_error, ..Reply::default() })),
            (true, b"STORED") => Ok(Some(Reply::default())),
            (false, b"END") => Ok(Some(Reply { is_miss: true, ..Reply::default() })),
            (false, line) if line.starts_with(b"VALUE ") => self.value_line(line, tag).map(|()| None),
            _ => Err(WrongReply::new("unexpected line", 0)),
        }
    }

    /// Checks `VALUE key flags bytes`.
    fn value_line(&self, line: &[u8], tag: u32) -> Result<(), WrongReply> {
        let mut words = line.split(|byte| *byte == b' ').skip(1);
        let mut key = [0; 16];
        self.line(4, self.get_len, tag).copy_to(0, &mut key);
        if words.next() != Some(&key[..]) {
            return Err(WrongReply::new("value of another key", 6));
        }
        let size =
            words.nth(1).and_then(|word| std::str::from_utf8(word).ok()).and_then(|word| word.parse().ok());
        if size != Some(self.options.value_size) {
            return Err(WrongReply::new("value of another length", 6 + key.len() as u64));
        }
        Ok(())
    }
}

impl Workload for KvLoad {
    fn request(&mut self, send: &mut impl FnMut(Slice<Buffer>)) -> u32 {
        let key = self.key();
        if self.rng.f64() >= self.options.gets {
            return self.set(key, send);
        }
        send(self.line(0, self.get_len, key));
        key
    }

    fn fill(&mut self, send: &mut impl FnMut(Slice<Buffer>)) -> Option<u32> {
        if !self.options.fill || self.filled == self.options.keys {
            return None;
        }
        self.filled += 1;
        Some(self.set(self.filled - 1, send))
    }

    fn longest(&self) -> usize {
        self.set_len + self.values.len() + self.end.len()
    }

    fn reply(
        &self,
        framing: &mut Framing,
        tag: u32,
        input: &mut Input<'_>,
    ) -> Result<Option<Reply>, WrongReply> {
        if framing.stage() == LINE {
            if !input.line(MAX_LINE)? {
                return Ok(None);
            }
            let reply = self.first_line(input.text(), tag)?;
            input.clear_text();
            if reply.is_some() {
                return Ok(reply);
            }
            *framing = Framing::new(VALUE, self.values.len() as u64)?;
        }
        if framing.stage() == VALUE {
            let wrong =
                |offset| WrongReply::new("value differs", self.values.len() as u64 - framing.left() + offset);
            let passed = input.expect(self.values.rest(tag, framing.left())).map_err(wrong)?;
            framing.pass(passed);
            if framing.left() > 0 {
                return Ok(None);
            }
            *framing = Framing::new(TAIL, END.len() as u64)?;
        }
        let at = END.len() - framing.left() as usize;
        let wrong = |offset| WrongReply::new("end of the value differs", at as u64 + offset);
        let passed = input.expect(&END[at..]).map_err(wrong)?;
        framing.pass(passed);
        Ok((framing.left() == 0).then_some(Reply::default()))
    }
}
