//! `kind = "pcap"`: capture files. Packets of a capture are received, and sent packets are written to a capture.

use super::claim::Claim;
use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::files::{is_file_path, output};
use crate::settings::reader::key::{Key, key, optional};
use crate::settings::reader::node::Value;
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use crate::settings::value::Decimal;
use ::port::PortControl;
use ::port::pcap::{self as port_kind, Options, Output, Playback};
use console::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const FACTOR: RangeInclusive<f64> = 0.001..=1_000_000.0;
const TIMES: RangeInclusive<i128> = 1..=i64::MAX as i128;

/// Settings of a pcap port: at least one of `read` and `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pcap {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pace: Option<Pace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeat: Option<Repeat>,
    /// Delay from the port's start to its first packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overwrite: bool,
}

/// `"recorded"`, `"fast"` or a factor of the recorded speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Pace {
    Word(PaceWord),
    Factor(Decimal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PaceWord {
    Recorded,
    Fast,
}

/// Number of replays, or `"forever"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Repeat {
    Times(u64),
    Word(RepeatWord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RepeatWord {
    Forever,
}

impl Kind for Pcap {
    const NAME: &'static str = "pcap";
    const ABOUT: &'static str = "Capture files: reads frames from one file, writes frames to another";
    const KEYS: &'static [Key] = &[
        optional(
            "read",
            "no packet is received",
            "Capture whose packets are received: absolute path of a pcap or pcapng file.",
        ),
        optional(
            "pace",
            "`\"recorded\"`",
            "Speed of the replay: as recorded, a multiple of it, or as fast as possible.",
        ),
        optional("repeat", "once", "Number of replays."),
        optional("after", "none", "Delay from the port's start to its first packet."),
        optional(
            "write",
            "sent packets are dropped",
            "File to which sent packets are written: absolute path of a pcapng file.",
        ),
        key("overwrite", "false", "Whether an existing file is replaced; otherwise it is an error."),
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "write = \"/tmp/lr-none.pcapng\"",
        concat!("read = \"", env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/pcap/pcap-microseconds\""),
        concat!(
            "read = \"",
            env!("CARGO_MANIFEST_DIR"),
            "/../fuzz/corpus/pcap/pcapng-little\"\npace = \"fast\"\nrepeat = \"forever\"\nafter = \"2s\"\n",
            "write = \"/tmp/lr-none.pcapng\"\noverwrite = true"
        ),
        concat!(
            "read = \"",
            env!("CARGO_MANIFEST_DIR"),
            "/../fuzz/corpus/pcap/pcapng-big\"\npace = 2.5\nrepeat = 3"
        ),
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let read = fields.text("read").map(PathBuf::from);
        let pcap = Self {
            pace: read_pace(fields),
            repeat: read_repeat(fields),
            after: fields.span("after"),
            write: fields.text("write").map(PathBuf::from),
            overwrite: fields.flag("overwrite").unwrap_or_default(),
            read,
        };
        let played = [
            ("pace", pcap.pace.is_some()),
            ("repeat", pcap.repeat.is_some()),
            ("after", pcap.after.is_some()),
        ];
        for (key, _) in played.iter().filter(|(_, written)| *written && pcap.read.is_none()) {
            let reason = format!("`{key}` has no effect without `read`");
            fields.wrong::<()>(key, reason, "add `read`, or remove this key".to_owned());
        }
        if pcap.overwrite && pcap.write.is_none() {
            let reason = "`overwrite` has no effect without `write`";
            fields.wrong::<()>("overwrite", reason, "add `write`, or remove this key".to_owned());
        }
        pcap
    }

    /// The content of the capture is validated when it is loaded ([`Kind::plays`]).
    fn validate(&self, validation: &mut Validation<'_>) {
        validation.one_queue_pair();
        validation.no_mtu();
        if self.read.is_none()
            && self.write.is_none()
            && !validation.is_spoiled("read")
            && !validation.is_spoiled("write")
        {
            let remedy = "add a line such as: read = \"/tmp/in.pcap\", or write = \"/tmp/out.pcapng\"";
            validation.wrong("read", "neither `read` nor `write` is set", remedy);
        }
        if let Some(file) = &self.write {
            output(validation, "write", file, self.overwrite);
        }
        if self.read.is_some() && self.read == self.write {
            return validation.wrong("write", "`write` is the file that `read` plays", "name another path");
        }
        if let Some(file) = &self.read {
            is_file_path(validation, "read", file);
        }
    }

    /// Several ports may replay the same file; only the written file is exclusive.
    fn claims(&self) -> Vec<Claim<'_>> {
        self.write.iter().map(|path| Claim::file("write", path)).collect()
    }

    fn place(&self) -> String {
        let place: Vec<_> =
            self.read.iter().chain(&self.write).map(|path| path.display().to_string()).collect();
        place.join(" > ")
    }

    fn one_way(&self, _names: &[&str]) -> Option<(&'static str, &'static str)> {
        match (&self.read, &self.write) {
            (None, _) => Some(("no frame is received from a file that is only written", "add `read`")),
            (_, None) => Some(("no frame can be sent to a file that is only read", "add `write`")),
            _ => None,
        }
    }

    fn plays(&self) -> Option<(&'static str, &Path)> {
        self.read.as_deref().map(|path| ("read", path))
    }

    fn files(&self) -> Vec<(&'static str, &Path)> {
        self.plays().into_iter().chain(self.write.as_deref().map(|path| ("write", path))).collect()
    }

    fn open(&self, port: PortCommon<'_>, loaded: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let read = loaded.map(|recording| Playback {
            recording,
            pace: self.pace.map_or_else(port_kind::Pace::default, Pace::pace),
            repeat: self.repeat.map_or_else(port_kind::Repeat::default, Repeat::repeat),
            after: self.after.unwrap_or_default().0,
        });
        let write = self.write.clone().map(|path| Output { path, overwrite: self.overwrite });
        let made = port_kind::Pcap::new(Options { name: port.name.to_owned(), read, write });
        Ok(Box::new(made.map_err(|error| OpenError::refused(port.name, &error))?))
    }
}

