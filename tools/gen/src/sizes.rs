//! Frame sizes of a stream, without checksum: one size, a list, or a mix.

use port::Remedy;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Valid sizes: from the smallest Ethernet frame without checksum (IEEE 802.3) to the largest that every port supports.
pub const SIZES: RangeInclusive<u16> = 60..=9212;
/// The simple Internet mix: seven of 64, four of 570, one of 1514 bytes.
const SIMPLE: [u16; 12] = [64, 570, 64, 64, 570, 64, 1514, 64, 570, 64, 64, 570];
/// Maximum number of frames in a round of a table.
const MAX_ROUND: u32 = 10_000;

/// Frame sizes before validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Sizes {
    /// A single size.
    Fixed(u16),
    /// A list to cycle through.
    List(Vec<u16>),
    /// A named mix; only `imix` exists.
    Named(String),
    /// A mix as a table of sizes and weights.
    Table {
        /// Pairs of size and weight (frames per round).
        mix: Vec<(u16, u32)>,
    },
}

impl Default for Sizes {
    fn default() -> Self {
        Self::Fixed(64)
    }
}

/// Error: invalid sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizesError {
    /// A size is out of range.
    #[error("a size of {0} bytes is out of range")]
    Range(u64),
    /// Unknown name.
    #[error("`{0}` is not a list of sizes")]
    Name(String),
    /// Invalid type or structure.
    #[error("{0} is not a list of sizes")]
    Form(String),
    /// Empty list or table.
    #[error("no sizes")]
    None,
    /// Weights out of range.
    #[error("the sum of the weights is {0}")]
    Weights(u64),
}

impl Remedy for SizesError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Range(..) => "write 60 to 9212, counted with the headers and without the checksum".into(),
            Self::Name(..) => "write a number such as 64, several such as 64,512,1514, `imix`, or a table such as 64:7,570:4".into(),
            Self::Form(..) => "write a number such as 64, several such as [64, 1514], \"imix\", or a table such as { mix = [[64, 7], [570, 4]] }".into(),
            Self::None => "write at least one".into(),
            Self::Weights(..) => "write whole numbers from 1 that add up to at most 10000".into(),
        })
    }
}

impl Sizes {
    /// The sizes of one round, in order; the stream repeats it.
    pub fn round(&self) -> Result<Vec<u16>, SizesError> {
        let round = match self {
            Sizes::Fixed(size) => vec![*size],
            Sizes::List(sizes) => sizes.clone(),
            Sizes::Named(name) if name == "imix" => SIMPLE.to_vec(),
            Sizes::Named(name) => return name.parse::<Sizes>()?.round(),
            Sizes::Table { mix } => spread(mix)?,
        };
        match round.iter().find(|size| !SIZES.contains(size)) {
            Some(size) => Err(SizesError::Range(u64::from(*size))),
            None if round.is_empty() => Err(SizesError::None),
            None => Ok(round),
        }
    }
}

impl Sizes {
    /// Reads sizes from a configuration value.
    pub(super) fn read(value: &Value) -> Result<Self, SizesError> {
        let form = || SizesError::Form(value.to_string());
        match value {
            Value::Number(_) => Ok(Self::Fixed(size(value).ok_or_else(form)??)),
            Value::String(name) => Ok(Self::Named(name.clone())),
            Value::Array(list) => {
                let sizes = list.iter().map(|value| size(value).ok_or_else(form)?);
                Ok(Self::List(sizes.collect::<Result<_, _>>()?))
            }
            Value::Object(keys) => {
                let mix = keys.get("mix").filter(|_| keys.len() == 1).and_then(Value::as_array);
                let pair = |pair: &Value| {
                    let [first, weight] = pair.as_array().ok_or_else(form)?.as_slice() else {
                        return Err(form());
                    };
                    let weight = weight.as_u64().and_then(|weight| weight.try_into().ok());
                    Ok((size(first).ok_or_else(form)??, weight.ok_or_else(form)?))
                };
                Ok(Self::Table { mix: mix.ok_or_else(form)?.iter().map(pair).collect::<Result<_, _>>()? })
            }
            _ => Err(form()),
        }
    }
}

/// Reads a size. Returns `None` if `value` is not a whole number.
fn size(value: &Value) -> Option<Result<u16, SizesError>> {
    let size = value.as_u64()?;
    Some(size.try_into().map_err(|_| SizesError::Range(size)))
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(from)?).map_err(|error| D::Error::custom(error.in_one_line()))
    }
}

