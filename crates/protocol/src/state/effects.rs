//! What statements have certainly done to a session's settings and to its statements prepared by SQL.
//!
//! Always true: only effects that a statement's own text states are applied here, and only after its transaction was
//! committed without an error; the same effects lead to the same settings on a server and for its client.
//! Not here: which effects are certain (`route`), whether they have taken place (`session_effects`).

use std::rc::Rc;

use route::{Act, Certain, Change, Class};

use super::overrides::{IDENTITY, Overrides};
use super::statements::Statement;

use crate::planted::has_effect;

/// The effects of statements, in their order.
#[derive(Clone, Debug, Default)]
pub struct Effects(pub(super) Vec<Rc<Class>>);

/// What effects depend on beside the texts.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// The user that the pool logs in as.
    pub login: &'a str,
    /// Whether servers report a setting by themselves, so that it follows its client as a parameter.
    pub is_reported: &'a dyn Fn(&str) -> bool,
    /// Whether statements prepared by SQL follow their client to other servers.
    pub carries_statements: bool,
}

impl Effects {
    /// The state of a session that had `before`; `None` if its server must be probed after all.
    #[must_use]
    pub fn on(&self, before: &Overrides, circumstances: Circumstances<'_>) -> Option<Overrides> {
        let mut after = before.clone();
        for act in self.acts().filter(|act| has_effect(act)) {
            apply(act, &mut after, circumstances)?;
        }
        (!after.is_too_much()).then_some(after)
    }

    /// Whether the statements have left a setting at the value with which its session began.
    #[must_use]
    pub fn is_reset(&self, name: &str) -> bool {
        self.acts().fold(false, |is_reset, act| match act {
            Act::ResetAll | Act::DiscardAll => true,
            Act::Set(changes) => {
                let own = changes.iter().rev().find(|change| change.name.eq_ignore_ascii_case(name));
                own.map_or(is_reset, Change::is_reset)
            }
            _ => is_reset,
        })
    }

    /// Whether a statement among them resets a setting, whatever the others do.
    #[must_use]
    pub fn resets(&self, name: &str) -> bool {
        self.settings().any(|setting| setting.is_none_or(|(own, is_reset)| is_reset && own.eq_ignore_ascii_case(name)))
    }

    /// Whether a statement among them sets a setting to this value, as it is spelled.
    #[must_use]
    pub fn sets_to(&self, name: &str, value: &str) -> bool {
        let is_value = |certain: Certain<'_>| match certain {
            Certain::Value(set) => set.eq_ignore_ascii_case(value),
            Certain::First => false,
        };
        self.acts().any(|act| match act {
            Act::Set(changes) => changes
                .iter()
                .any(|change| change.name.eq_ignore_ascii_case(name) && change.certain().is_some_and(is_value)),
            _ => false,
        })
    }

    /// The settings that the statements set, in order, and whether each is reset; `None` where all are reset.
    pub fn settings(&self) -> impl Iterator<Item = Option<(&str, bool)>> {
        self.acts().flat_map(|act| {
            let (is_all, changes): (bool, &[Change]) = match act {
                Act::ResetAll | Act::DiscardAll => (true, &[]),
                Act::Set(changes) => (false, changes),
                _ => (false, &[]),
            };
            let each = changes.iter().map(|change| Some((&*change.name, change.is_reset())));
            is_all.then_some(None).into_iter().chain(each)
        })
    }

    /// Whether the statements have given this parameter, which servers report, the value that it has on their server now,
    /// and not the one with which the session began. Whether the user is a superuser is decided by the role.
    #[must_use]
    pub fn decides(&self, name: &str) -> bool {
        let is_set = |decides: &str| {
            let changes = self.acts().filter_map(|act| match act {
                Act::Set(changes) => Some(changes),
                _ => None,
            });
            changes.flatten().any(|change| change.name.eq_ignore_ascii_case(decides))
        };
        match name {
            "is_superuser" => IDENTITY.into_iter().any(is_set) || self.acts().any(|act| matches!(act, Act::DiscardAll)),
            _ => is_set(name) && !self.is_reset(name),
        }
    }

    /// Whether they concern the prepared statements by which we set settings on servers.
    #[must_use]
    pub fn concern_statements_of_ours(&self) -> bool {
        self.acts().any(|act| match act {
            Act::Prepare { name, .. } | Act::Deallocate { name: Some(name) } => super::along::is_ours(name.as_bytes()),
            _ => false,
        })
    }

    fn acts(&self) -> impl Iterator<Item = &Act> {
        self.0.iter().flat_map(|class| class.acts.iter())
    }
}

