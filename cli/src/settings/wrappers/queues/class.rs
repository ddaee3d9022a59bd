//! One class of `queues`, as text: `1 rate=100Mbit/s ceil=1Gbit/s priority=0 dscp=46`.

use crate::settings::wrappers::rate::BitRate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const DEFAULT_PRIORITY: u8 = 3;
const DEFAULT_FLOWS: u16 = 256;
const DEFAULT_LIMIT: u32 = 1024;
const MAX_LIMIT: u32 = 65_536;

/// Settings of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ClassSettings {
    pub(crate) queue: u8,
    pub(crate) parent: Option<u8>,
    pub(crate) rate: BitRate,
    /// `None`: the rate of the port.
    pub(crate) ceil: Option<BitRate>,
    pub(crate) priority: u8,
    pub(super) flows: u16,
    pub(super) limit: u32,
    pub(super) pcp: Vec<u8>,
    pub(super) dscp: Vec<u8>,
}

impl ClassSettings {
    /// Maximum rate on a port with this rate.
    pub(crate) fn ceil(&self, port: BitRate) -> BitRate {
        self.ceil.unwrap_or(port)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "rate" => self.rate = value.parse()?,
            "ceil" => self.ceil = Some(value.parse()?),
            "parent" => self.parent = Some(number(key, value, 0, 254)? as u8),
            "priority" => self.priority = number(key, value, 0, 7)? as u8,
            "flows" => self.flows = number(key, value, 1, 4096)? as u16,
            "limit" => self.limit = number(key, value, 1, MAX_LIMIT)?,
            "pcp" => self.pcp = numbers(key, value, 7)?,
            "dscp" => self.dscp = numbers(key, value, 63)?,
            _ => return Err(format!("`{key}` is not a key of a class")),
        }
        Ok(())
    }
}

fn number(key: &str, value: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("invalid value {value} for `{key}` of a class: expected {least} to {most}"))
}

fn numbers(key: &str, value: &str, most: u32) -> Result<Vec<u8>, String> {
    value.split(',').map(|value| number(key, value, 0, most).map(|number| number as u8)).collect()
}

impl FromStr for ClassSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let queue = words.next().unwrap_or_default();
        let mut class = Self {
            queue: number("number", queue, 0, 254)? as u8,
            parent: None,
            rate: BitRate(0),
            ceil: None,
            priority: DEFAULT_PRIORITY,
            flows: DEFAULT_FLOWS,
            limit: DEFAULT_LIMIT,
            pcp: Vec::new(),
            dscp: Vec::new(),
        };
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| format!("`{word}` of a class has no value"))?;
            class.set(key, value)?;
        }
        if class.rate == BitRate(0) { Err(format!("class \"{text}\" has no `rate`")) } else { Ok(class) }
    }
}

impl TryFrom<String> for ClassSettings {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ClassSettings> for String {
    fn from(class: ClassSettings) -> Self {
        class.to_string()
    }
}

impl fmt::Display for ClassSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rate={}", self.queue, self.rate)?;
        self.ceil.map_or(Ok(()), |ceil| write!(f, " ceil={ceil}"))?;
        self.parent.map_or(Ok(()), |parent| write!(f, " parent={parent}"))?;
        let numbers = [
            ("priority", u32::from(self.priority), u32::from(DEFAULT_PRIORITY)),
            ("flows", self.flows.into(), DEFAULT_FLOWS.into()),
            ("limit", self.limit, DEFAULT_LIMIT),
        ];
        for (key, value, _) in numbers.into_iter().filter(|(_, value, default)| value != default) {
            write!(f, " {key}={value}")?;
        }
        for (key, list) in
            [("pcp", &self.pcp), ("dscp", &self.dscp)].into_iter().filter(|(_, list)| !list.is_empty())
        {
            let list: Vec<_> = list.iter().map(ToString::to_string).collect();
            write!(f, " {key}={}", list.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_round_trip_as_text() {
        for text in [
            "0 rate=10Mbit/s",
            "7 rate=1Gbit/s ceil=2Gbit/s parent=3 priority=0 flows=16 limit=100 pcp=5,6 dscp=46",
        ] {
            assert_eq!(text.parse::<ClassSettings>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_name_the_key_and_its_range() {
        for (text, expected) in [
            ("", "invalid value  for `number` of a class: expected 0 to 254"),
            ("1", "class \"1\" has no `rate`"),
            ("1 rate=1Gbit/s priority=8", "invalid value 8 for `priority` of a class: expected 0 to 7"),
            ("1 rate=1Gbit/s dscp=46,64", "invalid value 64 for `dscp` of a class: expected 0 to 63"),
            ("1 rate=1Gbit/s weight=3", "`weight` is not a key of a class"),
            ("1 rate=fast", "`fast` is not a rate from 8kbit/s to 1000Gbit/s, such as 100Mbit/s"),
        ] {
            assert_eq!(text.parse::<ClassSettings>().unwrap_err(), expected);
        }
    }
}
