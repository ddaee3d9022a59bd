//! The map from options of Geneve tunnels to fields, and the options of packets as fields.
//!
//! A controller binds a class, a type and a length to one of the fields `tun_metadata0` to `tun_metadata7`. Flows,
//! groups and packets then use the field. Values are in the lower bytes of the field; the bytes above the length are 0.

use crate::action::Subfield;
use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use ::tunnel::{Malformed, geneve_options};

/// Maximum length of an option in a Geneve header, in bytes.
const MAX_LEN: u8 = 124;

/// The option of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Option class.
    pub class: u16,
    /// Type, with the critical bit.
    pub kind: u8,
    /// Length of the data in bytes.
    pub len: u8,
}

/// The options that fields are bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionMap([Option<Mapping>; Field::OPTIONS as usize]);

/// A change of the map. Entries apply in order, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionChange {
    /// Binds options to fields.
    Add(Vec<(u8, Mapping)>),
    /// Frees fields, if they are bound.
    Delete(Vec<u8>),
    /// Frees all fields.
    Clear,
}

/// Why a change of the map is refused. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionMapError {
    /// `NXTTMFC_BAD_OPT_LEN`.
    #[error("length {0} of an option is not a multiple of 4 up to 124")]
    Len(u8),
    /// `NXTTMFC_BAD_FIELD_IDX`.
    #[error("field tun_metadata{0} does not exist: the last one is tun_metadata7")]
    Index(u8),
    /// `NXTTMFC_TABLE_FULL`.
    #[error("field tun_metadata{0} has {1} bytes: use tun_metadata0 or tun_metadata1 for options of 8 bytes")]
    Full(u8, usize),
    /// `NXTTMFC_ALREADY_MAPPED`.
    #[error("field tun_metadata{0} is bound to an option")]
    Bound(u8),
    /// `NXTTMFC_DUP_ENTRY`.
    #[error("the option of class {0:#x}, type {1:#x} is bound to another field")]
    Duplicate(u16, u8),
    /// `NXTTMFC_INVALID_TLV_DEL`.
    #[error("field tun_metadata{0} is used by a flow or a group")]
    Used(u8),
}