/// Whether a text does the same on a server with the settings `theirs` as on one with the client's settings `ours`,
/// because what it sets or resets depends on neither. The text may still fail, and then has done nothing.
#[must_use]
pub fn needs_nothing(class: &Class, theirs: &Overrides, ours: &Overrides) -> bool {
    let is_other_session = [theirs, ours].iter().any(|all| all.get(IDENTITY[0]).is_some());
    let is_somebody_else = theirs.has_identity() || ours.has_identity();
    let is_alike = |change: &Change| {
        let is_role = *change.name == *IDENTITY[1];
        let is_independent = is_role || !is_somebody_else && INDEPENDENT.contains(&&*change.name);
        is_independent && change.certain().is_some()
    };
    let is_all_alike = class.acts.iter().all(|act| match act {
        Act::Set(changes) => changes.iter().all(is_alike),
        Act::ResetAll | Act::DiscardAll => true,
        _ => false,
    });
    is_all_alike && !class.acts.is_empty() && !class.sets_locally && !is_other_session && !theirs.is_hasty()
}

/// Settings that any user may set to any value, whatever else is set (`utils/misc/guc.c`).
pub(super) const INDEPENDENT: [&str; 9] = [
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "search_path",
    "statement_timeout",
    "synchronous_commit",
    "work_mem",
];

fn apply(act: &Act, session: &mut Overrides, circumstances: Circumstances<'_>) -> Option<()> {
    match act {
        Act::Set(changes) => {
            for change in changes {
                match change.certain() {
                    Some(to) => set(&change.name, to, session, circumstances),
                    // The server reports the value by itself.
                    None if (circumstances.is_reported)(&change.name) => {}
                    None => return None,
                }
            }
        }
        Act::ResetAll => {
            // RESET ALL keeps the identity (`GUC_NO_RESET_ALL`).
            let identity = IDENTITY.map(|name| session.get(name).map(Box::<str>::from));
            session.forget_settings();
            for (name, value) in IDENTITY.into_iter().zip(identity) {
                value.into_iter().for_each(|value| session.set(name, &value));
            }
        }
        Act::DiscardAll => *session = Overrides::default(),
        Act::Prepare { name, sql, .. } => {
            if !circumstances.carries_statements {
                return None;
            }
            let search_path = session.get("search_path").map(Box::from);
            let statement = Statement { sql: sql.clone()?, search_path };
            session.statements_mut().insert(name, statement);
        }
        Act::Deallocate { name: Some(name) } => session.statements_mut().remove(name),
        Act::Deallocate { name: None } => *session.statements_mut() = Default::default(),
        Act::Transaction(_) | Act::Execute { .. } | Act::Unlisten { .. } | Act::Lock(_) | Act::Other { .. } => {}
    }
    Some(())
}

fn set(name: &str, to: Certain<'_>, session: &mut Overrides, circumstances: Circumstances<'_>) {
    if name == IDENTITY[0] {
        // A new session authorization drops the role (`SetSessionAuthorization` in PostgreSQL's `utils/init/miscinit.c`).
        session.reset(IDENTITY[1]);
    }
    if (circumstances.is_reported)(name) {
        return;
    }
    match to {
        Certain::Value(value) if !is_first(name, &value, circumstances.login) => session.set(name, &value),
        Certain::Value(_) | Certain::First => session.reset(name),
    }
}

