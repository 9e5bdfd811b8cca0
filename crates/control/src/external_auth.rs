//! Checking passwords with PAM or an LDAP directory: the queue of each authenticator, and how it is asked.
//!
//! Always true: every question is answered, whatever happens, and nothing here blocks; no password is logged. PAM
//! modules, which may block, run on threads of their own.
//! Not here: the LDAP messages (`auth::ldap`), who waits for the verdict (`worker::admission::external_auth`).

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

/// The questions of every external authenticator that has any. Each distinct set of LDAP options is an external
/// authenticator of its own, so that a directory that does not answer delays no other.
#[derive(Debug, Default)]
pub(crate) struct PasswordQuestions {
    queues: Vec<AuthenticatorQueue>,
}

/// The questions of one external authenticator.
#[derive(Debug)]
struct AuthenticatorQueue {
    authenticator: ExternalAuth,
    waiting: VecDeque<PasswordQuestion>,
    /// The questions under way. The sender of a [`Recall`] is kept as long as the client wants the answer.
    under_way: BTreeMap<(WorkerId, ClientKey), Option<oneshot::Sender<()>>>,
}

/// A question that is to be sent now.
#[derive(Debug)]
pub struct Put {
    /// The question.
    pub question: PasswordQuestion,
    /// Completes when the client no longer wants the answer.
    pub(crate) recall: Recall,
}

/// Completes when the client no longer wants the answer.
pub(crate) type Recall = oneshot::Receiver<()>;

/// The PAM library, once it has been loaded.
pub(crate) type Library = Arc<OnceLock<Pam>>;

impl PasswordQuestions {
    /// Queues a question.
    ///
    /// # Errors
    /// The queue of this external authenticator is full; the client must be told so.
    pub(crate) fn ask(&mut self, question: PasswordQuestion) -> Result<(), PasswordQuestion> {
        let place =
            self.queues.iter().position(|queue| queue.authenticator == question.authenticator).unwrap_or_else(|| {
                self.queues.push(AuthenticatorQueue::new(question.authenticator.clone()));
                self.queues.len() - 1
            });
        let waiting = &mut self.queues[place].waiting;
        if waiting.len() >= WAITING_MAX {
            return Err(question);
        }
        waiting.push_back(question);
        Ok(())
    }

    /// Forgets the question of a client that is gone. A question to a directory is abandoned; a PAM module that has
    /// begun ends by itself.
    pub(crate) fn forget(&mut self, from: WorkerId, client: ClientKey) {
        for queue in &mut self.queues {
            queue.waiting.retain(|question| (question.from, question.client) != (from, client));
            // Its place is freed when the question ends: until then it occupies a thread or a descriptor.
            if let Some(wanted) = queue.under_way.get_mut(&(from, client)) {
                *wanted = None;
            }
        }
        self.queues.retain(AuthenticatorQueue::is_needed);
    }

    /// Returns the next question whose external authenticator has a free place.
    pub(crate) fn start(&mut self) -> Option<Put> {
        self.queues.iter_mut().find_map(AuthenticatorQueue::start)
    }

    /// Frees the place of a question that this authenticator has answered, or that was abandoned.
    pub(crate) fn answered(&mut self, authenticator: &ExternalAuth, from: WorkerId, client: ClientKey) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.authenticator == *authenticator) {
            queue.under_way.remove(&(from, client));
        }
        self.queues.retain(AuthenticatorQueue::is_needed);
    }
}

impl AuthenticatorQueue {
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

/// Asks the authenticator, which may take as long as the login that needs the answer.
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
        // A PAM module cannot be stopped: the client is told by `client_login_timeout`, and the thread is occupied
        // until the module returns.
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

/// The verdict on a question that finds the queue full.
pub(crate) fn full(authenticator: &ExternalAuth) -> Verdict {
    let name = match authenticator {
        ExternalAuth::Pam => "PAM",
        ExternalAuth::Ldap(_) => "LDAP",
    };
    Err(format!("{name} queue is full: {WAITING_MAX} logins wait for a verdict").into())
}

/// The PAM service name, the same as PgBouncer's.
const PAM_SERVICE: &str = "pgbouncer";
/// Threads that PAM modules may occupy. PgBouncer has one.
pub const AT_PAM_MAX: usize = 8;
/// Questions to one directory at a time; each takes a descriptor.
pub const AT_DIRECTORY_MAX: usize = 32;
/// Questions that may wait for one external authenticator. Each is a login bounded by `client_login_timeout`; with more
/// than that most would time out.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    use auth::{LdapOptions, Password};