/// Why a match or an action is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// `NXFMFC_INVALID_TLV_FIELD`.
    #[error("field `{0}` is not bound to an option")]
    Unbound(&'static str),
    /// `OFPBMC_BAD_LEN` of a match, `OFPBAC_BAD_SET_LEN` of an action.
    #[error("a value for field `{0}` is longer than its option")]
    Len(&'static str),
}

/// Words of a key with the presence and the values of options.
const WORDS: std::ops::Range<usize> = 8..14;
const _: () = assert!(Field::TunOptions.info().word == 8 && Field::TunMetadata7.info().word == 13);

/// Options of received packets.
#[derive(Clone, Copy, Default)]
pub(crate) struct OptionValues([u64; WORDS.end - WORDS.start]);

impl OptionValues {
    /// Sets the fields of the options and their presence. These must be 0.
    pub(crate) fn set(&self, key: &mut Key) {
        key.0[WORDS].iter_mut().zip(&self.0).for_each(|(word, bits)| *word |= bits);
    }
}

impl Mapping {
    /// The bits of a field that the option has.
    fn bits(self) -> u128 {
        1_u128.checked_shl(8 * u32::from(self.len)).map_or(u128::MAX, |end| end - 1)
    }
}

impl OptionMap {
    /// Bytes of all fields.
    pub const SPACE: usize = 40;

    /// Whether no field is bound.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The bound fields by their numbers, with their options.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Mapping)> {
        (0..).zip(self.0).filter_map(|(n, mapping)| Some((n, mapping?)))
    }

    /// The map after a change. `is_used`: whether flows or groups use a field.
    ///
    /// # Errors
    /// If an entry is not valid.
    pub fn change(
        &self,
        change: &OptionChange,
        is_used: impl Fn(u8) -> bool,
    ) -> Result<Self, OptionMapError> {
        let mut map = *self;
        match change {
            OptionChange::Add(entries) => {
                entries.iter().try_for_each(|(n, mapping)| map.add(*n, *mapping))?;
            }
            OptionChange::Delete(fields) => fields.iter().try_for_each(|n| map.delete(*n, &is_used))?,
            OptionChange::Clear => (0..Field::OPTIONS).try_for_each(|n| map.delete(n, &is_used))?,
        }
        Ok(map)
    }

    fn add(&mut self, n: u8, mapping: Mapping) -> Result<(), OptionMapError> {
        let Mapping { class, kind, len } = mapping;
        if len % 4 != 0 || len > MAX_LEN {
            return Err(OptionMapError::Len(len));
        }
        let field = Field::of_option(n).ok_or(OptionMapError::Index(n))?;
        if self.0[usize::from(n)].is_some() {
            return Err(OptionMapError::Bound(n));
        }
        if self.find(class, kind).is_some() {
            return Err(OptionMapError::Duplicate(class, kind));
        }
        if usize::from(len) > field.bytes() {
            return Err(OptionMapError::Full(n, field.bytes()));
        }
        self.0[usize::from(n)] = Some(mapping);
        Ok(())
    }

    fn delete(&mut self, n: u8, is_used: &impl Fn(u8) -> bool) -> Result<(), OptionMapError> {
        let place = self.0.get_mut(usize::from(n)).ok_or(OptionMapError::Index(n))?;
        if place.is_some() && is_used(n) {
            return Err(OptionMapError::Used(n));
        }
        *place = None;
        Ok(())
    }

    fn find(&self, class: u16, kind: u8) -> Option<(u8, Mapping)> {
        self.iter().find(|(_, mapping)| (mapping.class, mapping.kind) == (class, kind))
    }

    /// The options of a received header as fields. Other options are left out; the last one of several equal ones
    /// counts.
    ///
    /// # Errors
    /// If an option is cut off, has another length than the map says, or is critical and not bound.
    pub(crate) fn read(&self, raw: &[u8]) -> Result<OptionValues, Malformed> {
        let mut key = Key::ZERO;
        for option in geneve_options(raw) {
            let option = option?;
            let found = self.find(option.class, option.kind);
            let is_valid = match found {
                Some((_, mapping)) => option.data.len() == usize::from(mapping.len),
                None => !option.is_critical(),
            };
            if !is_valid {
                return Err(Malformed::Options);
            }
            let Some((n, _)) = found else { continue };
            let value = option.data.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
            if let Some(field) = Field::of_option(n) {
                key.set(field, value);
            }
            key.set_masked(Field::TunOptions, 1 << n, 1 << n);
        }
        let mut values = OptionValues::default();
        values.0.copy_from_slice(&key.0[WORDS]);
        Ok(values)
    }

    /// The options of a header to send: those whose bit is set in `present`, in the order of their fields.
    pub(crate) fn write(&self, present: u128, value: impl Fn(Field) -> u128) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (n, Mapping { class, kind, len }) in self.iter().filter(|(n, _)| present >> n & 1 != 0) {
            let Some(field) = Field::of_option(n) else { continue };
            let value = value(field).to_be_bytes();
            bytes.extend(class.to_be_bytes());
            bytes.extend([kind, len / 4]);
            bytes.extend_from_slice(value.get(value.len() - usize::from(len)..).unwrap_or_default());
        }
        bytes
    }

    /// The match in the form in which tables have it: a mask that covers a whole option covers the whole field.
    ///
    /// # Errors
    /// If a field is not bound, or a value is longer than its option.
    pub fn normal(&self, found: &Match) -> Result<Match, OptionError> {
        let present = found.mask().get(Field::TunOptions);
        if present == 0 {
            return Ok(*found);
        }
        let (mut key, mut mask) = (*found.key(), *found.mask());
        for field in (0..Field::OPTIONS).filter(|n| present >> n & 1 != 0).filter_map(Field::of_option) {
            let bits = self.bits(field)?;
            if key.get(field) & !bits != 0 {
                return Err(OptionError::Len(field.info().name));
            }
            let own = mask.get(field) & bits;
            mask.set(field, if own == bits && bits != 0 { field.full() } else { own });
        }
        key = key.and(&mask);
        Ok(Match::new(&key, &mask))
    }

    /// Checks a part of a field that an action reads or writes.
    ///
    /// # Errors
    /// If the field is an option that is not bound, or the part exceeds it.
    pub(crate) fn check(&self, part: Subfield) -> Result<(), OptionError> {
        let is_within = |bits: u128| part.mask() & !bits == 0;
        self.require(part.field, is_within)
    }

    /// Checks a value that an action sets. A mask of the whole field stands for the whole option.
    ///
    /// # Errors
    /// If the field is an option that is not bound, or the value exceeds it.
    pub(crate) fn check_value(&self, field: Field, value: u128, mask: u128) -> Result<(), OptionError> {
        let set = if mask == field.full() { value } else { mask };
        self.require(field, |bits| set & !bits == 0)
    }

    fn require(&self, field: Field, is_within: impl Fn(u128) -> bool) -> Result<(), OptionError> {
        if field.option().is_none() || is_within(self.bits(field)?) {
            Ok(())
        } else {
            Err(OptionError::Len(field.info().name))
        }
    }

    /// The bits of a field that its option has.
    fn bits(&self, field: Field) -> Result<u128, OptionError> {
        let mapping = field.option().and_then(|n| self.0[usize::from(n)]);
        mapping.map(Mapping::bits).ok_or(OptionError::Unbound(field.info().name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(class: u16, kind: u8, len: u8) -> Mapping {
        Mapping { class, kind, len }
    }

    fn map(entries: &[(u8, Mapping)]) -> OptionMap {
        OptionMap::default().change(&OptionChange::Add(entries.to_vec()), |_| false).unwrap()
    }

    const CLASS: u16 = 0x0102;

    fn some() -> OptionMap {
        map(&[(0, mapping(CLASS, 0x80, 4)), (1, mapping(CLASS, 1, 8)), (7, mapping(0xffff, 2, 0))])
    }

    #[test]
    fn entries_are_checked_in_order_and_all_or_none_apply() {
        let four = mapping(9, 9, 4);
        for (entry, error) in [
            ((2, mapping(9, 9, 5)), OptionMapError::Len(5)),
            ((2, mapping(9, 9, 128)), OptionMapError::Len(128)),
            ((8, four), OptionMapError::Index(8)),
            ((0, mapping(CLASS, 0x80, 4)), OptionMapError::Bound(0)),
            ((2, mapping(CLASS, 0x80, 8)), OptionMapError::Duplicate(CLASS, 0x80)),
            ((2, mapping(8, 9, 8)), OptionMapError::Full(2, 4)),
            ((3, four), OptionMapError::Duplicate(9, 9)),
        ] {
            let add = OptionChange::Add(vec![(5, four), entry]);
            assert_eq!(some().change(&add, |_| false), Err(error));
        }
        assert_eq!(some().iter().map(|(n, _)| n).collect::<Vec<_>>(), [0, 1, 7]);
    }

    #[test]
    fn only_unused_fields_are_freed() {
        let used = |n: u8| n == 1;
        let delete = |fields: &[u8]| some().change(&OptionChange::Delete(fields.to_vec()), used);
        assert_eq!(delete(&[0, 1]), Err(OptionMapError::Used(1)));
        assert_eq!(delete(&[9]), Err(OptionMapError::Index(9)));
        let left: Vec<_> = delete(&[0, 3, 7]).unwrap().iter().collect();
        assert_eq!(left, [(1, mapping(CLASS, 1, 8))]);
        assert_eq!(some().change(&OptionChange::Clear, used), Err(OptionMapError::Used(1)));
        assert!(some().change(&OptionChange::Clear, |_| false).unwrap().is_empty());
        let unbound = some().change(&OptionChange::Delete(vec![2]), |_| true).unwrap();
        assert_eq!(unbound, some());
    }

    #[test]
    fn options_are_read_and_written_in_the_order_of_fields() {
        let raw = [
            &[1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7][..],
            &[0, 9, 1, 0],
            &[0xff, 0xff, 2, 0],
            &[1, 2, 0x80, 1, 1, 1, 1, 1],
            &[1, 2, 0x80, 1, 0, 0, 0xab, 0xcd],
        ];
        let mut key = Key::ZERO;
        some().read(&raw.concat()).unwrap().set(&mut key);
        let get = |field| key.get(field);
        assert_eq!(get(Field::TunOptions), 0b1000_0011);
        assert_eq!((get(Field::TunMetadata0), get(Field::TunMetadata1)), (0xabcd, 7));
        let written = some().write(get(Field::TunOptions), get);
        assert_eq!(written, [raw[4], raw[0], raw[2]].concat());
        assert_eq!(some().write(0, get), []);
    }

    #[test]
    fn received_options_that_do_not_fit_the_map_are_refused() {
        for raw in [
            // Critical and not bound, another length, cut off.
            &[0, 9, 0x81, 0][..],
            &[1, 2, 1, 1, 0, 0, 0, 0],
            &[1, 2, 1, 3, 0, 0, 0, 0],
        ] {
            assert!(matches!(some().read(raw), Err(Malformed::Options)), "{raw:?}");
        }
        assert!(OptionMap::default().read(&[1, 2, 1, 1, 0, 0, 0, 0]).is_ok());
    }

    #[test]
    fn a_mask_of_a_whole_option_is_exact() {
        let part = Match::any().with_masked(Field::TunMetadata0, 5, 0xffff_ffff);
        let exact = Match::any().with(Field::TunMetadata0, 5);
        assert_eq!(some().normal(&part), Ok(exact));
        assert_eq!(some().normal(&exact), Ok(exact));
        let masked = Match::any().with_masked(Field::TunMetadata0, 5, 0xf_0000_00ff);
        let expected = Match::any().with_masked(Field::TunMetadata0, 5, 0xff);
        assert_eq!(some().normal(&masked), Ok(expected));
        let present = Match::any().with_masked(Field::TunMetadata7, 0, 0);
        assert_eq!(some().normal(&Match::any().with(Field::TunMetadata7, 0)), Ok(present));
        let long = Match::any().with(Field::TunMetadata0, 1 << 32);
        assert_eq!(some().normal(&long), Err(OptionError::Len("tun_metadata0")));
        let unbound = Match::any().with(Field::TunMetadata2, 0);
        assert_eq!(some().normal(&unbound), Err(OptionError::Unbound("tun_metadata2")));
    }

    #[test]
    fn parts_and_values_are_within_the_option() {
        let part = |bits| Subfield { field: Field::TunMetadata0, offset: 8, bits };
        assert_eq!(some().check(part(24)), Ok(()));
        assert_eq!(some().check(part(25)), Err(OptionError::Len("tun_metadata0")));
        assert_eq!(
            some().check(Subfield::whole(Field::TunMetadata2)),
            Err(OptionError::Unbound("tun_metadata2"))
        );
        let value = |value, mask| some().check_value(Field::TunMetadata0, value, mask);
        assert_eq!((value(7, u64::MAX.into()), value(7, 0xff)), (Ok(()), Ok(())));
        let long = Err(OptionError::Len("tun_metadata0"));
        assert_eq!((value(1 << 32, u64::MAX.into()), value(0, 1 << 33)), (long, long));
        assert_eq!(some().check_value(Field::Reg0, 7, 0xff), Ok(()));
    }

    /// A map with options of some fields, each as long as its field allows or shorter, by the bits of `bound`.
    fn any_map(bound: u8, lens: [u8; 8]) -> OptionMap {
        let entry = |n: u8| {
            let longest = Field::of_option(n)?.bytes() as u8;
            let len = lens[usize::from(n)] % (longest / 4 + 1) * 4;
            // Every second one is critical.
            (bound >> n & 1 != 0).then(|| (n, mapping(CLASS, n << 7 | n, len)))
        };
        map(&(0..Field::OPTIONS).filter_map(entry).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn options_that_are_written_are_read_again(bound: u8, lens: [u8; 8], present: u8, words: [u64; 6]) {
            let map = any_map(bound, lens);
            let sent = Key(std::array::from_fn(|i| if WORDS.contains(&i) { words[i - WORDS.start] } else { 0 }));
            let written = map.write(present.into(), |field| sent.get(field));
            let mut read = Key::ZERO;
            map.read(&written).unwrap().set(&mut read);
            prop_assert_eq!(read.get(Field::TunOptions), u128::from(present & bound));
            for (n, Mapping { len, .. }) in map.iter().filter(|(n, _)| present >> n & 1 != 0) {
                let field = Field::of_option(n).unwrap();
                let bits = if len == 0 { 0 } else { u128::MAX >> (128 - u32::from(len) * 8) };
                prop_assert_eq!(read.get(field), sent.get(field) & bits, "field {}", n);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bound: u8, lens: [u8; 8], raw in prop::collection::vec(any::<u8>(), 0..80)) {
            let map = any_map(bound, lens);
            if let Ok(values) = map.read(&raw) {
                let mut key = Key::ZERO;
                values.set(&mut key);
                prop_assert_eq!(key.get(Field::TunOptions) & !u128::from(bound), 0);
            }
        }
    }
}
