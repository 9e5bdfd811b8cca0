//! A SELECT that only takes or releases one advisory lock of the session.
//!
//! Always true: the one row of its answer tells whether it did; no user-defined function can be called instead.
//! Not here: calls among other expressions, whose effect is asked for (`classify`), what a session holds (`protocol::state`).

use std::fmt::{Display, Formatter};

use crate::knowledge::Knowledge;
use crate::lexer::Kind;
use crate::words::Words;

/// The key of an advisory lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockKey {
    /// A `bigint`.
    One(i64),
    /// Two values of type `integer`.
    Two(i32, i32),
}

impl Display for LockKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(key) => write!(f, "{key}"),
            Self::Two(first, second) => write!(f, "{first}, {second}"),
        }
    }
}

/// One call of a function that takes or releases an advisory lock of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockCall {
    /// The key of the lock.
    pub key: LockKey,
    /// Whether the lock is shared (`ShareLock` in `pg_locks`, otherwise `ExclusiveLock`).
    pub is_shared: bool,
    /// Whether the lock is released; otherwise it is taken.
    pub releases: bool,
}

/// Reads a statement that is only such a call, with its key written as numbers.
pub(crate) fn locks_alone(words: &Words<'_>, knowledge: Option<&Knowledge>) -> Option<LockCall> {
    let is_qualified = words.is(1, "pg_catalog") && words.is_symbol(2, b".");
    if !is_qualified && knowledge.is_none_or(Knowledge::has_namesakes) {
        return None;
    }
    let at = if is_qualified { 3 } else { 1 };
    let (_, is_shared, releases) = CALLS.into_iter().find(|(name, ..)| words.is(at, name))?;
    let number = |at: usize| match words.kind(at)? {
        Kind::Number => std::str::from_utf8(words.text(at)?).ok(),
        _ => None,
    };
    let (key, end) = match words.is_symbol(at + 3, b",") {
        true => (LockKey::Two(number(at + 2)?.parse().ok()?, number(at + 4)?.parse().ok()?), at + 5),
        false => (LockKey::One(number(at + 2)?.parse().ok()?), at + 3),
    };
    let is_all = words.is_symbol(at + 1, b"(") && words.is_symbol(end, b")") && words.end() == end + 1;
    is_all.then_some(LockCall { key, is_shared, releases })
}

/// The functions: their names, whether the lock is a shared one, whether they release it (`pg_proc.dat`).
pub(crate) const CALLS: [(&str, bool, bool); 6] = [
    ("pg_advisory_lock", false, false),
    ("pg_try_advisory_lock", false, false),
    ("pg_advisory_lock_shared", true, false),
    ("pg_try_advisory_lock_shared", true, false),
    ("pg_advisory_unlock", false, true),
    ("pg_advisory_unlock_shared", true, true),
];

#[cfg(test)]
mod tests {
    use crate::{Act, Dialect, DirtyState, Knowledge, classify};

    #[test]
    fn a_call_alone_tells_its_lock() {
        let tame = Knowledge::default();
        let told = |text: &str| {
            let class = classify(text.as_bytes(), Dialect::default(), Some(&tame));
            match &*class.acts {
                [Act::Lock(call)] => {
                    assert_eq!(class.touches, DirtyState::LOCKS);
                    format!("{}{}{}", call.key, [" ", " shared "][usize::from(call.is_shared)], call.releases)
                }
                _ => "-".into(),
            }
        };
        for (text, expected) in [
            ("SELECT pg_try_advisory_lock(20230, 7)", "20230, 7 false"),
            ("select pg_advisory_lock(9223372036854775807);", "9223372036854775807 false"),
            ("select pg_catalog.pg_advisory_lock_shared(5) -- five", "5 shared false"),
            ("select pg_try_advisory_lock_shared(1,2)", "1, 2 shared false"),
            ("select pg_advisory_unlock(5)", "5 true"),
            ("select pg_advisory_unlock_shared(1, 2)", "1, 2 shared true"),
            ("select pg_advisory_lock(-5)", "-"),
            ("select pg_advisory_lock(9223372036854775808)", "-"),
            ("select pg_advisory_lock(1, 2147483648)", "-"),
            ("select pg_advisory_lock(1.0)", "-"),
            ("select pg_advisory_lock(1), 2", "-"),
            ("select pg_advisory_lock(1) from item", "-"),
            ("select pg_advisory_lock(1) where false", "-"),
            ("select pg_advisory_lock($1)", "-"),
            ("select pg_advisory_lock('1')", "-"),
            ("select pg_advisory_lock(1, 2, 3)", "-"),
            ("select other.pg_advisory_lock(1)", "-"),
            ("select pg_advisory_lock(1); select 1", "-"),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn a_function_of_the_same_name_may_stand_before_it() {
        let source = crate::Source {
            name: "pg_advisory_unlock",
            is_readable: true,
            is_hidden: false,
            is_in_queries: false,
            text: "select true",
        };
        let knowledge = Knowledge::read([source].into_iter());
        let is_told =
            |text: &[u8], knowledge| matches!(&*classify(text, Dialect::default(), knowledge).acts, [Act::Lock(_)]);
        assert!(!is_told(b"select pg_advisory_unlock(1)", Some(&knowledge)));
        assert!(!is_told(b"select pg_advisory_lock(1)", Some(&knowledge)));
        assert!(!is_told(b"select pg_advisory_unlock(1)", None));
        assert!(is_told(b"select pg_catalog.pg_advisory_unlock(1)", Some(&knowledge)));
    }
}
