//! Session state outside of transactions: what a session keeps, and how it follows its client from server to server.
//!
//! Always true: the state of a server is known from its own report, or from statements whose effect is certain; where
//! neither is so, the server is probed before another client gets it.
//! Not here: what a text of SQL may touch (crate `route`), when a server is probed (`worker::data::probe`).

mod along;
mod answer;
mod effects;
mod function_catalog;
mod locks;
mod long_texts;
mod marks;
mod mentioned;
mod noted;
mod overrides;
mod patience;
mod pins;
mod policy;
mod probe;
mod rounds;
mod sequences;
mod session_effects;
mod statements;
mod subscriptions;
mod unlisten;

pub use along::{SettingStatements, is_ours};
pub use answer::{ANSWER_BYTES_MAX, lock_key};
pub use effects::{Circumstances, Effects, needs_nothing};
pub use function_catalog::FunctionCatalog;
pub use marks::Marks;
pub use mentioned::Mentioned;
pub use overrides::{Overrides, without_statements};
pub use patience::Patience;
pub use pins::{Hold, Kind, PINS_MAX, Pin, Pins};
pub use policy::{PinRules, Policy, Unseen};
pub use probe::{ALL_LOCKS, PROBED, Probe, Seen};
pub use rounds::Rounds;
pub use sequences::{Asking, Counted, Counting, Habits};
pub use session_effects::SessionEffects;
pub use statements::{Preparation, Statement, Statements};
pub use subscriptions::{MARKS, Subscriptions, channel_of, mark_of};
pub use unlisten::Unlistens;
