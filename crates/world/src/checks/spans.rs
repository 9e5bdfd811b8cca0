//! Spans that a worker exports.
//!
//! Always true: the trace context of a statement comes with the text of that statement, whichever client the server
//! served next or whatever reused the place in a table; the times of the parts fit into the time of the whole.
//! Not here: that a statement has spans at all, which a test with a real server checks
//! (`tests/real/operation/spans.rs`).

use std::time::Duration;

use worker::letters::StatementSpans;

use crate::checks::witness::Charge;
use crate::state::World;

impl World {
    /// Checks the spans that a worker has sent.
    pub(crate) fn check_spans(&mut self, statements: &[StatementSpans]) {
        for statement in statements {
            self.witness.count("statements with spans");
            self.check_statement(statement);
        }
    }

    fn check_statement(&mut self, statement: &StatementSpans) {
        let number = u128::from_be_bytes(statement.parent.trace_id);
        let nonce = format!(" n={}.{} ", number >> 64, number & u128::from(u64::MAX));
        let text = String::from_utf8_lossy(&statement.text.bytes);
        if !text.contains(&nonce) {
            self.witness.accuse(Charge::ForeignBytes, format!("spans of{nonce}have the text {text}"));
        }
        let waited = statement.wait.map_or(Duration::ZERO, |(_, waited)| waited);
        let served = statement.server.as_ref().map_or(Duration::ZERO, |server| server.settings + server.took);
        if waited + served > statement.took {
            let took = statement.took;
            let text = format!("spans of{nonce}take {took:?}, of which it waited {waited:?} and was served {served:?}");
            self.witness.accuse(Charge::Counters, text);
        }
        if statement.server.is_none() && statement.error.is_none() {
            self.witness.accuse(Charge::Counters, format!("spans of{nonce}have neither a server nor an error"));
        }
    }
}
