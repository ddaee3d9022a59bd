//! Reading and writing of integers in network order, and structures that are sequences of them.
//!
//! Every read is checked. A read past the end returns the error that the reader was made with, because OpenFlow has a
//! different code for a wrong length of each part of a message.

use crate::error::ErrorCode;
use flow::{PortNo, TableId};
use std::time::Duration;
use wire::MacAddress;

/// Unread bytes of a part of a message.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    short: ErrorCode,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], short: ErrorCode) -> Self {
        Self { bytes, short }
    }

    /// The same bytes with another error for reads past the end.
    pub(crate) fn or(self, short: ErrorCode) -> Self {
        Self { short, ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Unread bytes, without reading them.
    pub(crate) fn peek(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// Reads the rest. Returns whether it is padding.
    pub(crate) fn rest_is_zero(&mut self) -> bool {
        self.rest().iter().all(|byte| *byte == 0)
    }

    /// The unread bytes as a reader of their own; none remain.
    pub(crate) fn drain(&mut self) -> Self {
        Self { bytes: self.rest(), short: self.short }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], ErrorCode> {
        let (read, rest) = self.bytes.split_at_checked(len).ok_or(self.short)?;
        self.bytes = rest;
        Ok(read)
    }

    /// The next `len` bytes as a reader of their own.
    pub(crate) fn take(&mut self, len: usize) -> Result<Self, ErrorCode> {
        Ok(Self { bytes: self.bytes(len)?, short: self.short })
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<(), ErrorCode> {
        self.bytes(len).map(|_| ())
    }

    /// Skips up to the next multiple of 8 bytes after `len` bytes, or to the end.
    pub(crate) fn skip_padding(&mut self, len: usize) {
        let padding = (len.next_multiple_of(8) - len).min(self.bytes.len());
        self.bytes = &self.bytes[padding..];
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorCode> {
        let (read, rest) = self.bytes.split_first_chunk().ok_or(self.short)?;
        self.bytes = rest;
        Ok(*read)
    }

    pub(crate) fn get<T: Wire>(&mut self) -> Result<T, ErrorCode> {
        T::read(self)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ErrorCode> {
        self.get()
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ErrorCode> {
        self.get()
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ErrorCode> {
        self.get()
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ErrorCode> {
        self.get()
    }

    /// An integer of `len` bytes, at most 16.
    pub(crate) fn uint(&mut self, len: usize) -> Result<u128, ErrorCode> {
        Ok(self.bytes(len)?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }

    /// Text in a field of `len` bytes, up to the first zero byte.
    pub(crate) fn text(&mut self, len: usize) -> Result<String, ErrorCode> {
        let bytes = self.bytes(len)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(len);
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Reads structures until the end.
    pub(crate) fn all<T: Wire>(&mut self) -> Result<Vec<T>, ErrorCode> {
        self.repeat(T::read)
    }

    /// Reads until the end. `read` must read at least one byte.
    pub(crate) fn repeat<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, ErrorCode>,
    ) -> Result<Vec<T>, ErrorCode> {
        let mut found = Vec::new();
        while !self.is_empty() {
            found.push(read(self)?);
        }
        Ok(found)
    }

    /// Requires that all bytes were read.
    pub(crate) fn end(&self) -> Result<(), ErrorCode> {
        if self.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// Appends to a message.
pub(crate) trait Put {
    fn put<T: Wire>(&mut self, value: &T);
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_zeros(&mut self, len: usize);
    /// The lowest `len` bytes, at most 16.
    fn put_uint(&mut self, value: u128, len: usize);
    /// Text in a field of `len` bytes, cut so that a zero byte follows.
    fn put_text(&mut self, text: &str, len: usize);
    /// Zeros up to a multiple of 8 bytes from `start`.
    fn pad(&mut self, start: usize);
    /// Writes the number of bytes from `start` to the end as 16 bits at `at`.
    fn patch_len(&mut self, start: usize, at: usize);
}

impl Put for Vec<u8> {
    fn put<T: Wire>(&mut self, value: &T) {
        value.write(self);
    }

    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_zeros(&mut self, len: usize) {
        self.resize(self.len() + len, 0);
    }

    fn put_uint(&mut self, value: u128, len: usize) {
        self.extend_from_slice(&value.to_be_bytes()[16 - len..]);
    }

    fn put_text(&mut self, text: &str, len: usize) {
        let end = text.floor_char_boundary(len - 1);
        self.extend_from_slice(&text.as_bytes()[..end]);
        self.put_zeros(len - end);
    }

    fn pad(&mut self, start: usize) {
        self.put_zeros((self.len() - start).next_multiple_of(8) - (self.len() - start));
    }

    /// A length of more than 16 bits is cut; the message that contains it is then too long, which is an error.
    fn patch_len(&mut self, start: usize, at: usize) {
        let len = (self.len() - start) as u16;
        self[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
}

/// A value of fixed size.
pub(crate) trait Wire: Sized {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode>;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl Wire for $kind {
            fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
                from.array().map(Self::from_be_bytes)
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 }

impl Wire for PortNo {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        from.u32().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.0);
    }
}

impl Wire for TableId {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        from.u8().map(Self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
}

impl Wire for MacAddress {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        from.array().map(Self::new)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }
}

/// Seconds and nanoseconds of 32 bits each. Nanoseconds of all ones stand for an unknown duration, which is the
/// maximum.
impl Wire for Duration {
    fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (seconds, nanoseconds) = (from.u32()?, from.u32()?);
        let is_known = nanoseconds != u32::MAX;
        Ok(if is_known { Self::new(u64::from(seconds), nanoseconds) } else { Self::MAX })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(u32::try_from(self.as_secs()).unwrap_or(u32::MAX));
        out.put_u32(if *self == Self::MAX { u32::MAX } else { self.subsec_nanos() });
    }
}

/// Defines a structure and its encoding: fields in order, each after `[n]` bytes of padding.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* $([$padding:literal])? $field:ident: $kind:ty,)*
    } $([$end:literal])?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind,)*
        }

        impl $crate::bytes::Wire for $name {
            fn read(
                from: &mut $crate::bytes::Reader<'_>,
            ) -> Result<Self, $crate::error::ErrorCode> {
                $($(from.skip($padding)?;)? let $field = from.get()?;)*
                $(from.skip($end)?;)?
                Ok(Self { $($field,)* })
            }

            fn write(&self, out: &mut Vec<u8>) {
                use $crate::bytes::Put;
                $($(out.put_zeros($padding);)? out.put(&self.$field);)*
                $(out.put_zeros($end);)?
            }
        }
    };
}

/// Defines an enumeration of numbers of a message.
macro_rules! numbered {
    ($(#[$meta:meta])* pub enum $name:ident: $kind:ty {
        $($(#[$variant_meta:meta])* $variant:ident = $number:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $number,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Number in messages.
            pub fn number(self) -> $kind {
                self as $kind
            }

            /// The value of a number.
            pub fn from_number(number: $kind) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.number() == number)
            }
        }
    };
}

pub(crate) use {numbered, record};
