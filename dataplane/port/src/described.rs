//! Enumerations that users see: each value is defined once with its name and meaning, for program and reference.

/// Defines an enumeration. Each value: variant, name, the ports that it belongs to, and its meaning. The text after the
/// enumeration's name describes the ports.
macro_rules! described {
    ($(#[$attribute:meta])* $kind:ident, $ports:literal;
     $($variant:ident, $name:literal, $at:literal, $meaning:literal;)+) => {
        $(#[$attribute])*
        pub enum $kind {
            $(#[doc = $meaning] $variant),+
        }

        impl $kind {
            /// All values, in the order of their definition.
            pub const ALL: [$kind; [$($name),+].len()] = [$($kind::$variant),+];

            /// Name in tables, JSON and documentation.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name),+ }
            }

            #[doc = $ports]
            pub const fn at(self) -> &'static str {
                match self { $($kind::$variant => $at),+ }
            }

            /// Meaning in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $($kind::$variant => $meaning),+ }
            }
        }
    };
}

pub(crate) use described;
