//! Settings that the pooler sends along with a client's request.
//!
//! Always true: the statements for this follow the same strict rules as any prepared statement.
//! Not here: settings that are sent on their own (`run`).

use wire::backend::{self, TxStatus};
use wire::write;

use super::state::Session;
use crate::checks::witness::Witness;
use crate::postgres::sql::Nonce;

/// Returns whether this is the name of such a statement.
pub(super) fn is_of(name: &str) -> bool {
    name.starts_with("TRUNKLINE_STATE_")
}

impl Session {
    pub(super) fn parse_along(&mut self, name: &str, text: &str) {
        if self.along.prepared.insert(name.to_owned(), text.to_owned()).is_some() {
            self.fail("42P05", &format!("prepared statement \"{name}\" already exists"), true);
        } else {
            write::bare(&mut self.out, backend::PARSE_COMPLETE);
        }
    }

    pub(super) fn bind_along(&mut self, name: &str, body: &[u8]) {
        let Some(text) = self.along.prepared.get(name) else {
            self.fail("26000", &format!("prepared statement \"{name}\" does not exist"), true);
            return;
        };
        self.along.portal = Some((text.clone(), values(body)));
        write::bare(&mut self.out, backend::BIND_COMPLETE);
    }

    /// Executes the bound statement. Returns whether there was one.
    pub(super) fn execute_along(&mut self, witness: &mut Witness) -> bool {
        let Some((text, values)) = self.along.portal.take() else { return false };
        witness.count("told along");
        match &*text {
            "BEGIN" => {
                self.before = Some(self.vars.clone());
                self.tx = TxStatus::Open;
            }
            "COMMIT" => {
                self.before = None;
                self.commit_channels();
                self.tx = TxStatus::Idle;
                // The messages behind it belong to the client.
                self.is_in_batch = false;
            }
            _ => {
                for pair in values.chunks(2) {
                    let [name, value] = pair else { continue };
                    match &**name {
                        "app.mark" if Nonce::read(value).is_some_and(Nonce::is_refused_elsewhere) => {
                            self.fail("22023", "invalid value for parameter", true);
                            return true;
                        }
                        "app.mark" => self.vars.mark.clone_from(value),
                        "application_name" => self.vars.application_name.clone_from(value),
                        other => panic!("nobody has set {other}"),
                    }
                }
                write::data_row(&mut self.out, values.iter().map(|value| Some(&**value)));
            }
        }
        write::command_complete(&mut self.out, "OURS");
        true
    }
}

/// The values of a `Bind` of the unnamed portal; NULL counts as an empty string.
fn values(body: &[u8]) -> Vec<String> {
    let mut rest = body.splitn(3, |&byte| byte == 0).nth(2).unwrap_or_default();
    rest = rest.get(4..).unwrap_or_default();
    let mut values = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let Some((value, after)) = after.split_at_checked(length) else { break };
        values.push(String::from_utf8_lossy(value).into_owned());
        rest = after;
    }
    values
}
