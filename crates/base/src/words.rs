//! The words for enum variants in tables and metrics.
//!
//! Always true: a variant has one word, and its index in `ALL` is its own value.
//! Not here: the enums.

/// Implements `ALL` and `word` for an enum.
#[macro_export]
macro_rules! words {
    ($name:ident: $($value:ident = $word:literal),+ $(,)?) => {
        impl $name {
            /// All variants, in their order.
            pub const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];

            /// The word used in tables and metrics.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }
    };
}