/// A round with each size as often as its weight, distributed as evenly as possible.
fn spread(mix: &[(u16, u32)]) -> Result<Vec<u16>, SizesError> {
    let all: u64 = mix.iter().map(|(_, weight)| u64::from(*weight)).sum();
    if all > u64::from(MAX_ROUND) || mix.iter().any(|(_, weight)| *weight == 0) {
        return Err(SizesError::Weights(all));
    }
    let mut credit = vec![0_i64; mix.len()];
    let one = |_| {
        credit.iter_mut().zip(mix).for_each(|(credit, (_, weight))| *credit += i64::from(*weight));
        // The first of the largest.
        let at = (0..mix.len()).rev().max_by_key(|at| credit[*at]).unwrap_or(0);
        credit[at] -= all.cast_signed();
        mix[at].0
    };
    Ok((0..all).map(one).collect())
}

impl FromStr for Sizes {
    type Err = SizesError;

    /// Parses command line syntax: `64`, `64,512`, `imix`, `64:7,570:4,1514:1`.
    fn from_str(text: &str) -> Result<Self, SizesError> {
        let wrong = || SizesError::Name(text.to_owned());
        if text == "imix" {
            return Ok(Sizes::Named(text.to_owned()));
        }
        let parts = text.split(',').map(str::trim);
        if text.contains(':') {
            let pair = |part: &str| {
                let (size, weight) = part.split_once(':')?;
                Some((size.parse().ok()?, weight.parse().ok()?))
            };
            let mix = parts.map(pair).collect::<Option<_>>().ok_or_else(wrong)?;
            return Ok(Sizes::Table { mix });
        }
        let sizes = parts.map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>().ok_or_else(wrong)?;
        let narrow = |size: &u64| u16::try_from(*size).map_err(|_| SizesError::Range(*size));
        let sizes = sizes.iter().map(narrow).collect::<Result<Vec<_>, _>>()?;
        Ok(if let [size] = sizes[..] { Sizes::Fixed(size) } else { Sizes::List(sizes) })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |parts: Vec<String>| parts.join(",");
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Named(name) => f.write_str(name),
            Sizes::List(sizes) => f.write_str(&join(sizes.iter().map(u16::to_string).collect())),
            Sizes::Table { mix } => {
                f.write_str(&join(mix.iter().map(|(size, n)| format!("{size}:{n}")).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip_as_text() {
        for text in ["64", "64,512,1514", "imix", "64:7,570:4,1514:1"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        assert_eq!("9".parse::<Sizes>().unwrap().round(), Err(SizesError::Range(9)));
        assert_eq!(Sizes::List(vec![]).round(), Err(SizesError::None));
        assert_eq!("64:0".parse::<Sizes>().unwrap().round(), Err(SizesError::Weights(0)));
        assert_eq!("64,70000".parse::<Sizes>(), Err(SizesError::Range(70_000)));
        assert!("1e3".parse::<Sizes>().is_err() && "64;65".parse::<Sizes>().is_err());
    }

    #[test]
    fn sizes_round_trip_in_files_and_invalid_ones_are_rejected() {
        let read = |text: &str| Sizes::read(&serde_json::from_str(text).unwrap());
        for text in ["64", "[64,512]", "\"imix\"", "{\"mix\":[[64,7],[570,4]]}"] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
        assert_eq!(read("70000"), Err(SizesError::Range(70_000)));
        for text in
            ["5.5", "-1", "true", "[64,\"x\"]", "{\"mix\":[[64]]}", "{\"a\":1,\"mix\":[]}", "{\"a\":1}"]
        {
            assert_eq!(read(text), Err(SizesError::Form(text.to_owned())));
        }
        let told = read("5.5").unwrap_err().in_one_line();
        assert!(
            told.starts_with("5.5 is not a list of sizes; write a number") && told.ends_with("[570, 4]] }"),
            "{told}"
        );
    }

    #[test]
    fn table_is_distributed_over_its_round() {
        let round = "64:2,570:1".parse::<Sizes>().unwrap().round().unwrap();
        assert_eq!(round, [64, 570, 64]);
        let simple = Sizes::Named("imix".into()).round().unwrap();
        let count = |size| simple.iter().filter(|s| **s == size).count();
        assert_eq!([64, 570, 1514].map(count), [7, 4, 1]);
    }
}
