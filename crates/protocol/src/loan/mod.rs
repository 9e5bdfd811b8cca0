//! A loan: the conversation between a client and the server lent to it.
//!
//! The client session ([`ClientSession`]) and the server session ([`ServerSession`]) outlive the loan that connects them.
//! This module defines what happens to both when bytes arrive from one of them. Messages of the client pass these stages,
//! in the order of [`Requests::hear`]:
//!
//! 1. framing (`wire::Scanner`): where the message begins and ends;
//! 2. refusal (`reading`): a statement that the pool's rules reject is replaced by a statement that fails with our error message;
//! 3. reading (`reading`): what the message may do to its session is noted;
//! 4. statements (`statements`): names of prepared statements are translated to those of the server;
//! 5. the exchange ([`crate::exchange`]): the answers that the server owes are counted.
//!
//! Always true: received bytes that are forwarded unchanged are not copied; bytes are sent in the order in which they are
//! given to [`ToServer`].
//! Not here: sockets, time, and who gets which server (`worker`, `pool`).

mod answer_tally;
mod answers;
mod applying;
mod client_session;
mod described;
mod ending;
mod loan_phase;
mod parameter_status;
mod plain_answers;
mod plain_batches;
mod plain_requests;
#[cfg(test)]
mod plain_stage;
mod read_request;
mod reading;
mod request_text;
mod requests;
mod server_session;
mod session_state;
mod set_parameters;
mod statements;
mod tags;
mod unlendable;
mod without_server;

pub use answer_tally::AnswerTally;
pub use answers::{Answers, OWN_ANSWER_BYTES_MAX, Place, ServerEvent, ToClient};
pub use applying::{Differences, StateMessages, begin, differ, doubt_what_was_read};
pub use client_session::{ClientSession, RequestFate};
pub use ending::{Ended, Failed, is_between, rests_as_it_is};
pub use loan_phase::{CleaningUp, LoanPhase, LoanPhaseKind};
pub use plain_answers::hear_plain;
pub use read_request::ReadRequest;
pub use reading::{Texts, Torn, bound, name, name_behind};
pub use request_text::{REQUEST_TEXT_BYTES_MAX, RequestText, request_text};
pub use requests::{Forwarded, NextStep, Requests, ToServer};
pub use server_session::{AnswerFate, DISCARD_SEQUENCES, SequenceOwner, ServerSession};
pub use session_state::{Probed, ProbedState, Terms, apply_effects, conclude, shared};
pub use set_parameters::SetParameters;
pub use statements::{Collected, may_be_by_sql};
pub use unlendable::Unlendable;
pub use without_server::{Unaided, may_be_unaided};
