//! What an entry in the catalog of faults contains, and the macro that makes a type of all entries.
//!
//! Always true: each fault has one entry; its text, code, blame and line on the reference page come from there.
//! Not here: the entries (`catalog`).

use std::borrow::Cow;
use std::fmt;

use super::Blame;

/// The entry of one fault.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The variant of [`Fault`](super::Fault).
    pub name: &'static str,
    /// Whose fault it is.
    pub blame: Blame,
    /// The SQLSTATE, five characters; empty where the server's own is used.
    pub sqlstate: &'static str,
    /// The primary message, with `{name}` where a value is filled in.
    pub text: &'static str,
    /// When a client reads it.
    pub doc: &'static str,
}

/// The message of an entry with its values filled in.
pub(super) fn filled(text: fmt::Arguments<'_>) -> Cow<'static, str> {
    match text.as_str() {
        Some(whole) => Cow::Borrowed(whole),
        None => Cow::Owned(text.to_string()),
    }
}

/// An entry consists of a doc comment, the name and fields, who is to blame, the SQLSTATE, and the text with fields in
/// braces; `with` gives the expression to show for a field that cannot be shown as it is.
macro_rules! faults {
    ($(
        #[doc = $doc:literal]
        $name:ident $({ $($field:ident: $type:ty),* })? = $blame:ident, $sqlstate:ident, $text:literal
            $(, with $shown:ident = $value:expr)?;
    )*) => {
        /// An error that a client reads from the pooler; most of them end the connection.
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
            /// The name of the variant, which contains nothing that a client may choose.
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
            // Some fields appear in the DETAIL only.
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

            /// The SQLSTATE, where the server has not given its own.
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
