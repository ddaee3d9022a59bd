//! Values of fields that vary from frame to frame: counted, random from a seed, or from a list.

use fastrand::Rng;
use port::Remedy;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::MacAddress;

/// Syntax of patterns, for error messages.
const FORMS: &str = "{ count = 4, from = 1, step = 2 }, { random = 1, below = 64 } or { list = [0, 46] }, where keys can be omitted";

/// Pattern of a field before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", untagged)]
pub enum Pattern {
    /// `from`, then increasing by `step` per frame, `count` values in all; then repeated.
    Count {
        /// Number of values.
        count: u64,
        /// First value; default: the constant value of the field.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<Amount>,
        /// Increment.
        step: u64,
    },
    /// Random values, the same in each run.
    Random {
        /// Seed.
        random: u64,
        /// Exclusive upper limit; default: all values of the field.
        #[serde(skip_serializing_if = "Option::is_none")]
        below: Option<u64>,
    },
    /// A list to cycle through.
    List {
        /// The values.
        list: Vec<Amount>,
    },
}

/// A value of a field: a number or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Amount {
    /// A number.
    Number(u64),
    /// An IPv4 address, for a field of that type.
    V4(Ipv4Addr),
    /// An IPv6 address, for a field that holds the lower half of one.
    V6(Ipv6Addr),
    /// A MAC address, for a field of that type.
    Mac(MacAddress),
}

impl Amount {
    /// The value as stored in the field.
    pub(super) fn bits(self) -> u64 {
        match self {
            Amount::Number(number) => number,
            Amount::V4(address) => address.to_bits().into(),
            Amount::V6(address) => address.to_bits() as u64,
            Amount::Mac(address) => {
                address.octets().iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
            }
        }
    }

    fn read(value: &Value) -> Option<Self> {
        let Some(text) = value.as_str() else { return value.as_u64().map(Amount::Number) };
        let v4 = || text.parse().ok().map(Amount::V4);
        let v6 = || text.parse().ok().map(Amount::V6);
        v4().or_else(v6).or_else(|| text.parse().ok().map(Amount::Mac))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Number(number) => number.fmt(f),
            Amount::V4(address) => address.fmt(f),
            Amount::V6(address) => address.fmt(f),
            Amount::Mac(address) => address.fmt(f),
        }
    }
}

/// Error: a value that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Invalid type or structure.
    #[error("{0} is not a pattern")]
    Form(Value),
    /// A key of another pattern.
    #[error("{0} has `{1}`, which does not belong there")]
    Key(Value, String),
    /// Invalid number.
    #[error("`{0}` is {1}")]
    Number(&'static str, Value),
    /// Neither a number nor an address.
    #[error("`{0}` holds {1}")]
    Amount(&'static str, Value),
}

impl Remedy for PatternError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Form(..) | Self::Key(..) => format!("write {FORMS}").into(),
            Self::Number(..) => "write a whole number from 0".into(),
            Self::Amount(..) => "write whole numbers, or addresses such as \"198.18.0.1\"".into(),
        })
    }
}

impl Pattern {
    /// Reads a pattern from a configuration value.
    pub(super) fn read(value: &Value) -> Result<Self, PatternError> {
        let form = || PatternError::Form(value.clone());
        let keys = value.as_object().ok_or_else(form)?;
        let known: &[&str] = match ["count", "random", "list"].map(|key| keys.contains_key(key)) {
            [true, false, false] => &["count", "from", "step"],
            [false, true, false] => &["random", "below"],
            [false, false, true] => &["list"],
            _ => return Err(form()),
        };
        if let Some(key) = keys.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(PatternError::Key(value.clone(), key.clone()));
        }
        let number = |key| keys.get(key).map(|value| whole(key, value)).transpose();
        let amount = |key| keys.get(key).map(|value| one(key, value)).transpose();
        if let Some(count) = number("count")? {
            return Ok(Self::Count { count, from: amount("from")?, step: number("step")?.unwrap_or(1) });
        }
        if let Some(random) = number("random")? {
            return Ok(Self::Random { random, below: number("below")? });
        }
        let list = keys.get("list").and_then(Value::as_array).ok_or_else(form)?;
        Ok(Self::List { list: list.iter().map(|value| one("list", value)).collect::<Result<_, _>>()? })
    }

    /// The values given explicitly.
    pub(super) fn amounts(&self) -> &[Amount] {
        match self {
            Pattern::Count { from, .. } => from.as_slice(),
            Pattern::Random { .. } => &[],
            Pattern::List { list } => list,
        }
    }
}

fn whole(key: &'static str, value: &Value) -> Result<u64, PatternError> {
    value.as_u64().ok_or_else(|| PatternError::Number(key, value.clone()))
}

fn one(key: &'static str, value: &Value) -> Result<Amount, PatternError> {
    Amount::read(value).ok_or_else(|| PatternError::Amount(key, value.clone()))
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(from)?).map_err(|error| D::Error::custom(error.in_one_line()))
    }
}

