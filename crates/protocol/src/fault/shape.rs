//! What an entry of the catalog of faults is, and how entries become a type.
//!
//! Always true: a fault has one entry, from which come its words, its code, who is to blame, and its line on the reference page.
//! Not here: the entries (`catalog`).

use std::borrow::Cow;
use std::fmt;

use super::Blame;

/// All that is known of one fault.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in [`Fault`](super::Fault).
    pub name: &'static str,
    /// Whose fault it is.
    pub blame: Blame,
    /// Five characters; empty where the server has its own.
    pub sqlstate: &'static str,
    /// The primary message, with `{name}` where something is filled in.
    pub text: &'static str,
    /// When a client reads it.
    pub doc: &'static str,
}

/// The message of an entry, filled in.
pub(super) fn filled(text: fmt::Arguments<'_>) -> Cow<'static, str> {
    match text.as_str() {
        Some(whole) => Cow::Borrowed(whole),
        None => Cow::Owned(text.to_string()),
    }
}

/// Each entry is its documentation, its name and fields, who is to blame, the code, and the text, in which fields stand in
/// braces; `with` says how one is written that does not speak for itself.
macro_rules! faults {
    ($(
        #[doc = $doc:literal]
        $name:ident $({ $($field:ident: $type:ty),* })? = $blame:ident, $sqlstate:ident, $text:literal
            $(, with $shown:ident = $value:expr)?;
    )*) => {
        /// Why a client is told an error and let go.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Fault {
            $(
                #[doc = $doc]
                $name $({
                    $(
                        #[allow(missing_docs)]
                        $field: $type,
                    )*
                })?,
            )*
        }

        impl Fault {
            /// Its name in the code, which has nothing in it that a client may choose.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }

            /// Whose fault it is.
            #[must_use]
            pub fn blame(&self) -> super::Blame {
                match self {
                    $(Self::$name { .. } => super::Blame::$blame,)*
                }
            }

            /// The primary message; also the reason in the log line that says why the client was closed.
            #[must_use]
            // A field may be for the detail only.
            #[allow(unused_variables)]
            pub fn text(&self) -> std::borrow::Cow<'static, str> {
                match self {
                    $(
                        Self::$name $({ $($field),* })? => {
                            $(let $shown = $value;)?
                            super::shape::filled(format_args!($text))
                        }
                    )*
                }
            }

            /// The code, where the server has not given another.
            pub(super) fn sqlstate(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $sqlstate,)*
                }
            }
        }

        /// Every fault.
        pub const CATALOG: &[super::Entry] = &[$(
            super::Entry {
                name: stringify!($name),
                blame: super::Blame::$blame,
                sqlstate: $sqlstate,
                text: $text,
                doc: $doc,
            },
        )*];
    };
}

pub(super) use faults;
