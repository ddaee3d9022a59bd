//! Groups: `group_id=N,type=KIND,bucket=...,bucket=...`.

use super::actions::{self, Context};
use super::error::{Reason, TextError};
use super::piece::Word;
use super::{Out, Piece, PortNames, actions::check_drop, port};
use crate::action::Bucket;
use crate::matching::Match;
use crate::modify::{GroupCommand, GroupKind, GroupMod, PortNo};
use std::fmt;

/// Kinds, by the first of their names when printed.
const KINDS: &[(&str, GroupKind)] = &[
    ("all", GroupKind::All),
    ("select", GroupKind::Select),
    ("indirect", GroupKind::Indirect),
    ("ff", GroupKind::FastFailover),
    ("fast_failover", GroupKind::FastFailover),
];

/// `OFPG_MAX` and `OFPG_ALL`.
const MAX_GROUP: u32 = 0xffff_ff00;
const ALL_GROUPS: u32 = 0xffff_fffc;

/// The words of a group.
#[derive(Default)]
struct Words<'a> {
    id: Option<u32>,
    kind: Option<GroupKind>,
    buckets: Vec<BucketWords<'a>>,
}

/// Parses a group. See [`super::parse_group`].
pub(super) fn parse(
    text: Piece,
    command: GroupCommand,
    ports: &dyn PortNames,
) -> Result<GroupMod, TextError> {
    let mut words = Words::default();
    text.words().try_for_each(|word| words.add(word?))?;
    let Words { id, kind, buckets } = words;
    if command == GroupCommand::Delete {
        let refused = buckets.first().map(|bucket| bucket.from.error(Reason::Command));
        let id = id.unwrap_or(ALL_GROUPS);
        return refused.map_or(Ok(GroupMod { command, kind: GroupKind::All, id, buckets: Vec::new() }), Err);
    }
    let missing = |what| text.error(Reason::Missing(what));
    let id = id.filter(|id| *id != ALL_GROUPS).ok_or_else(|| missing("`group_id=NUMBER`"))?;
    let kind = kind.ok_or_else(|| missing("`type=`; use all, select, indirect or ff"))?;
    let buckets = buckets.iter().enumerate().map(|(at, bucket)| bucket.parse(at as u32, kind, ports));
    let buckets = buckets.collect::<Result<Vec<_>, _>>()?;
    if kind == GroupKind::Indirect && buckets.len() != 1 {
        return Err(text.error(Reason::Expected("exactly one bucket in an indirect group")));
    }
    Ok(GroupMod { command, kind, id, buckets })
}

impl<'a> Words<'a> {
    /// Adds a word: to the last bucket, if there is one.
    fn add(&mut self, word: Word<'a>) -> Result<(), TextError> {
        if word.key.is("bucket") || word.key.is("buckets") {
            let first = Some(word.value).filter(|value| !value.text.is_empty()).map(Piece::only_word);
            self.buckets
                .push(BucketWords { from: word.key, words: first.transpose()?.into_iter().collect() });
            return Ok(());
        }
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.words.push(word);
            return Ok(());
        }
        match word.key.text {
            "group_id" => self.id = Some(group(word.required()?.value)?),
            "type" => self.kind = Some(kind_of(word.required()?.value)?),
            "selection_method" | "selection_method_param" | "fields" | "command_bucket_id" => {
                return Err(word.key.error(Reason::NotSupported));
            }
            _ => return Err(word.key.error(Reason::Expected("group_id, type or bucket"))),
        }
        Ok(())
    }
}

fn group(text: Piece) -> Result<u32, TextError> {
    if text.text == "all" { Ok(ALL_GROUPS) } else { Ok(text.number(MAX_GROUP.into())? as u32) }
}

fn kind_of(text: Piece) -> Result<GroupKind, TextError> {
    let found = KINDS.iter().find(|(name, _)| *name == text.text).map(|(_, kind)| *kind);
    found.ok_or_else(|| text.error(Reason::Expected("all, select, indirect, ff or fast_failover")))
}

