//! Passwords that the system's modules (PAM) or a directory (LDAP) know: who waits to be judged, and how they are asked.
//!
//! Always true: every question is answered, whatever comes, and nothing waits for it here; a password is in nothing that is
//! logged. What PAM's modules take their time with stays on threads of its own.
//! Not here: what a directory is asked (`auth::ldap`), who waits for the verdict (`worker::admission::external_auth`).

mod directory;
mod trust;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::WorkerId;
use pool::ClientKey;
use reactor::{Pam, PamVisit};
use tokio::sync::oneshot;
use worker::letters::{ExternalAuth, PasswordQuestion, Verdict};

/// The questions of every external authenticator that has some: each directory (what is asked in the same way) is an external authenticator of its own, so that
/// one that does not answer holds up nobody else's.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    authenticators: Vec<Desk>,
}

/// What one external authenticator is asked.
#[derive(Debug)]
struct Desk {
    authenticator: ExternalAuth,
    waiting: VecDeque<PasswordQuestion>,
    /// What has been put to it. The other end of a [`Recall`] is there as long as somebody wants the answer.
    under_way: BTreeMap<(WorkerId, ClientKey), Option<oneshot::Sender<()>>>,
}

/// A question that is to be put now.
#[derive(Debug)]
pub struct Put {
    /// What is asked.
    pub question: PasswordQuestion,
    /// Ends when nobody wants the answer any more.
    pub(crate) recall: Recall,
}

/// Ends when nobody wants the answer any more.
pub(crate) type Recall = oneshot::Receiver<()>;

/// The library of PAM, once it was needed and there.
pub(crate) type Library = Arc<OnceLock<Pam>>;

impl Questions {
    /// Somebody asks.
    ///
    /// # Errors
    /// So many wait for this external authenticator already that this one must be told so.
    pub(crate) fn ask(&mut self, question: PasswordQuestion) -> Result<(), PasswordQuestion> {
        let place =
            self.authenticators.iter().position(|desk| desk.authenticator == question.authenticator).unwrap_or_else(
                || {
                    self.authenticators.push(Desk::new(question.authenticator.clone()));
                    self.authenticators.len() - 1
                },
            );
        let waiting = &mut self.authenticators[place].waiting;
        if waiting.len() >= WAITING_MAX {
            return Err(question);
        }
        waiting.push_back(question);
        Ok(())
    }

    /// The client for which somebody asked is gone. A directory is not asked any further; what a module of PAM has begun ends
    /// by itself.
    pub(crate) fn forget(&mut self, from: WorkerId, client: ClientKey) {
        for desk in &mut self.authenticators {
            desk.waiting.retain(|question| (question.from, question.client) != (from, client));
            // Its place is free when that has been obeyed: until then it has a thread, or a descriptor.
            if let Some(wanted) = desk.under_way.get_mut(&(from, client)) {
                *wanted = None;
            }
        }
        self.authenticators.retain(Desk::is_needed);
    }

    /// The next question to be put, whose external authenticator takes one more.
    pub(crate) fn start(&mut self) -> Option<Put> {
        self.authenticators.iter_mut().find_map(Desk::start)
    }

    /// This judge has answered what was asked for this client, or nothing is asked any more.
    pub(crate) fn answered(&mut self, authenticator: &ExternalAuth, from: WorkerId, client: ClientKey) {
        if let Some(desk) = self.authenticators.iter_mut().find(|desk| desk.authenticator == *authenticator) {
            desk.under_way.remove(&(from, client));
        }
        self.authenticators.retain(Desk::is_needed);
    }
}

impl Desk {
    fn new(authenticator: ExternalAuth) -> Self {
        Self { authenticator, waiting: VecDeque::new(), under_way: BTreeMap::new() }
    }

