//! What is derived from a line of `[databases]`: the entry of its reads on replicas, and one for each role that its clients ask for
//! (`trunkline.target_session_attrs`, `listen_port_replica`).
//!
//! Always true: an entry that is derived differs from its line in what a host has to be, and its name is the line's with a suffix, such
//! as `shop:standby`; a client reaches it by the name of the line only; a line of that very name goes first.
//! Not here: who asks for it (`worker::admission`, `worker::reads`).

use std::sync::Arc;

use cluster::LagLimit;

use crate::catalog::{ReadRouting, Settings, Words};
use crate::database::{Database, SessionAttrs};
use crate::replica_terms::WhenNoReplica;

/// What is derived from a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Derived {
    /// The replicas of its cluster, for its reads.
    Reads,
    /// What clients asked for.
    Asked(SessionAttrs),
}

/// The name of the line that such an entry would be derived from.
pub(crate) fn line_of(name: &str) -> Option<&str> {
    parts(name).map(|(line, _)| line)
}

/// The names of all that may be derived from a line of this name.
pub fn derived_names(line: &str) -> impl Iterator<Item = String> {
    let asked = SessionAttrs::ALL.iter().map(|(word, _)| *word);
    std::iter::once(READS).chain(asked).map(move |word| format!("{line}:{word}"))
}

fn parts(name: &str) -> Option<(&str, Derived)> {
    let split = |name: &str| {
        let (line, suffix) = name.rsplit_once(':')?;
        let asked = || SessionAttrs::of_word(suffix).map(Derived::Asked);
        let derived = if suffix == READS { Some(Derived::Reads) } else { asked() };
        derived.map(|derived| (line.len(), derived))
    };
    let (length, derived) = split(name)?;
    let line = &name[..length];
    split(line).is_none().then_some((line, derived))
}

/// A database has one host, and a client asks for a host of a kind that it need not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneHost;

impl SessionAttrs {
    /// The word of libpq for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, attrs)| *attrs == self).map_or("", |(word, _)| word)
    }

    /// What this word of libpq says.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(each, _)| *each == word).map(|(_, attrs)| *attrs)
    }
}

impl Database {
    /// What its reads on replicas of its cluster belong to, if it is on the primary of one: the same with `target_session_attrs=standby`.
    #[must_use]
    pub fn replicas(&self) -> Option<Self> {
        self.cluster_of_primary()?;
        let mut replicas = self.derive(READS, SessionAttrs::Standby);
        replicas.read_routing = None;
        Some(replicas)
    }

    /// What clients belong to that ask for a host of this kind; `None` if it has such hosts itself.
    ///
    /// # Errors
    /// It has one host, which may be of another kind: more pools for that would only multiply its servers.
    pub fn asked_for(&self, attrs: SessionAttrs) -> Result<Option<Self>, OneHost> {
        use SessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
        let own = self.target_session_attrs;
        let has_such = own == attrs || matches!((own, attrs), (ReadWrite, Primary) | (Standby, ReadOnly));
        let has_one_host = self.cluster.is_none() && self.hosts.len() <= 1;
        match attrs {
            _ if has_such => return Ok(None),
            Any | PreferStandby if has_one_host && own == Any => return Ok(None),
            _ if has_one_host => return Err(OneHost),
            _ => {}
        }
        let mut derived = self.derive(attrs.word(), attrs);
        derived.read_routing = Some(ReadRouting::Off);
        if derived.cluster_of_primary().is_some() {
            derived.max_lag = LagLimit::default();
        }
        Ok(Some(derived))
    }

    fn derive(&self, suffix: &str, target_session_attrs: SessionAttrs) -> Self {
        let mut derived = self.clone();
        derived.name = format!("{}:{suffix}", self.name).into();
        derived.derived_from = Some(Arc::clone(&self.name));
        derived.target_session_attrs = target_session_attrs;
        derived.when_no_replica = WhenNoReplica::default();
        derived.min_pool_size = Some(0);
        derived
    }

    /// The name of the line that it is derived from, else its own: what operators and clients call it by.
    #[must_use]
    pub fn line_name(&self) -> &Arc<str> {
        self.derived_from.as_ref().unwrap_or(&self.name)
    }
}

impl Settings {
    /// The database of this name, as for a client, or what is derived from one.
    #[must_use]
    pub fn database_or_derived(&self, name: &str) -> Option<Arc<Database>> {
        match self.parent_of(name) {
            Some((line, Derived::Reads)) => line.replicas().map(Arc::new),
            Some((line, Derived::Asked(attrs))) => line.asked_for(attrs).ok()?.map(Arc::new),
            None => self.database(name),
        }
    }

    /// Whether the name is one of what is derived from a database, which clients cannot name.
    #[must_use]
    pub fn is_derived(&self, name: &str) -> bool {
        self.parent_of(name).is_some()
    }

    /// Whether a database of this name is what the reads of another one belong to.
    #[must_use]
    pub fn is_of_replicas(&self, name: &str) -> bool {
        self.parent_of_replicas(name).is_some()
    }

    /// The database on the primary of a cluster whose reads belong to this name.
    #[must_use]
    pub fn parent_of_replicas(&self, name: &str) -> Option<Arc<Database>> {
        self.parent_of(name).and_then(|(line, derived)| (derived == Derived::Reads).then_some(line))
    }

    fn parent_of(&self, name: &str) -> Option<(Arc<Database>, Derived)> {
        let (line, derived) = parts(name)?;
        if derived != Derived::Reads && self.databases.contains_key(name) {
            return None;
        }
        let line = self.database(line)?;
        let may_be = match derived {
            Derived::Reads => line.cluster_of_primary().is_some(),
            Derived::Asked(attrs) => line.asked_for(attrs).is_ok(),
        };
        may_be.then_some((line, derived))
    }
}

/// The suffix of [`Database::replicas`].
const READS: &str = "replica";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_line_and_what_is_derived() {
        for (name, line) in [
            ("shop:replica", Some("shop")),
            ("shop:standby", Some("shop")),
            ("a:b:any", Some("a:b")),
            (":primary", Some("")),
            ("shop", None),
            ("shop:", None),
            ("shop:Standby", None),
            ("shop:standby:replica", None),
        ] {
            assert_eq!(line_of(name), line, "{name}");
        }
        assert!(derived_names("x").all(|name| line_of(&name) == Some("x")));
    }

    #[test]
    fn who_asks_for_what_the_line_gives_belongs_to_the_line() {
        use SessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
        for (own, asked, is_derived, of_one_host) in [
            (ReadWrite, ReadWrite, false, Ok(None)),
            (ReadWrite, Primary, false, Ok(None)),
            (Primary, ReadWrite, true, Err(OneHost)),
            (Standby, ReadOnly, false, Ok(None)),
            (ReadOnly, Standby, true, Err(OneHost)),
            (ReadWrite, Any, true, Err(OneHost)),
            (Any, PreferStandby, true, Ok(None)),
            (Any, Standby, true, Err(OneHost)),
        ] {
            let mut line = Database::named("x".into());
            line.target_session_attrs = own;
            assert_eq!(line.asked_for(asked), of_one_host, "{own:?} {asked:?}");
            line.cluster = Some("main".into());
            let derived = line.asked_for(asked).expect("it has a choice");
            assert_eq!(derived.is_some(), is_derived, "{own:?} {asked:?}");
            assert!(
                derived.is_none_or(|derived| derived.target_session_attrs == asked && **derived.line_name() == *"x")
            );
        }
    }
}
