//! What a real run is played at: PostgreSQL itself, or a pooler in front of it that is started for the run.
//!
//! Always true: a pooler listens on the loopback interface, and ends with its guard.
//! Not here: what it is configured with (`ini`).

use std::path::{Path, PathBuf};

use super::odyssey;
use crate::simulate::spec::Spec;

/// A target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TargetKind {
    /// Clients connect to PostgreSQL.
    Direct,
    /// This program, or another one of ours.
    Trunkline(Option<PathBuf>),
    /// PgBouncer, by a configuration made of the spec or by the settings of a given file.
    PgBouncer(Option<PathBuf>),
    /// Odyssey, as installed or another program, by a configuration made of the spec.
    Odyssey(Option<PathBuf>),
}

impl TargetKind {
    /// Reads `direct`, `trunkline`, `trunkline=PROGRAM`, `pgbouncer`, `pgbouncer=FILE`, `odyssey` or `odyssey=PROGRAM`.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').map_or((text, None), |(name, path)| (name, Some(PathBuf::from(path))));
        match (name, path) {
            ("direct", None) => Ok(Self::Direct),
            ("trunkline", path) => Ok(Self::Trunkline(path)),
            ("pgbouncer", path) => Ok(Self::PgBouncer(path)),
            ("odyssey", path) => Ok(Self::Odyssey(path)),
            _ => {
                let near = config::nearest(name, NAMES).map_or(String::new(), |near| format!("; did you mean {near}?"));
                Err(format!(
                    "--target \"{text}\": direct, trunkline[=PROGRAM], pgbouncer[=FILE.ini] or odyssey[=PROGRAM] is wanted{near}"
                ))
            }
        }
    }

    /// For a reader.
    pub(super) fn name(&self) -> String {
        let with = |name: &str, path: &Option<PathBuf>| match path {
            Some(path) => format!("{name} ({})", path.display()),
            None => name.to_owned(),
        };
        match self {
            Self::Direct => "direct".to_owned(),
            Self::Trunkline(path) => with("trunkline", path),
            Self::PgBouncer(path) => with("pgbouncer", path),
            Self::Odyssey(path) => with("odyssey", path),
        }
    }

    /// Whether the pooler is PgBouncer; `None` if there is none, or one that the virtual run does not know.
    pub(super) fn is_pgbouncer(&self) -> Option<bool> {
        match self {
            Self::Direct | Self::Odyssey(_) => None,
            other => Some(!other.is_ours()),
        }
    }

    /// The configuration that was given, if one was.
    pub(super) fn given(&self) -> Option<&Path> {
        match self {
            Self::PgBouncer(Some(path)) => Some(path),
            _ => None,
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Trunkline(_))
    }

    /// What the specs say and this pooler cannot be told, in words.
    pub(super) fn left_out(&self, settings: &[(Vec<String>, Spec)]) -> Vec<String> {
        match self {
            Self::Odyssey(_) => settings.first().map(|(_, spec)| odyssey::left_out(spec)).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The program; `None` if there is none to be started.
    pub(super) fn program(&self) -> Result<Option<PathBuf>, String> {
        match self {
            Self::Direct => Ok(None),
            Self::Trunkline(Some(path)) => Ok(Some(path.clone())),
            Self::Trunkline(None) => {
                std::env::current_exe().map(Some).map_err(|why| format!("the path of this program is not known: {why}"))
            }
            Self::PgBouncer(_) => installed("pgbouncer", " (apt-get install pgbouncer)").map(Some),
            Self::Odyssey(Some(path)) if !path.is_file() => {
                Err(format!("--target odyssey={0}: there is no program {0}", path.display()))
            }
            Self::Odyssey(Some(path)) => Ok(Some(path.clone())),
            Self::Odyssey(None) => installed("odyssey", "; --target odyssey=PROGRAM says where it is").map(Some),
        }
    }
}

/// Looks for a program where this system has its programs.
fn installed(name: &str, hint: &str) -> Result<PathBuf, String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).chain(PLACES.iter().map(PathBuf::from));
    let found = found.map(|place| place.join(name)).find(|path| Path::is_file(path));
    found.ok_or_else(|| format!("{name} is not installed here{hint}"))
}

const NAMES: [&str; 4] = ["direct", "trunkline", "pgbouncer", "odyssey"];
/// Where distributions put programs for administrators, beside the places of PATH.
const PLACES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_mistakes_told_with_the_nearest_name() {
        assert_eq!(TargetKind::read("direct"), Ok(TargetKind::Direct));
        assert_eq!(TargetKind::read("trunkline=/x/y"), Ok(TargetKind::Trunkline(Some("/x/y".into()))));
        assert_eq!(TargetKind::read("pgbouncer"), Ok(TargetKind::PgBouncer(None)));
        assert_eq!(TargetKind::read("odyssey=/x/odyssey"), Ok(TargetKind::Odyssey(Some("/x/odyssey".into()))));
        for text in ["pgbouncr", "direct=x", ""] {
            assert!(TargetKind::read(text).is_err(), "{text}");
        }
        assert!(TargetKind::read("pgbouncr").expect_err("none").contains("did you mean pgbouncer?"));
        assert!(TargetKind::read("odysey").expect_err("none").contains("did you mean odyssey?"));
    }

    #[test]
    fn a_program_that_is_not_there_is_told_before_anything_is_begun() {
        let told = TargetKind::Odyssey(Some("/nowhere/odyssey".into())).program().expect_err("none");
        assert_eq!(told, "--target odyssey=/nowhere/odyssey: there is no program /nowhere/odyssey");
        let told = installed("a-pooler-of-nobody", "; say where").expect_err("none");
        assert_eq!(told, "a-pooler-of-nobody is not installed here; say where");
    }
}
