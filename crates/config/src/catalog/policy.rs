//! `session_policy`: what to do about session state that exists only on one server.
//!
//! Always true: what a line leaves out is inherited; the default is to keep the server (`pin`), except for `LISTEN`,
//! which one session does for all clients, and for statements prepared by SQL, which follow their client
//! (`virtualize`).
//! Not here: how the policies are carried out (`protocol::loan::session_state`, `worker::limits::pins`,
//! `worker::notify::channels`).

use protocol::state::{Kind as Holding, Policy};

use super::kinds::{Kind, Misfit, Range};
use crate::mistake::did_you_mean;

/// The policy of each kind of session state, if one was configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policies {
    written: Box<str>,
    rows: [Option<Policy>; Holding::ALL.len()],
}

/// The type of the setting: `reject`, or `lock=reject, listen=warn`.
pub struct PolicyList;

impl Policies {
    /// The policy of a kind.
    #[must_use]
    pub fn of(&self, kind: Holding) -> Option<Policy> {
        self.rows[kind as usize]
    }

    /// Parses a text.
    pub(crate) fn read(text: &str) -> Result<Self, Misfit> {
        let mut policies = Self { written: text.into(), ..Self::default() };
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once('=') {
                None => policies.rows = [Some(policy(item, None)?); Holding::ALL.len()],
                Some((name, word)) => {
                    let (name, word) = (name.trim(), word.trim());
                    let kind = Holding::ALL.into_iter().find(|kind| kind.short().eq_ignore_ascii_case(name));
                    let kind = kind.ok_or_else(|| misfit(name, Holding::ALL.map(Holding::short).into_iter()))?;
                    policies.rows[kind as usize] = Some(policy(word, Some(kind))?);
                }
            }
        }
        Ok(policies)
    }
}

fn policy(word: &str, kind: Option<Holding>) -> Result<Policy, Misfit> {
    let is = |known: &str| word.eq_ignore_ascii_case(known);
    match () {
        () if is("pin") => Ok(Policy::Pin),
        () if is("warn") => Ok(Policy::Warn),
        () if is("reject") => Ok(Policy::Reject),
        // Settings follow their client wherever they can; the policy is about those that cannot.
        () if is("virtualize") && kind == Some(Holding::Setting) => Ok(Policy::Pin),
        () if is("virtualize") && matches!(kind, Some(Holding::Channel | Holding::Statement)) => Ok(Policy::Virtualize),
        () => {
            let follows = matches!(kind, Some(Holding::Setting | Holding::Channel | Holding::Statement));
            Err(misfit(word, ["pin", "warn", "reject"].into_iter().chain(follows.then_some("virtualize"))))
        }
    }
}

fn misfit(word: &str, known: impl Iterator<Item = &'static str> + Clone) -> Misfit {
    let words: Vec<_> = known.clone().collect();
    let expected = format!("KIND=POLICY, separated by commas; not \"{word}\", but one of {}", words.join(", "));
    Misfit { expected, advice: did_you_mean(word, known) }
}

impl Kind for PolicyList {
    type Value = Policies;
    const NAME: &'static str = "list";

    fn parse(text: &str, _: Option<Range>) -> Result<Policies, Misfit> {
        Policies::read(text)
    }

    fn absent() -> Policies {
        Policies::default()
    }

    fn show(value: &Policies, _: Option<&str>) -> Option<String> {
        Some(value.written.clone().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_may_have_its_own_policy_and_all_may_have_one() {
        let policies = Policies::read("warn, lock=reject,LISTEN = Pin, setting=virtualize").expect("good");
        for kind in [Holding::Channel, Holding::Statement] {
            let policies = Policies::read(&format!("pin,{}=virtualize", kind.short())).expect("good");
            assert_eq!(policies.of(kind), Some(Policy::Virtualize));
        }
        assert_eq!(policies.of(Holding::Lock), Some(Policy::Reject));
        assert_eq!(policies.of(Holding::Channel), Some(Policy::Pin));
        assert_eq!(policies.of(Holding::Setting), Some(Policy::Pin));
        assert_eq!(policies.of(Holding::Cursor), Some(Policy::Warn));
        assert_eq!(Policies::read("").expect("good").of(Holding::Lock), None);
        assert_eq!(
            PolicyList::show(&policies, None).as_deref(),
            Some("warn, lock=reject,LISTEN = Pin, setting=virtualize")
        );
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, named, advice) in [
            ("lok=reject", "lok", Some("did you mean \"lock\"?")),
            ("lock=rejekt", "rejekt", Some("did you mean \"reject\"?")),
            ("lock=virtualize", "virtualize", None),
            ("listen=virtualise", "virtualise", Some("did you mean \"virtualize\"?")),
            ("virtualise", "virtualise", None),
            ("lock=", "", None),
        ] {
            let misfit = Policies::read(text).expect_err(text);
            assert!(misfit.expected.contains(&format!("not \"{named}\", but one of")), "{misfit:?}");
            assert_eq!(misfit.advice.as_deref(), advice);
        }
    }
}