    fn start(&mut self) -> Option<Put> {
        let under_way_max = match self.authenticator {
            ExternalAuth::Pam => AT_PAM_MAX,
            ExternalAuth::Ldap(_) => AT_DIRECTORY_MAX,
        };
        if self.under_way.len() >= under_way_max {
            return None;
        }
        let question = self.waiting.pop_front()?;
        let (keeper, recall) = oneshot::channel();
        self.under_way.insert((question.from, question.client), Some(keeper));
        Some(Put { question, recall })
    }

    fn is_needed(&self) -> bool {
        !self.waiting.is_empty() || !self.under_way.is_empty()
    }
}

/// Puts a question, which may take as long as the login that needs it.
pub(crate) async fn put(Put { question, recall }: Put, library: Library, limit: Duration) -> Verdict {
    match question.authenticator.clone() {
        ExternalAuth::Ldap(options) => {
            let asked = directory::check(&options, &question.user, &question.password);
            tokio::select! {
                biased;
                _ = recall => Err("nobody waits for the answer of LDAP".into()),
                () = tokio::time::sleep(limit) => Err("no answer from LDAP in time".into()),
                verdict = asked => verdict,
            }
        }
        // Nobody can end a module, nor recall it: the client is told by its own limit, the thread is kept until it is done.
        ExternalAuth::Pam => {
            let asked = tokio::task::spawn_blocking(move || ask_pam(&question, &library));
            asked.await.unwrap_or_else(|_| Err("the question to PAM broke off".into()))
        }
    }
}

fn ask_pam(question: &PasswordQuestion, library: &Library) -> Verdict {
    let pam = match library.get() {
        Some(pam) => pam,
        None => {
            let pam = Pam::load()?;
            library.get_or_init(|| pam)
        }
    };
    let (user, password, host) = (&*question.user, question.password.as_bytes(), &*question.host);
    pam.check(&PamVisit { service: PAM_SERVICE, user, password, host }).map_err(Into::into)
}

/// What is said about a question for which there is no place.
pub(crate) fn full(authenticator: &ExternalAuth) -> Verdict {
    let name = match authenticator {
        ExternalAuth::Pam => "PAM",
        ExternalAuth::Ldap(_) => "LDAP",
    };
    Err(format!("{name} queue is full: {WAITING_MAX} logins wait for a verdict").into())
}