impl Pcap {
    fn is_scaled(&self) -> bool {
        matches!(self.pace, Some(Pace::Factor(_)))
    }
}

fn read_pace(fields: &mut Fields<'_, '_>) -> Option<Pace> {
    let words = [("recorded", Pace::Word(PaceWord::Recorded)), ("fast", Pace::Word(PaceWord::Fast))];
    match fields.peek("pace")? {
        Value::Integer(_) | Value::Fraction(_) => {
            let remedy = format!("give {} to {} times as fast as recorded", FACTOR.start(), FACTOR.end());
            fields.decimal("pace", FACTOR, &remedy).map(|factor| Pace::Factor(Decimal(factor)))
        }
        _ => fields.choice_or("pace", &words, || "\"recorded\", \"fast\" or a factor"),
    }
}

fn read_repeat(fields: &mut Fields<'_, '_>) -> Option<Repeat> {
    match fields.peek("repeat")? {
        Value::Text(_) => {
            let words = [("forever", Repeat::Word(RepeatWord::Forever))];
            fields.choice_or("repeat", &words, || "\"forever\" or a number")
        }
        _ => fields.number("repeat", TIMES, "times, or \"forever\"").map(Repeat::Times),
    }
}

impl Pace {
    fn pace(self) -> port_kind::Pace {
        match self {
            Pace::Word(PaceWord::Recorded) => port_kind::Pace::Recorded(1.0),
            Pace::Word(PaceWord::Fast) => port_kind::Pace::Fast,
            Pace::Factor(Decimal(factor)) => port_kind::Pace::Recorded(factor),
        }
    }
}

impl Repeat {
    fn repeat(self) -> port_kind::Repeat {
        match self {
            Repeat::Times(times) => port_kind::Repeat::Times(times),
            Repeat::Word(RepeatWord::Forever) => port_kind::Repeat::Forever,
        }
    }
}

impl fmt::Display for Pcap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(read) = &self.read {
            write!(f, "plays {}", read.display())?;
            match self.pace.map(Pace::pace) {
                Some(port_kind::Pace::Fast) => f.write_str(" at full speed")?,
                Some(port_kind::Pace::Recorded(factor)) if self.is_scaled() => {
                    write!(f, " {factor} times as fast")?;
                }
                _ => {}
            }
            match self.repeat {
                Some(Repeat::Times(times)) => write!(f, " {times} times")?,
                Some(Repeat::Word(RepeatWord::Forever)) => f.write_str(" for ever")?,
                None => {}
            }
        }
        let Some(write) = &self.write else { return Ok(()) };
        write!(f, "{}writes {}", if self.read.is_some() { ", " } else { "" }, write.display())
    }
}
