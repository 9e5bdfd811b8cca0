//! The words of enums, as tables and metrics tell them.
//!
//! Always true: a value has one word, and stands in `ALL` at its own place.
//! Not here: the enums.

/// All values of an enum, in their order, and their words in tables and metrics.
macro_rules! words {
    ($name:ident: $($value:ident = $word:literal),+ $(,)?) => {
        impl $name {
            /// All of them, in their order.
            pub const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];

            /// In tables and metrics.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }
    };
}

pub(crate) use words;
