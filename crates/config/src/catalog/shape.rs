//! The shape of a setting's entry, and the macro that makes a field and an entry of each line of the catalog.
//!
//! Always true: a field of [`Settings`](super::Settings) and its entry come from the same line, so they cannot
//! disagree.
//! Not here: the lines (`entries`).

use super::Settings;
use super::kinds::{Misfit, Range};

/// When a change takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// At a reload.
    Live,
    /// At the next start.
    Restart,
}

/// Whether this version uses the setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It does.
    Built,
    /// The setting is accepted, but has no meaning here.
    Moot,
}

/// Everything about one setting.
pub struct Entry {
    /// Its name in the file and in [`Settings`](super::Settings).
    pub name: &'static str,
    /// The name of its type.
    pub kind: &'static str,
    /// The unit of its numbers; empty for texts and plain numbers.
    pub unit: &'static str,
    /// The text of its default; `None` is NULL.
    pub default: Option<&'static str>,
    /// The smallest and the largest number, both allowed.
    pub range: Option<(i64, i64)>,
    /// When a change takes effect.
    pub reload: Reload,
    /// Whether the setting has an effect at all.
    pub state: State,
    /// Whether its text may contain a secret, which no message may repeat.
    pub is_secret: bool,
    /// Its purpose, in one line.
    pub doc: &'static str,
    pub(crate) set: fn(&mut Settings, &str) -> Result<(), Misfit>,
    pub(crate) show: fn(&Settings) -> Option<String>,
    pub(crate) copy: fn(&mut Settings, &Settings),
}

/// The range of an entry: its own, or that of its type.
pub(crate) const fn range_or(own: Option<Range>, kind: Option<Range>) -> Option<Range> {
    match own {
        Some(range) => Some(range),
        None => kind,
    }
}

macro_rules! catalog {
    ($(
        #[doc = $doc:literal]
        $name:ident: $kind:ty $([$min:literal ..= $max:literal])? = $default:expr, $reload:ident, $state:ident;
    )*) => {
        /// The checked, immutable whole of a configuration: every setting as a field of its name, and what the other
        /// sections define. Shared behind an `Arc`, replaced as a whole.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Settings {
            $(
                #[doc = $doc]
                pub $name: <$kind as super::kinds::Kind>::Value,
            )*
            /// The databases of `[databases]`, without `*`.
            pub databases: std::collections::BTreeMap<std::sync::Arc<str>, std::sync::Arc<crate::Database>>,
            /// The line `*` of `[databases]`, as a database of that name.
            pub fallback: Option<std::sync::Arc<crate::Database>>,
            /// The users of `[users]`.
            pub users: std::collections::BTreeMap<std::sync::Arc<str>, std::sync::Arc<crate::UserSettings>>,
            /// The peers, by their ids.
            pub peers: std::collections::BTreeMap<u16, crate::Peer>,
            /// The clusters of `[clusters]`, by their names.
            pub clusters: std::collections::BTreeMap<std::sync::Arc<str>, std::sync::Arc<crate::Cluster>>,
            /// The rules of `[rate_limits]`, by their names.
            pub rate_limits: std::collections::BTreeMap<std::sync::Arc<str>, std::sync::Arc<pool::RateRule>>,
            /// Whether nothing is written to standard error (`-q`).
            pub quiet: bool,
        }

        impl Default for Settings {
            /// The settings of an empty file.
            fn default() -> Self {
                use super::kinds::Kind;
                Self {
                    $($name: <$kind>::initial($default, super::shape::catalog!(@range $kind $(, $min, $max)?)),)*
                    databases: std::collections::BTreeMap::new(),
                    fallback: None,
                    users: std::collections::BTreeMap::new(),
                    peers: std::collections::BTreeMap::new(),
                    clusters: std::collections::BTreeMap::new(),
                    rate_limits: std::collections::BTreeMap::new(),
                    quiet: false,
                }
            }
        }

        /// Every setting, in the order of `SHOW CONFIG`.
        pub const CATALOG: &[super::shape::Entry] = &[$(
            super::shape::Entry {
                name: stringify!($name),
                kind: <$kind as super::kinds::Kind>::NAME,
                unit: <$kind as super::kinds::Kind>::UNIT,
                default: $default,
                range: super::shape::catalog!(@range $kind $(, $min, $max)?),
                reload: super::shape::Reload::$reload,
                state: super::shape::State::$state,
                is_secret: <$kind as super::kinds::Kind>::IS_SECRET,
                doc: $doc,
                set: |settings, text| {
                    let range = super::shape::catalog!(@range $kind $(, $min, $max)?);
                    settings.$name = <$kind as super::kinds::Kind>::parse(text, range)?;
                    Ok(())
                },
                show: |settings| <$kind as super::kinds::Kind>::show(&settings.$name, $default),
                copy: |target, source| target.$name = source.$name.clone(),
            },
        )*];
    };
    (@range $kind:ty) => {
        super::shape::range_or(None, <$kind as super::kinds::Kind>::RANGE)
    };
    (@range $kind:ty, $min:literal, $max:literal) => {
        super::shape::range_or(Some(($min, $max)), <$kind as super::kinds::Kind>::RANGE)
    };
}

pub(crate) use catalog;
