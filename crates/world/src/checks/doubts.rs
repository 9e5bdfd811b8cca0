//! What a client is told whose server was lost: that the outcome of its request is unknown (08007), or that its session is over.
//!
//! Always true: an unknown outcome is told only to who waits for an answer, and whose request was carried out is not told that it was not.
//! Not here: which writes are committed (`members::history`).

use crate::app::Ended;
use crate::checks::witness::Charge;
use crate::state::World;

impl World {
    /// Checks the error of a disconnected client of a cluster.
    pub(crate) fn check_doubt(&mut self, number: u32, ended: &Ended) {
        let (Some(members), Ended::Refused { sqlstate, text, .. }) = (&self.members, ended) else { return };
        let app = &self.apps[number as usize];
        if sqlstate == "08007" {
            self.witness.count("outcomes unknown");
            if !app.was_waiting {
                let text = format!("application {number}, which waits for nothing, is told {text:?}");
                self.witness.accuse(Charge::NoReason, text);
            }
            return;
        }
        let history = members.history.borrow();
        let done = app.in_doubt.iter().find(|nonce| history.is_committed(**nonce));
        if let Some(nonce) = done.filter(|_| OVER.iter().any(|over| text.starts_with(over))) {
            let text = format!("application {number} is told {text:?}, and {nonce} is committed");
            self.witness.accuse(Charge::WrongHost, text);
        }
    }
}

/// Errors after which a client may repeat what it has sent.
const OVER: [&str; 2] = ["server conn crashed?", "terminating connection because the primary changes"];
