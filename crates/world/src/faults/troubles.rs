//! Faults of authentication: secrets on servers, and external authenticators.
//!
//! Always true: the end of a trouble restores everything but changed secrets.
//! Not here: other faults (`faults`).

use crate::plan::fault::Trouble;
use crate::postgres::manner::Answers;
use crate::state::World;

impl World {
    /// Begins a trouble.
    pub(crate) fn begin_trouble(&mut self, trouble: &Trouble) {
        match *trouble {
            Trouble::NewSecret { user, .. } => self.change_secret(user),
            Trouble::Answers { host, how } => self.postgres.hosts[host].manner.answers = how,
            Trouble::NoExternalAuth => self.thread.has_no_external_auth = true,
            Trouble::Slow { factor } => self.thread.slowness = factor,
        }
    }

    /// Ends a trouble.
    pub(crate) fn end_trouble(&mut self, trouble: &Trouble) {
        match *trouble {
            Trouble::NewSecret { reloads, .. } => {
                if reloads {
                    self.reload(&self.plan.shape.clone());
                }
            }
            Trouble::Answers { host, .. } => self.postgres.hosts[host].manner.answers = Answers::Usual,
            Trouble::NoExternalAuth => self.thread.has_no_external_auth = false,
            Trouble::Slow { .. } => self.thread.slowness = 1,
        }
    }
}
