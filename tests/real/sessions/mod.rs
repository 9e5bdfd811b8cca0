//! State that belongs to a client and follows it, or keeps its server.

pub(crate) mod answers;
pub(crate) mod functions;
pub(crate) mod habits;
pub(crate) mod identity;
pub(crate) mod listen;
pub(crate) mod lock_calls;
pub(crate) mod long_texts;
pub(crate) mod meaning;
pub(crate) mod pins;
pub(crate) mod reported;
pub(crate) mod sequences;
pub(crate) mod settings;
pub(crate) mod state;
pub(crate) mod stranded;
pub(crate) mod told;
