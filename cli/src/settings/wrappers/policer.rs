//! `policer`: rates of received frames.

use super::rate::BitRate;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::Value;
use crate::settings::reader::shape::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// Bytes of a burst: a packet of a common MTU to seconds of the largest rate.
const BURST: RangeInclusive<i128> = 1514..=1 << 40;
/// By default a burst is this time of its rate, in nanoseconds, and at least two frames with segmentation offload.
const BURST_TIME: u64 = 20_000_000;
const LEAST_BURST: u64 = 131_072;
const DSCP: RangeInclusive<i128> = 0..=63;

/// `policer = { kind = "trtcm", cir = "100Mbit/s", pir = "200Mbit/s", exceed = 12 }`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Policer {
    kind: Kind,
    cir: BitRate,
    cbs: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pir: Option<BitRate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pbs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ebs: Option<u64>,
    color_aware: bool,
    exceed: Action,
    violate: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// RFC 2697
    Srtcm,
    /// RFC 2698
    Trtcm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Action {
    Word(Word),
    Dscp(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Pass,
    Drop,
}

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<Policer> {
    fields.accepts("policer", || Shape::Table);
    let (place, node) = (fields.place("policer"), fields.node("policer")?);
    if !matches!(node.value, Value::Table(_)) {
        return fields.not("policer", node, "a table, such as { kind = \"srtcm\", cir = \"100Mbit/s\" }");
    }
    let errors = fields.notes.errors();
    // Missing keys of the inner table are reported for the section.
    for key in ["cir", "pir"] {
        fields.notes.written((place.0, key), node.line);
    }
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let policer = read_inner(&mut inner);
    inner.finish();
    // An invalid policer is not the absence of one.
    if fields.notes.errors() > errors {
        fields.notes.mark_invalid(place);
    }
    Some(policer)
}

fn read_inner(fields: &mut Fields<'_, '_>) -> Policer {
    let errors = fields.notes.errors();
    let kind = fields.choice("kind", &[("srtcm", Kind::Srtcm), ("trtcm", Kind::Trtcm)]);
    let kind = kind.unwrap_or(Kind::Srtcm);
    let cir = BitRate::required(fields, "cir");
    let mut burst = |key| fields.number(key, BURST, "bytes");
    let (cbs, ebs, pbs) = (burst("cbs"), burst("ebs"), burst("pbs"));
    let pir = if kind == Kind::Trtcm {
        Some(BitRate::required(fields, "pir"))
    } else {
        BitRate::read(fields, "pir")
    };
    let default = |rate: BitRate| rate.bytes_in(BURST_TIME, LEAST_BURST);
    let cbs: u64 = cbs.unwrap_or_else(|| default(cir));
    let policer = Policer {
        kind,
        cir,
        cbs,
        pir,
        pbs: pir.filter(|_| kind == Kind::Trtcm).map(|pir| pbs.unwrap_or_else(|| default(pir).max(cbs))),
        ebs: (kind == Kind::Srtcm).then(|| ebs.unwrap_or(cbs)),
        color_aware: fields.flag("color_aware").unwrap_or(false),
        exceed: read_action(fields, "exceed").unwrap_or(Action::Word(Word::Pass)),
        violate: read_action(fields, "violate").unwrap_or(Action::Word(Word::Drop)),
    };
    if fields.notes.errors() == errors {
        check(fields, &policer, (ebs.is_some(), pbs.is_some()));
    }
    policer
}

/// Reports keys of the other kind, and a peak rate below the committed one.
fn check(fields: &mut Fields<'_, '_>, policer: &Policer, (has_ebs, has_pbs): (bool, bool)) {
    let is_single = policer.kind == Kind::Srtcm;
    let foreign = [
        ("pir", is_single && policer.pir.is_some()),
        ("pbs", is_single && has_pbs),
        ("ebs", !is_single && has_ebs),
    ];
    for (key, _) in foreign.into_iter().filter(|(_, is_foreign)| *is_foreign) {
        let (kind, other) = if is_single { ("srtcm", "trtcm") } else { ("trtcm", "srtcm") };
        let remedy = format!("remove `{key}`, or write kind = \"{other}\"");
        fields.wrong::<()>(key, format!("`{key}` is not a key of kind = \"{kind}\""), remedy);
    }
    if let Some(pir) = policer.pir.filter(|pir| *pir < policer.cir) {
        let remedy = format!("write at least {}", policer.cir);
        fields.invalid::<()>("pir", pir, "at least `cir`", remedy);
    }
}

fn read_action(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Action> {
    let expected = "\"pass\", \"drop\", or a DSCP from 0 to 63";
    fields.accepts(key, || Shape::Integer(DSCP));
    if let Some(Value::Integer(number)) = fields.peek(key) {
        return fields.within(key, *number, &DSCP, "as a DSCP").map(Action::Dscp);
    }
    let words = [("pass", Word::Pass), ("drop", Word::Drop)];
    fields.choice_or(key, &words, || expected).map(Action::Word)
}

impl Policer {
    pub(super) fn policer(&self) -> qos::Policer {
        let (cir, cbs) = (self.cir.0, self.cbs);
        let rates = match self.pir.filter(|_| self.kind == Kind::Trtcm) {
            Some(pir) => qos::Rates::TwoRate { cir, cbs, pir: pir.0, pbs: self.pbs.unwrap_or(cbs) },
            None => qos::Rates::SingleRate { cir, cbs, ebs: self.ebs.unwrap_or(0) },
        };
        qos::Policer {
            rates,
            is_aware: self.color_aware,
            exceed: self.exceed.into(),
            violate: self.violate.into(),
        }
    }
}

impl From<Action> for qos::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Word(Word::Pass) => Self::Pass,
            Action::Word(Word::Drop) => Self::Drop,
            Action::Dscp(dscp) => Self::Remark(dscp),
        }
    }
}

impl fmt::Display for Policer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "receives {}", self.cir)?;
        self.pir.map_or(Ok(()), |pir| write!(f, " to {pir}"))
    }
}
