//! Passwords that the system's modules (PAM) or a directory (LDAP) know: who waits to be judged, and how they are asked.
//!
//! Always true: every question is answered, whatever comes, and nothing waits for it here; a password is in nothing that is
//! logged. What PAM's modules take their time with stays on threads of its own.
//! Not here: what a directory is asked (`auth::ldap`), who waits for the verdict (`worker::judge`).

mod directory;
mod trust;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::WorkerId;
use pool::ClientKey;
use reactor::{Pam, PamVisit};
use worker::letters::{Judge, PasswordQuestion, Verdict};

/// Questions that wait, and how many are under way at each judge: PAM's cannot be taken back.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: VecDeque<PasswordQuestion>,
    at_pam: usize,
    at_directories: usize,
}

/// The library of PAM, once it was needed.
pub(crate) type Library = Arc<OnceLock<Result<Pam, String>>>;

impl Questions {
    /// Somebody asks.
    ///
    /// # Errors
    /// So many wait already that this one must be told so.
    pub(crate) fn ask(&mut self, question: PasswordQuestion) -> Result<(), PasswordQuestion> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(question);
        }
        self.waiting.push_back(question);
        Ok(())
    }

    /// The client for which somebody asked is gone. What is under way ends by itself.
    pub(crate) fn forget(&mut self, from: WorkerId, client: ClientKey) {
        self.waiting.retain(|question| (question.from, question.client) != (from, client));
    }

    /// The next question to be put, if its judge takes one more: one that does not answer holds up nobody else's.
    pub(crate) fn start(&mut self) -> Option<PasswordQuestion> {
        let (at_pam, at_directories) = (self.at_pam, self.at_directories);
        let is_free = |question: &PasswordQuestion| match question.judge {
            Judge::Pam => at_pam < AT_PAM_MAX,
            Judge::Ldap(_) => at_directories < AT_DIRECTORIES_MAX,
        };
        let place = self.waiting.iter().position(is_free)?;
        let question = self.waiting.remove(place)?;
        *self.count(&question.judge) += 1;
        Some(question)
    }

    /// This judge has answered one.
    pub(crate) fn answered(&mut self, judge: &Judge) {
        *self.count(judge) -= 1;
    }

    fn count(&mut self, judge: &Judge) -> &mut usize {
        match judge {
            Judge::Pam => &mut self.at_pam,
            Judge::Ldap(_) => &mut self.at_directories,
        }
    }
}

/// Puts a question, which may take as long as the login that needs it.
pub(crate) async fn put(question: PasswordQuestion, library: Library, limit: Duration) -> Verdict {
    match question.judge.clone() {
        Judge::Ldap(options) => {
            let asked = directory::check(&options, &question.user, &question.password);
            let late = |_| Err("no answer from LDAP in time".into());
            tokio::time::timeout(limit, asked).await.unwrap_or_else(late)
        }
        // Nobody can end a module: the client is told by its own limit, the thread is kept until it is done.
        Judge::Pam => {
            let asked = tokio::task::spawn_blocking(move || ask_pam(&question, &library));
            asked.await.unwrap_or_else(|_| Err("the question to PAM broke off".into()))
        }
    }
}

fn ask_pam(question: &PasswordQuestion, library: &Library) -> Verdict {
    let pam = library.get_or_init(Pam::load).as_ref().map_err(|text| Arc::<str>::from(&**text))?;
    let (user, password, host) = (&*question.user, question.password.as_bytes(), &*question.host);
    pam.check(&PamVisit { service: PAM_SERVICE, user, password, host }).map_err(Into::into)
}

/// What is said about a question for which there is no place.
pub(crate) fn full(judge: &Judge) -> Verdict {
    let name = match judge {
        Judge::Pam => "PAM",
        Judge::Ldap(_) => "LDAP",
    };
    Err(format!("{name} queue is full: {WAITING_MAX} logins wait for a verdict").into())
}

/// The service that PAM's modules are configured for; PgBouncer's.
const PAM_SERVICE: &str = "pgbouncer";
/// Threads that PAM's modules may keep. PgBouncer has one.
pub const AT_PAM_MAX: usize = 8;
/// Questions to directories at a time; each takes a descriptor.
const AT_DIRECTORIES_MAX: usize = 32;
/// Questions that wait. Each is a login that is bounded by `client_login_timeout`; with more the judges are hopelessly behind.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use auth::{LdapOptions, Password};

    fn question(number: u32, judge: Judge) -> PasswordQuestion {
        PasswordQuestion {
            from: WorkerId(0),
            client: ClientKey { index: number, generation: 1 },
            judge,
            user: "u".into(),
            password: Password::new("secret").expect("some"),
            host: "unix".into(),
        }
    }

    fn directory() -> Judge {
        Judge::Ldap(Arc::new(LdapOptions::parse("ldapserver=a ldapprefix=x").expect("good options")))
    }

    #[test]
    fn a_judge_that_does_not_answer_holds_up_its_own_questions_only() {
        let mut questions = Questions::default();
        for number in 0..=AT_PAM_MAX as u32 {
            assert!(questions.ask(question(number, Judge::Pam)).is_ok());
        }
        assert!(questions.ask(question(99, directory())).is_ok());
        assert_eq!(std::iter::from_fn(|| questions.start()).count(), AT_PAM_MAX + 1);
        questions.answered(&directory());
        assert_eq!(questions.start(), None);
        questions.answered(&Judge::Pam);
        assert_eq!(questions.start(), Some(question(AT_PAM_MAX as u32, Judge::Pam)));
    }

    #[test]
    fn a_question_for_somebody_who_has_gone_is_not_put() {
        let mut questions = Questions::default();
        assert!(questions.ask(question(1, Judge::Pam)).is_ok() && questions.ask(question(2, Judge::Pam)).is_ok());
        questions.forget(WorkerId(0), question(1, Judge::Pam).client);
        assert_eq!(questions.start(), Some(question(2, Judge::Pam)));
        assert_eq!(questions.start(), None);
    }

    #[test]
    fn beyond_the_queue_a_login_is_told_so() {
        let mut questions = Questions::default();
        for number in 0..WAITING_MAX as u32 {
            assert!(questions.ask(question(number, Judge::Pam)).is_ok());
        }
        assert_eq!(questions.ask(question(0, directory())), Err(question(0, directory())));
        assert_eq!(full(&Judge::Pam), Err("PAM queue is full: 1024 logins wait for a verdict".into()));
    }
}