/// The service that PAM's modules are configured for; PgBouncer's.
const PAM_SERVICE: &str = "pgbouncer";
/// Threads that PAM's modules may keep. PgBouncer has one.
pub const AT_PAM_MAX: usize = 8;
/// Questions to one directory at a time; each takes a descriptor.
pub const AT_DIRECTORY_MAX: usize = 32;
/// Questions that wait for one external authenticator. Each is a login that is bounded by `client_login_timeout`; with more they are hopelessly behind.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use auth::{LdapOptions, Password};

    fn question(number: u32, authenticator: ExternalAuth) -> PasswordQuestion {
        PasswordQuestion {
            from: WorkerId(0),
            client: ClientKey { index: number, generation: 1 },
            authenticator,
            user: "u".into(),
            password: Password::new("secret").expect("some"),
            host: "unix".into(),
        }
    }

    fn directory(name: &str) -> ExternalAuth {
        ExternalAuth::Ldap(Arc::new(
            LdapOptions::parse(&format!("ldapserver={name} ldapprefix=x")).expect("good options"),
        ))
    }

    /// Asks for this many clients, which count from `first`.
    fn ask(questions: &mut Questions, authenticator: &ExternalAuth, first: u32, count: usize) {
        for number in first..first + count as u32 {
            assert!(questions.ask(question(number, authenticator.clone())).is_ok());
        }
    }

    /// All that can be put now.
    fn put_all(questions: &mut Questions) -> Vec<Put> {
        std::iter::from_fn(|| questions.start()).collect()
    }

    fn clients(put: &[Put]) -> Vec<u32> {
        put.iter().map(|put| put.question.client.index).collect()
    }

    fn answered(questions: &mut Questions, authenticator: &ExternalAuth, number: u32) {
        questions.answered(authenticator, WorkerId(0), question(number, ExternalAuth::Pam).client);
    }

    #[test]
    fn a_judge_that_does_not_answer_holds_up_its_own_questions_only() {
        let mut questions = Questions::default();
        let (silent, quick) = (directory("silent"), directory("quick"));
        ask(&mut questions, &ExternalAuth::Pam, 0, AT_PAM_MAX + 1);
        ask(&mut questions, &silent, 100, AT_DIRECTORY_MAX + 1);
        assert_eq!(put_all(&mut questions).len(), AT_PAM_MAX + AT_DIRECTORY_MAX);
        // The same directory, read from the configuration once more, is no other one.
        ask(&mut questions, &directory("silent"), 200, 1);
        ask(&mut questions, &quick, 300, 2);
        assert_eq!(clients(&put_all(&mut questions)), [300, 301]);
        answered(&mut questions, &quick, 300);
        assert!(put_all(&mut questions).is_empty());
        answered(&mut questions, &ExternalAuth::Pam, 0);
        answered(&mut questions, &silent, 100);
        assert_eq!(clients(&put_all(&mut questions)), [AT_PAM_MAX as u32, 132]);
    }

    #[test]
    fn a_judge_who_is_asked_nothing_is_forgotten() {
        let mut questions = Questions::default();
        ask(&mut questions, &directory("a"), 1, 1);
        assert_eq!(clients(&put_all(&mut questions)), [1]);
        answered(&mut questions, &directory("a"), 1);
        assert!(questions.authenticators.is_empty());
        ask(&mut questions, &directory("a"), 2, 1);
        questions.forget(WorkerId(0), question(2, ExternalAuth::Pam).client);
        assert!(questions.authenticators.is_empty());
    }

    #[test]
    fn a_question_for_somebody_who_has_gone_is_not_put() {
        let mut questions = Questions::default();
        ask(&mut questions, &ExternalAuth::Pam, 1, 2);
        questions.forget(WorkerId(0), question(1, ExternalAuth::Pam).client);
        assert_eq!(clients(&put_all(&mut questions)), [2]);
    }

    #[test]
    fn a_question_under_way_is_recalled_when_its_client_has_gone() {
        let mut questions = Questions::default();
        ask(&mut questions, &directory("a"), 1, AT_DIRECTORY_MAX + 1);
        ask(&mut questions, &ExternalAuth::Pam, 50, 1);
        let mut put = put_all(&mut questions);
        for gone in [1, 50] {
            questions.forget(WorkerId(0), question(gone, ExternalAuth::Pam).client);
        }
        put.retain_mut(|put| put.recall.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(clients(&put), [1, 50]);
        // Each has its place until it has obeyed, which PAM does when it is done.
        assert!(put_all(&mut questions).is_empty());
        answered(&mut questions, &directory("a"), 1);
        assert_eq!(clients(&put_all(&mut questions)), [1 + AT_DIRECTORY_MAX as u32]);
    }

    #[test]
    fn what_is_recalled_asks_no_directory() {
        let mut questions = Questions::default();
        ask(&mut questions, &directory("a"), 1, 1);
        let put = questions.start().expect("a question");
        questions.forget(WorkerId(0), put.question.client);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        // The answer to a question that was put would be that this directory cannot be reached.
        let verdict = runtime.block_on(super::put(put, Library::default(), Duration::from_secs(60)));
        assert_eq!(verdict, Err("nobody waits for the answer of LDAP".into()));
    }

    #[test]
    fn beyond_the_queue_of_its_judge_a_login_is_told_so() {
        let mut questions = Questions::default();
        ask(&mut questions, &directory("a"), 0, WAITING_MAX);
        assert_eq!(questions.ask(question(0, directory("a"))), Err(question(0, directory("a"))));
        ask(&mut questions, &ExternalAuth::Pam, 0, WAITING_MAX);
        ask(&mut questions, &directory("b"), 0, 1);
        assert_eq!(full(&ExternalAuth::Pam), Err("PAM queue is full: 1024 logins wait for a verdict".into()));
    }
}