/// Whether a value is the one with which a session of the user `login` begins, as far as the value tells. A custom
/// setting that is not set is `''` on a server where it was set before.
pub(super) fn is_first(name: &str, value: &str, login: &str) -> bool {
    match name {
        "role" => value == "none",
        "session_authorization" => value == login,
        name => name.contains('.') && value.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use route::{Dialect, Knowledge, classify};

    use super::super::statements::STATEMENT_BYTES_MAX;
    use super::*;

    fn circumstances() -> Circumstances<'static> {
        Circumstances { login: "ann", is_reported: &|name| name == "timezone", carries_statements: true }
    }

    fn effects(texts: &[&str]) -> Effects {
        let tame = Knowledge::default();
        let class = |text: &&str| Rc::new(classify(text.as_bytes(), Dialect::default(), Some(&tame)));
        Effects(texts.iter().map(class).collect())
    }

    fn after(before: &[(&str, &str)], texts: &[&str]) -> Option<String> {
        let mut session = Overrides::default();
        before.iter().for_each(|(name, value)| session.set(name, value));
        let after = effects(texts).on(&session, circumstances())?;
        let settings = after.iter().map(|(name, value)| format!("{name}={value}"));
        let statements = after.statements().iter().map(|(name, statement)| {
            format!("{name}: {} ({})", statement.sql, statement.search_path.as_deref().unwrap_or("first"))
        });
        Some(settings.chain(statements).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn settings_are_what_was_set_last() {
        for (texts, expected) in [
            (&["set work_mem = 4096", "set a.b = 'x'"][..], "a.b=x; old=1; work_mem=4096"),
            (&["set old = 2; reset old"], ""),
            (&["begin; set old = 2; commit"], "old=2"),
            (&["set x = 1", "reset all", "set y = 2"], "y=2"),
            (&["set x = 1", "discard all"], ""),
            (&["set a.b = ''", "set timezone = 'UTC'"], "old=1"),
            (&["set y = 2; set time zone interval '+00:00' hour to minute"], "old=1; y=2"),
            (&["select 1", "close all", "unlisten *", "execute p"], "old=1"),
            // Only for a custom setting does the empty value mean that it is not set.
            (&["set x = ''"], "old=1; x="),
        ] {
            assert_eq!(after(&[("old", "1")], texts).as_deref(), Some(expected), "{texts:?}");
        }
    }

    #[test]
    fn who_a_session_is_outlives_what_it_resets_and_a_role_ends_with_the_session_authorization() {
        let role = ("role", "app");
        for (texts, expected) in [
            (&["reset all"][..], "role=app"),
            (&["set role none"], ""),
            (&["reset role"], ""),
            (&["set work_mem = 1"], "role=app; work_mem=1"),
            (&["set session authorization bob"], "session_authorization=bob"),
            (&["set session authorization ann"], ""),
            (&["set session authorization default", "set role other"], "role=other"),
            (&["discard all"], ""),
        ] {
            assert_eq!(after(&[role], texts).as_deref(), Some(expected), "{texts:?}");
        }
    }

    #[test]
    fn statements_are_those_prepared_last_under_the_path_of_then() {
        for (texts, expected) in [
            (&["prepare p as select 1"][..], "p: prepare p as select 1 (first)"),
            (&["set search_path to a", "prepare p as select 1;", "reset search_path"], "p: prepare p as select 1 (a)"),
            (&["prepare p as select 1", "deallocate p"], ""),
            (&["prepare p as select 1", "deallocate all"], ""),
        ] {
            assert_eq!(after(&[], texts).as_deref(), Some(expected), "{texts:?}");
        }
        assert_eq!(after(&[], &["prepare p as select 'now'::date"]), None, "elsewhere it is another time");
        assert_eq!(after(&[], &["prepare é as select 1"]), None, "its name is spelled otherwise in another encoding");
        let long = format!("prepare p as select '{}'", "x".repeat(STATEMENT_BYTES_MAX));
        assert_eq!(after(&[], &[&long]), None);
        let kept = Circumstances { carries_statements: false, ..circumstances() };
        assert!(effects(&["prepare p as select 1"]).on(&Overrides::default(), kept).is_none());
    }

    #[test]
    fn who_would_be_told_too_much_or_what_nobody_knows_is_asked() {
        let many: Vec<String> = (0..200).map(|number| format!("set a.b{number} = '{}'", "x".repeat(4096))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(after(&[], &many), None);
        let zone = effects(&["set time zone interval '+00:00' hour to minute"]);
        let told_by_nobody = Circumstances { is_reported: &|_| false, ..circumstances() };
        assert!(zone.on(&Overrides::default(), told_by_nobody).is_none());
        assert!(zone.on(&Overrides::default(), circumstances()).is_some());
    }

    #[test]
    fn statements_by_which_servers_are_told_settings_are_known_by_their_names() {
        for (texts, concern) in [
            (&["select 1", "prepare \"TRUNKLINE_STATE_1\" as select 1"][..], true),
            (&["begin; deallocate \"TRUNKLINE_STATE_1\""], true),
            (&["prepare p as select 1", "deallocate p"], false),
            (&["deallocate all"], false),
            (&[], false),
        ] {
            assert_eq!(effects(texts).concern_statements_of_ours(), concern, "{texts:?}");
        }
    }

    #[test]
    fn what_sets_or_resets_by_itself_needs_nothing() {
        let tame = Knowledge::default();
        let needs_nothing = |text: &str, theirs: &[(&str, &str)], ours: &[(&str, &str)]| {
            let overrides = |values: &[(&str, &str)]| {
                let mut all = Overrides::default();
                values.iter().for_each(|(name, value)| all.set(name, value));
                all
            };
            needs_nothing(
                &classify(text.as_bytes(), Dialect::default(), Some(&tame)),
                &overrides(theirs),
                &overrides(ours),
            )
        };
        let other = [("search_path", "a"), ("statement_timeout", "5s")];
        for text in
            ["set search_path = b", "reset all", "discard all", "set statement_timeout = 0; set role app", "reset role"]
        {
            assert!(needs_nothing(text, &other, &[("work_mem", "1MB")]), "{text}");
        }
        for text in [
            "select 1",
            "set search_path = b; select 1",
            "set local search_path = b",
            "begin; set search_path = b",
            "set app.tenant = 1",
            "set search_path from current",
            "set session characteristics as transaction read only, isolation level serializable; set app.tenant = 1",
            "set session authorization ann",
            "select set_config('search_path', 'b', false)",
            "",
        ] {
            assert!(!needs_nothing(text, &other, &[]), "{text}");
        }
        assert!(!needs_nothing("set search_path = b", &[("role", "app")], &[]), "a role may not set it");
        assert!(!needs_nothing("set search_path = b", &[], &[("role", "app")]));
        assert!(needs_nothing("set role other", &[("role", "app")], &[]));
        assert!(!needs_nothing("set role other", &[("session_authorization", "app")], &[]));
        assert!(!needs_nothing("discard all", &[("statement_timeout", "1ms")], &[]), "it would not come to its end");
    }

    #[test]
    fn what_was_reset_last_is_told() {
        for (texts, expected) in [
            (&["reset timezone"][..], true),
            (&["set time zone default"], true),
            (&["reset all"], true),
            (&["reset all", "set timezone = 'UTC'"], false),
            (&["set timezone = 'UTC'"], false),
            (&["set datestyle = 'ISO'"], false),
        ] {
            assert_eq!(effects(texts).is_reset("TimeZone"), expected, "{texts:?}");
        }
    }

    #[test]
    fn the_last_statement_decides_a_parameter() {
        for (texts, name, expected) in [
            (&["set search_path = a"][..], "search_path", true),
            (&["set search_path = a", "reset search_path"], "search_path", false),
            (&["set search_path = a"], "default_transaction_read_only", false),
            (&["set role ann"], "is_superuser", true),
            (&["reset role"], "is_superuser", true),
            (&["discard all"], "is_superuser", true),
            (&["reset all"], "is_superuser", false),
            (&["set work_mem = '1MB'"], "is_superuser", false),
        ] {
            assert_eq!(effects(texts).decides(name), expected, "{texts:?}");
        }
    }
}
