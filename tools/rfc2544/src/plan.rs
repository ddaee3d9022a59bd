//! Parameters of a benchmark.

use generator::Remedy;
use generator::rate::{ParseRateError, Rate};
use generator::{Sizes, SizesError};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A test of RFC 2544.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Section 26.1: the highest rate without loss, or with at most a given fraction of loss.
    Throughput,
    /// Section 26.2, at several loads.
    Latency,
    /// Section 26.3: loss fraction by rate.
    Loss,
    /// Section 26.4: the longest burst without loss.
    BackToBack,
}

impl Test {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Test::Throughput => "throughput",
            Test::Latency => "latency",
            Test::Loss => "loss",
            Test::BackToBack => "back-to-back",
        }
    }
}

/// All parameters that determine the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Tests, in the order of the RFC.
    pub tests: Vec<Test>,
    /// Frame sizes, without checksum, tested one after the other.
    pub sizes: Vec<Sizes>,
    /// Loss fraction allowed for the partial drop rate, from 0 to 1.
    pub loss: f64,
    /// Final distance between the bounds of a search, as a fraction of the upper one.
    pub precision: f64,
    /// Duration of a trial in seconds.
    pub trial: f64,
    /// Maximum number of trials per load.
    pub tries: u32,
    /// A load passes if more than this fraction of its trials pass, from 0 (one is enough) to 1 (all).
    #[serde(default = "half")]
    pub agree: f64,
    /// Number of repetitions of all tests.
    pub rounds: u32,
    /// Loads of latency trials, in percent of the throughput without loss.
    pub loads: Vec<f64>,
    /// Maximum offered rate; default: the generator's own maximum, measured over its loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<String>,
}

fn half() -> f64 {
    0.5
}

/// Number of trials per load, and number of them that must pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    pub(super) most: u32,
    /// Number of trials that must pass.
    pub(super) enough: u32,
}

impl Tries {
    /// Requires more than the fraction `agree` of `most` trials.
    pub(super) fn of(most: u32, agree: f64) -> Self {
        let enough = (f64::from(most) * agree) as u32 + 1;
        Self { most, enough: enough.min(most) }
    }
}

/// Error in a plan: key and cause.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A list is empty.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// A value is repeated.
    #[error("`{0}` names {1} twice")]
    Twice(&'static str, String),
    /// A number is out of range.
    #[error("invalid value {1} for `{0}`: expected {2}")]
    Range(&'static str, String, &'static str),
    /// Invalid size.
    #[error("`sizes`: {0}")]
    Size(#[from] SizesError),
    /// Invalid ceiling.
    #[error("`ceiling`: {0}")]
    Ceiling(#[from] ParseRateError),
    /// The ceiling is unlimited.
    #[error("`ceiling`: max is not a finite rate")]
    Unlimited,
}

impl Remedy for PlanError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Empty(..) => "name at least one".into(),
            Self::Twice(..) => "name it once".into(),
            Self::Range(_, _, range) => format!("write {range}").into(),
            Self::Size(error) => return error.remedy(),
            Self::Ceiling(error) => return error.remedy(),
            Self::Unlimited => "write a rate, or omit the key".into(),
        })
    }
}

/// A fraction as users write it.
fn percent(fraction: f64) -> String {
    format!("{}%", fraction * 100.0)
}

fn range(key: &'static str, value: String, inside: bool, expected: &'static str) -> Result<(), PlanError> {
    if inside { Ok(()) } else { Err(PlanError::Range(key, value, expected)) }
}

impl Plan {
    /// Validates all parameters.
    pub fn validate(&self) -> Result<(), PlanError> {
        lists(self)?;
        range("loss", percent(self.loss), (0.0..1.0).contains(&self.loss), "0% to less than 100%")?;
        let precision = self.precision;
        range("precision", percent(precision), (1e-4..=0.5).contains(&precision), "0.01% to 50%")?;
        let seconds = format!("{}s", self.trial);
        range("duration", seconds, (0.01..=86_400.0).contains(&self.trial), "10ms to a day")?;
        range("tries", self.tries.to_string(), (1..=99).contains(&self.tries), "1 to 99")?;
        range("agree", percent(self.agree), (0.0..=1.0).contains(&self.agree), "0% to 100%")?;
        range("rounds", self.rounds.to_string(), (1..=10_000).contains(&self.rounds), "1 to 10000")?;
        if let Some(load) = self.loads.iter().find(|load| !(0.1..=200.0).contains(*load)) {
            range("loads", load.to_string(), false, "percentages from 0.1 to 200")?;
        }
        self.sizes.iter().try_for_each(|size| size.round().map(drop))?;
        if self.ceiling_at(64.0)?.is_none() && self.ceiling.is_some() {
            return Err(PlanError::Unlimited);
        }
        Ok(())
    }

    /// Whether a test is part of the plan.
    pub fn has(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// The requested ceiling, in frames per second for this mean size.
    pub fn ceiling_at(&self, mean: f64) -> Result<Option<f64>, ParseRateError> {
        let Some(text) = &self.ceiling else { return Ok(None) };
        Ok(text.parse::<Rate>()?.frames(mean))
    }

    /// Mean frame size of the size at index `size`, in bytes without checksum; 0 if the index is out of range.
    pub fn mean(&self, size: usize) -> f64 {
        let round = self.sizes.get(size).and_then(|size| size.round().ok()).unwrap_or_default();
        round.iter().map(|size| f64::from(*size)).sum::<f64>() / round.len().max(1) as f64
    }

    /// Number of trials per load or burst.
    pub(super) fn decided(&self) -> Tries {
        Tries::of(self.tries, self.agree)
    }

    /// Goals of the search: no loss, then the allowed loss if it is positive.
    pub(super) fn goals(&self) -> Vec<f64> {
        let partial = (self.has(Test::Throughput) && self.loss > 0.0).then_some(self.loss);
        std::iter::once(0.0).chain(partial).collect()
    }

    /// Whether the throughput is searched; latency needs it too.
    pub(super) fn searches(&self) -> bool {
        self.has(Test::Throughput) || self.has(Test::Latency)
    }
}

fn lists(plan: &Plan) -> Result<(), PlanError> {
    let empty = [
        ("tests", plan.tests.is_empty()),
        ("sizes", plan.sizes.is_empty()),
        ("loads", plan.loads.is_empty() && plan.has(Test::Latency)),
    ];
    if let Some((what, _)) = empty.into_iter().find(|(_, empty)| *empty) {
        return Err(PlanError::Empty(what));
    }
    let names = |names: Vec<String>, what| {
        let twice = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name));
        twice.map_or(Ok(()), |(_, name)| Err(PlanError::Twice(what, name.clone())))
    };
    names(plan.sizes.iter().map(ToString::to_string).collect(), "sizes")?;
    names(plan.loads.iter().map(ToString::to_string).collect(), "loads")?;
    names(plan.tests.iter().map(|test| test.name().to_owned()).collect(), "tests")
}
