//! Errors of text, with their place.

use super::piece::Piece;
use crate::action::BadSubfield;
use crate::matching::BadMatch;
use std::ops::Range;

/// A word that cannot be understood, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid `{word}`: {reason}")]
pub struct TextError {
    /// The word, shortened to [`TextError::WORD`] characters.
    pub word: String,
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// Reason and remedy.
    pub reason: Reason,
}

impl TextError {
    /// Maximum length of a word in an error, in characters.
    pub const WORD: usize = 60;
}

/// Why text cannot be understood. Each reads as reason and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A parenthesis or quotation mark has no counterpart.
    #[error("parentheses or quotation marks are not balanced; close each one that is opened")]
    Unbalanced,
    /// Text after a closing parenthesis.
    #[error("text follows a closing parenthesis; separate words by commas")]
    Trailing,
    /// The text exceeds [`super::MAX_LENGTH`].
    #[error("the text has more than {} bytes; split it", super::MAX_LENGTH)]
    TooLong,
    /// Actions are nested deeper than [`super::MAX_DEPTH`].
    #[error("actions are nested more than {} levels deep; use tables instead", super::MAX_DEPTH)]
    TooDeep,
    /// No action of this name.
    #[error("unknown action or port{}", near(*.0))]
    UnknownAction(Option<&'static str>),
    /// An action of Open vSwitch that this switch does not have.
    #[error("the action is not supported; see ovs-actions(7) for actions with a similar effect")]
    NotSupported,
    /// No keyword or field of this name here.
    #[error("unknown keyword{}", near(*.0))]
    UnknownWord(Option<&'static str>),
    /// No field of this name.
    #[error("unknown field{}", near(*.0))]
    UnknownField(Option<&'static str>),
    /// No port of this name.
    #[error("unknown port; use its number, its name, or a reserved port such as NORMAL or LOCAL")]
    UnknownPort,
    /// Another form is needed.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A number is malformed or out of range.
    #[error("expected a number from 0 to {0} ({0:#x}), decimal or with 0x, without leading zeros")]
    Number(u128),
    /// A part of the text is absent.
    #[error("missing {0}")]
    Missing(&'static str),
    /// A word occurs twice with different values, or with one that excludes it.
    #[error("it contradicts an earlier word; remove one of them")]
    Contradiction,
    /// The value does not fit.
    #[error("the value does not fit in {0} bits; use a smaller one or a wider field")]
    Fit(u8),
    /// Parts of different widths.
    #[error("the parts have {0} and {1} bits; select equally many bits of both")]
    Widths(u8, u8),
    /// A field cannot be written.
    #[error("field `{0}` is read-only; write another field")]
    ReadOnly(&'static str),
    /// The field is written only within `ct(exec(...))`, or only others are.
    #[error(
        "field `{0}` cannot be written here; write ct_mark and ct_label within ct(exec(...)), others outside"
    )]
    Exec(&'static str),
    /// `drop` beside others.
    #[error("`drop` must be the only action; remove it or the others")]
    Drop,
    /// An instruction after a later one.
    #[error(
        "wrong order; write meter, actions, clear_actions, write_actions, write_metadata, goto_table, each once"
    )]
    Order,
    /// Not allowed for this command.
    #[error("not allowed for this command; remove it")]
    Command,
    /// A field is not allowed in this match.
    #[error("{0}{hint}", hint = hint(.0))]
    Match(#[from] BadMatch),
    /// A part is not within its field.
    #[error("{0}")]
    Subfield(#[from] BadSubfield),
}

fn near(name: Option<&str>) -> String {
    name.map_or_else(
        || "; see ovs-ofctl(8) for names".to_owned(),
        |name| format!("; the nearest is `{name}`"),
    )
}

fn hint(error: &BadMatch) -> &'static str {
    match error {
        BadMatch::Prerequisite(..) => "; add it, for example as `ip`, `tcp`, `udp6` or `arp`",
        BadMatch::Duplicate(_) => "; remove one of them",
        BadMatch::Mask(_) => "; remove the mask",
        BadMatch::Wildcards(_) | BadMatch::Value(_) => "; see ovs-fields(7) for values",
    }
}

/// The name most like `word`.
pub(super) fn nearest(word: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let word: String = word.chars().take(TextError::WORD).collect::<String>().to_lowercase();
    let rated = names.map(|name| (strsim::jaro_winkler(&word, name), name));
    rated.filter(|(rate, _)| *rate > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

impl Piece<'_> {
    /// An error at this piece.
    pub(super) fn error(self, reason: impl Into<Reason>) -> TextError {
        let word = self.text.chars().take(TextError::WORD).collect();
        TextError { word, range: self.at..self.at + self.text.len(), reason: reason.into() }
    }
}