    fn question(number: u32, authenticator: ExternalAuth) -> PasswordQuestion {
        PasswordQuestion {
            from: WorkerId(0),
            client: ClientKey::first(number),
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

    /// Queues questions for `count` clients, numbered from `first`.
    fn ask(questions: &mut PasswordQuestions, authenticator: &ExternalAuth, first: u32, count: usize) {
        for number in first..first + count as u32 {
            assert!(questions.ask(question(number, authenticator.clone())).is_ok());
        }
    }

    /// Takes all questions that can be sent now.
    fn put_all(questions: &mut PasswordQuestions) -> Vec<Put> {
        std::iter::from_fn(|| questions.start()).collect()
    }

    fn clients(put: &[Put]) -> Vec<u32> {
        put.iter().map(|put| put.question.client.index).collect()
    }

    fn answered(questions: &mut PasswordQuestions, authenticator: &ExternalAuth, number: u32) {
        questions.answered(authenticator, WorkerId(0), question(number, ExternalAuth::Pam).client);
    }

    #[test]
    fn a_judge_that_does_not_answer_holds_up_its_own_questions_only() {
        let mut questions = PasswordQuestions::default();
        let (silent, quick) = (directory("silent"), directory("quick"));
        ask(&mut questions, &ExternalAuth::Pam, 0, AT_PAM_MAX + 1);
        ask(&mut questions, &silent, 100, AT_DIRECTORY_MAX + 1);
        assert_eq!(put_all(&mut questions).len(), AT_PAM_MAX + AT_DIRECTORY_MAX);
        // The same directory, read from the configuration again, is the same authenticator.
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
        let mut questions = PasswordQuestions::default();
        ask(&mut questions, &directory("a"), 1, 1);
        assert_eq!(clients(&put_all(&mut questions)), [1]);
        answered(&mut questions, &directory("a"), 1);
        assert!(questions.queues.is_empty());
        ask(&mut questions, &directory("a"), 2, 1);
        questions.forget(WorkerId(0), question(2, ExternalAuth::Pam).client);
        assert!(questions.queues.is_empty());
    }

    #[test]
    fn a_question_for_somebody_who_has_gone_is_not_put() {
        let mut questions = PasswordQuestions::default();
        ask(&mut questions, &ExternalAuth::Pam, 1, 2);
        questions.forget(WorkerId(0), question(1, ExternalAuth::Pam).client);
        assert_eq!(clients(&put_all(&mut questions)), [2]);
    }

    #[test]
    fn a_question_under_way_is_recalled_when_its_client_has_gone() {
        let mut questions = PasswordQuestions::default();
        ask(&mut questions, &directory("a"), 1, AT_DIRECTORY_MAX + 1);
        ask(&mut questions, &ExternalAuth::Pam, 50, 1);
        let mut put = put_all(&mut questions);
        for gone in [1, 50] {
            questions.forget(WorkerId(0), question(gone, ExternalAuth::Pam).client);
        }
        put.retain_mut(|put| put.recall.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(clients(&put), [1, 50]);
        // Each keeps its place until it has ended, which PAM does when the module returns.
        assert!(put_all(&mut questions).is_empty());
        answered(&mut questions, &directory("a"), 1);
        assert_eq!(clients(&put_all(&mut questions)), [1 + AT_DIRECTORY_MAX as u32]);
    }

    #[test]
    fn what_is_recalled_asks_no_directory() {
        let mut questions = PasswordQuestions::default();
        ask(&mut questions, &directory("a"), 1, 1);
        let put = questions.start().expect("a question");
        questions.forget(WorkerId(0), put.question.client);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        // A question that was sent would fail because this directory cannot be reached.
        let verdict = runtime.block_on(super::put(put, Library::default(), Duration::from_secs(60)));
        assert_eq!(verdict, Err("nobody waits for the answer of LDAP".into()));
    }

    #[test]
    fn beyond_the_queue_of_its_judge_a_login_is_told_so() {
        let mut questions = PasswordQuestions::default();
        ask(&mut questions, &directory("a"), 0, WAITING_MAX);
        assert_eq!(questions.ask(question(0, directory("a"))), Err(question(0, directory("a"))));
        ask(&mut questions, &ExternalAuth::Pam, 0, WAITING_MAX);
        ask(&mut questions, &directory("b"), 0, 1);
        assert_eq!(full(&ExternalAuth::Pam), Err("PAM queue is full: 1024 logins wait for a verdict".into()));
    }
}
