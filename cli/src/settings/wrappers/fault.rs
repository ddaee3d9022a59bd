//! `fault`: losses, duplicates, delays, reordering and bit errors of a port.

use super::{Direction, read_direction};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::Value;
use crate::settings::reader::shape::Shape;
use crate::settings::value::Decimal;
use ::port::wrap as port_kind;
use console::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

const CHANCE: RangeInclusive<f64> = 0.0..=1.0;
/// Range of TOML integers.
const SEED: RangeInclusive<i128> = 0..=i64::MAX as i128;
/// Each held packet needs 64 KiB of address space.
const HOLD: RangeInclusive<i128> = 0..=65_536;
/// Maximum delay of a packet.
const LATEST: Duration = Duration::from_mins(1);

/// `fault = { seed = 7, drop = 0.01 }`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fault {
    seed: u64,
    #[serde(default, skip_serializing_if = "Decimal::is_zero")]
    drop: Decimal,
    #[serde(default, skip_serializing_if = "Decimal::is_zero")]
    duplicate: Decimal,
    #[serde(default, skip_serializing_if = "Decimal::is_zero")]
    reorder: Decimal,
    #[serde(default, skip_serializing_if = "Decimal::is_zero")]
    corrupt: Decimal,
    #[serde(default, skip_serializing_if = "Delay::is_zero")]
    delay: Delay,
    hold: u32,
    #[serde(default)]
    direction: Direction,
}

/// `"1ms"`, or minimum and maximum: `["1ms", "3ms"]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Delay {
    Fixed(Span),
    Between([Span; 2]),
}

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<Fault> {
    let wanted = "a table, such as { seed = 7, drop = 0.01, delay = \"1ms\" }";
    let default = port_kind::Faults::default();
    fields.accepts("fault", || Shape::Table);
    let (place, node) = (fields.place("fault"), fields.node("fault")?);
    if !matches!(node.value, Value::Table(_)) {
        return fields.not("fault", node, wanted);
    }
    let errors = fields.notes.errors();
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let probability = "write a probability from 0 to 1";
    let mut chance = |key| Decimal(inner.decimal(key, CHANCE, probability).unwrap_or_default());
    let (drop, duplicate) = (chance("drop"), chance("duplicate"));
    let (reorder, corrupt) = (chance("reorder"), chance("corrupt"));
    let fault = Fault {
        seed: inner.number("seed", SEED, "as a seed").unwrap_or(default.seed),
        drop,
        duplicate,
        reorder,
        corrupt,
        delay: read_delay(&mut inner).unwrap_or_default(),
        hold: inner.number("hold", HOLD, "packets").unwrap_or(default.hold),
        direction: read_direction(&mut inner),
    };
    inner.finish();
    // An invalid fault is not the absence of faults.
    if fields.notes.errors() > errors {
        fields.notes.mark_invalid(place);
    }
    Some(fault)
}

fn read_delay(fields: &mut Fields<'_, '_>) -> Option<Delay> {
    fields.accepts("delay", || Shape::Time);
    fields.accepts("delay", || Shape::list(Shape::Time));
    let node = fields.node("delay")?;
    let delay = match &node.value {
        Value::List(list) => match list.as_slice() {
            [least, most] => {
                Delay::Between([fields.span_of("delay", least)?, fields.span_of("delay", most)?])
            }
            _ => return fields.not("delay", node, "a duration such as \"1ms\", or two: [\"1ms\", \"3ms\"]"),
        },
        _ => Delay::Fixed(fields.span_of("delay", node)?),
    };
    let (least, most) = delay.bounds();
    if least > most || most > LATEST {
        let remedy = "give the shorter time first, and at most 1m".to_owned();
        return fields.invalid("delay", delay, "two times in ascending order, at most 1m", remedy);
    }
    Some(delay)
}

impl Default for Delay {
    fn default() -> Self {
        Self::Fixed(Span::default())
    }
}

impl Delay {
    fn bounds(self) -> (Duration, Duration) {
        match self {
            Self::Fixed(Span(time)) => (time, time),
            Self::Between([Span(least), Span(most)]) => (least, most),
        }
    }

    fn is_zero(&self) -> bool {
        self.bounds().1.is_zero()
    }
}

impl Fault {
    pub(super) fn does_nothing(&self) -> bool {
        [self.drop, self.duplicate, self.reorder, self.corrupt].iter().all(Decimal::is_zero)
            && self.delay.is_zero()
    }

    pub(super) fn faults(&self) -> port_kind::Faults {
        port_kind::Faults {
            seed: self.seed,
            drop: self.drop.0,
            duplicate: self.duplicate.0,
            reorder: self.reorder.0,
            corrupt: self.corrupt.0,
            delay: self.delay.bounds(),
            hold: self.hold,
            directions: self.direction.into(),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => write!(f, "{time}"),
            Self::Between([least, most]) => write!(f, "{least} to {most}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faults{} from seed {}:", self.direction, self.seed)?;
        let chances = [
            ("drop", self.drop),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ];
        for (what, chance) in chances.iter().filter(|(_, chance)| !chance.is_zero()) {
            write!(f, " {what} {chance}")?;
        }
        if self.delay.is_zero() { Ok(()) } else { write!(f, " delay {}", self.delay) }
    }
}