/// Generator of the values of one field. The caller truncates them to the width of the field.
#[derive(Clone, Debug)]
pub(super) enum Values {
    /// See [`Pattern::Count`].
    Count {
        /// Next value.
        value: u64,
        /// First value.
        from: u64,
        /// Increment.
        step: u64,
        /// Number of values.
        count: u64,
        /// Values left before it restarts.
        left: u64,
    },
    /// See [`Pattern::Random`].
    Random {
        /// Random number generator.
        chance: Rng,
        /// Exclusive upper limit; 0: no limit.
        below: u64,
    },
    /// See [`Pattern::List`].
    List {
        /// The values; not empty.
        values: Box<[u64]>,
        /// Index of the next value.
        at: usize,
    },
    /// Bits of the flow number: the flows in rotation; the field holds `from` plus the bits of the flow number selected
    /// by `shift` and `mask`.
    Flow {
        /// Next flow.
        flow: u64,
        /// Number of flows.
        flows: u64,
        /// Added to the bits.
        from: u64,
        /// Right shift of the flow number.
        shift: u32,
        /// Mask after the shift.
        mask: u64,
    },
}

impl Values {
    /// Generator for a pattern of a field whose constant value is `base`. Returns `None` if the pattern has no values.
    pub(super) fn of(pattern: &Pattern, base: u64) -> Option<Self> {
        match pattern {
            Pattern::Count { count: 0, .. } | Pattern::Random { below: Some(0), .. } => None,
            Pattern::Count { count, from, step } => {
                let from = from.map_or(base, Amount::bits);
                Some(Values::Count { value: from, from, step: *step, count: *count, left: *count })
            }
            Pattern::Random { random, below } => {
                Some(Values::Random { chance: Rng::with_seed(*random), below: below.unwrap_or(0) })
            }
            Pattern::List { list } if list.is_empty() => None,
            Pattern::List { list } => {
                Some(Values::List { values: list.iter().map(|value| value.bits()).collect(), at: 0 })
            }
        }
    }

    /// The value for the next frame.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        match self {
            Values::Count { value, from, step, count, left } => {
                let now = *value;
                *left -= 1;
                (*value, *left) = if *left == 0 { (*from, *count) } else { (now.wrapping_add(*step), *left) };
                now
            }
            Values::Random { chance, below: 0 } => chance.u64(..),
            Values::Random { chance, below } => chance.u64(..*below),
            Values::List { values, at } => {
                let now = values[*at];
                *at = if *at + 1 == values.len() { 0 } else { *at + 1 };
                now
            }
            Values::Flow { flow, flows, from, shift, mask } => {
                let now = from.wrapping_add(*flow >> *shift & *mask);
                *flow = if *flow + 1 == *flows { 0 } else { *flow + 1 };
                now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pattern: &str, n: usize) -> Vec<u64> {
        let pattern = Pattern::read(&toml::from_str(pattern).unwrap()).unwrap();
        let mut values = Values::of(&pattern, 7).unwrap();
        std::iter::repeat_with(|| values.next()).take(n).collect()
    }

    #[test]
    fn patterns_parse_and_repeat() {
        assert_eq!(first("count = 3", 5), [7, 8, 9, 7, 8]);
        assert_eq!(first("count = 2\nfrom = 1\nstep = 10", 3), [1, 11, 1]);
        assert_eq!(first("list = [5, 3]", 3), [5, 3, 5]);
        assert_eq!(first("random = 1", 4), first("random = 1", 4));
        assert_ne!(first("random = 1", 4), first("random = 2", 4));
        assert!(first("random = 1\nbelow = 4", 100).iter().all(|value| *value < 4));
        assert!(Values::of(&Pattern::List { list: vec![] }, 0).is_none());
        let addresses = "list = [\"10.0.0.1\", \"2001:db8::7\", \"02:00:00:00:00:01\"]";
        assert_eq!(first(addresses, 3), [0x0a00_0001, 7, 0x0200_0000_0001]);
    }

    #[test]
    fn invalid_pattern_is_rejected_with_value_and_forms() {
        let told =
            |pattern: &str| Pattern::read(&toml::from_str(pattern).unwrap()).unwrap_err().in_one_line();
        let unknown = told("rand = 1");
        assert!(unknown.starts_with("{\"rand\":1} is not a pattern; write { count = 4"), "{unknown}");
        assert!(told("count = 1\nlist = [1]").contains("is not a pattern"));
        assert!(told("random = 1\nfrom = 2").contains("has `from`, which does not belong there"));
        assert_eq!(told("count = -3"), "`count` is -3; write a whole number from 0");
        assert!(
            told("list = [\"ten\"]").starts_with("`list` holds \"ten\"; write whole numbers, or addresses")
        );
        assert!(told("list = 5").contains("is not a pattern"));
    }

    #[test]
    fn flow_numbers_span_two_fields() {
        let flow = |shift, mask| Values::Flow { flow: 0, flows: 5, from: 100, shift, mask };
        let (mut low, mut high) = (flow(0, 1), flow(1, u64::MAX));
        let pairs: Vec<_> = (0..6).map(|_| (low.next(), high.next())).collect();
        assert_eq!(pairs, [(100, 100), (101, 100), (100, 101), (101, 101), (100, 102), (100, 100)]);
    }
}
