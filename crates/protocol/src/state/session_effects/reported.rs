//! What a client's statements certainly do to parameters that servers report, and from which message on.
//!
//! Always true: an effect of a message is not taken for one of a message before it.
//! Not here: what is reported to the client, and when (`loan::parameter_status`).

use super::SessionEffects;
use crate::state::effects::Effects;

impl SessionEffects {
    /// What is certain about parameters that servers report.
    #[must_use]
    pub fn effects_on_parameters(&self) -> Option<&Effects> {
        let effects = if self.is_known() { &self.certain } else { &self.discard };
        Some(effects).filter(|effects| !effects.0.is_empty())
    }

    /// The message of this number has been read, and nothing behind it.
    pub fn note_place(&mut self, number: u64) {
        self.parameters_from = match self.effects_on_parameters() {
            None => 0,
            Some(_) if self.parameters_from == 0 => number,
            Some(_) => self.parameters_from,
        };
    }

    /// Whether the first effect on parameters is one of a message behind that of this number.
    #[must_use]
    pub fn sets_parameters_behind(&self, number: u64) -> bool {
        self.parameters_from > number
    }
}