/// The words of a bucket. Those that are no properties are actions.
struct BucketWords<'a> {
    from: Piece<'a>,
    words: Vec<Word<'a>>,
}

impl BucketWords<'_> {
    fn parse(&self, id: u32, kind: GroupKind, ports: &dyn PortNames) -> Result<Bucket, TextError> {
        let weight = default_weight(kind);
        let mut bucket = Bucket { id, weight, watch_port: None, watch_group: None, actions: Vec::new() };
        let mut context = Context::new(&Match::any(), ports);
        let (mut has_actions, mut dropped) = (false, None);
        for &word in &self.words {
            if property(&mut bucket, word, kind, ports)? {
                continue;
            }
            has_actions = true;
            let is_key = matches!(word.key.text, "actions" | "action") && !word.value.text.is_empty();
            let action = if is_key { word.value.only_word()? } else { word };
            if action.key.is("drop") {
                dropped = Some(action.key);
            } else {
                actions::one(action, &mut context, &mut bucket.actions)?;
            }
        }
        check_drop(dropped, bucket.actions.is_empty())?;
        let missing = |what| Err(self.from.error(Reason::Missing(what)));
        let is_watched = bucket.watch_port.is_some() || bucket.watch_group.is_some();
        if !has_actions {
            return missing("`actions=`; use `actions=drop` to drop packets");
        }
        if kind == GroupKind::FastFailover && !is_watched {
            return missing("`watch_port:` or `watch_group:` in a fast failover group");
        }
        Ok(bucket)
    }
}

/// Sets a property, or returns false if the word is none.
fn property(
    bucket: &mut Bucket,
    word: Word,
    kind: GroupKind,
    ports: &dyn PortNames,
) -> Result<bool, TextError> {
    let number = || Ok::<_, TextError>(word.required()?.value.number(MAX_GROUP.into())? as u32);
    match word.key.text {
        "weight" if kind == GroupKind::Select => bucket.weight = word.integer()?,
        "weight" => return Err(word.key.error(Reason::Expected("type=select for weights"))),
        "watch_port" => bucket.watch_port = watched(port::parse(word.required()?.value, ports)?),
        "watch_group" => bucket.watch_group = Some(number()?),
        "bucket_id" => bucket.id = number()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn watched(port: PortNo) -> Option<PortNo> {
    (port != PortNo::ANY).then_some(port)
}

fn default_weight(kind: GroupKind) -> u16 {
    u16::from(kind == GroupKind::Select)
}

/// Prints a group as `ovs-ofctl dump-groups` does. Identifiers of buckets are printed if they are not positions.
pub(super) fn print(out: &mut Out, group: &GroupMod) -> fmt::Result {
    if group.id == ALL_GROUPS {
        out.f.write_str("group_id=all")?;
    } else {
        write!(out.f, "group_id={}", group.id)?;
    }
    if group.command == GroupCommand::Delete {
        return Ok(());
    }
    let kind = KINDS.iter().find(|(_, kind)| *kind == group.kind).map_or("", |(name, _)| name);
    write!(out.f, ",type={kind}")?;
    group.buckets.iter().enumerate().try_for_each(|(at, bucket)| {
        out.f.write_str(",bucket=")?;
        print_bucket(out, bucket, at as u32, group.kind)
    })
}

fn print_bucket(out: &mut Out, bucket: &Bucket, at: u32, kind: GroupKind) -> fmt::Result {
    if bucket.id != at {
        write!(out.f, "bucket_id:{},", bucket.id)?;
    }
    if bucket.weight != default_weight(kind) {
        write!(out.f, "weight:{},", bucket.weight)?;
    }
    if let Some(port) = bucket.watch_port {
        out.f.write_str("watch_port:")?;
        port::print(out, port)?;
        out.f.write_str(",")?;
    }
    if let Some(group) = bucket.watch_group {
        write!(out.f, "watch_group:{group},")?;
    }
    out.f.write_str("actions=")?;
    actions::print_list(out, &bucket.actions)
}
