//! The function call subprotocol (`FunctionCall`).
//!
//! Always true: the only argument is the nonce, and so is the result.
//! Not here: other requests (`speech`).

use wire::backend::TxStatus;
use wire::{frontend, write};

use super::belief::{Expect, Request};
use super::speaker::Speaker;
use crate::postgres::sql::Verb;

impl Speaker<'_> {
    pub(super) fn function(&mut self) -> Request {
        let mut request = self.blank();
        let statement = self.statement(Verb::Notice);
        request.nonce = statement.nonce;
        let value = statement.nonce.to_string();
        write::message(&mut request.bytes, frontend::FUNCTION_CALL, |out| {
            out.extend([0, 0, 0, 1, 0, 0, 0, 1]);
            out.extend((value.len() as u32).to_be_bytes());
            out.extend(value.as_bytes());
            out.extend([0, 0]);
        });
        let is_failed = self.belief.tx == TxStatus::Failed;
        let expect = if is_failed { Expect::Error("25P02") } else { Expect::Function };
        request.expects.push_back((request.nonce, expect));
        self.ready(&mut request);
        request
    }
}
