//! The system user of the throw-away programs: PostgreSQL refuses to run as root.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User};

use super::TrialError;

/// The system user that runs the programs of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemUser {
    /// Our own user, which is not root.
    Own {
        /// Its name.
        name: String,
    },
    /// Another user, because we are root.
    Unprivileged {
        /// The name of the user.
        name: String,
        /// Its user id, never 0.
        uid: u32,
        /// Its primary group id.
        gid: u32,
    },
}

impl SystemUser {
    /// Our own user, or if we are root, `postgres` or else `nobody`.
    ///
    /// # Errors
    /// We are root and neither user exists.
    pub fn ordinary() -> Result<Self, TrialError> {
        let own = Uid::effective();
        if !own.is_root() {
            let name = User::from_uid(own).ok().flatten().map_or_else(|| own.to_string(), |user| user.name);
            return Ok(Self::Own { name });
        }
        let users = CANDIDATES.iter().filter_map(|name| User::from_name(name).ok().flatten());
        if let Some(user) = users.into_iter().find(|user| !user.uid.is_root()) {
            return Ok(Self::Unprivileged { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() });
        }
        Err(TrialError::step(
            "PostgreSQL refuses to run as root".into(),
            format!("none of the accounts {} exists here; run this as an ordinary user", CANDIDATES.join(", ")),
        ))
    }

    /// The name of the user.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Own { name } | Self::Unprivileged { name, .. } => name,
        }
    }

    /// The name of the user to whom a pooler started by root must switch; `None` if we are not root.
    #[must_use]
    pub fn become_name(&self) -> Option<&str> {
        match self {
            Self::Own { .. } => None,
            Self::Unprivileged { name, .. } => Some(name),
        }
    }

    /// Makes a command run as this user.
    pub fn dress(&self, command: &mut Command) {
        if let Self::Unprivileged { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
    }

    /// Gives a file or directory to this user.
    ///
    /// # Errors
    /// As `chown`.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Own { .. } => Ok(()),
            Self::Unprivileged { uid, gid, .. } => std::os::unix::fs::chown(path, Some(*uid), Some(*gid)),
        }
    }

    /// Whether this user may enter a directory and all above it, judged by the mode bits for others.
    #[must_use]
    pub fn may_enter(&self, directory: &Path) -> bool {
        use std::os::unix::fs::PermissionsExt;
        matches!(self, Self::Own { .. })
            || directory
                .ancestors()
                .filter(|above| !above.as_os_str().is_empty())
                .all(|above| fs::metadata(above).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0))
    }
}

const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_never_root() {
        match SystemUser::ordinary() {
            Ok(SystemUser::Unprivileged { uid, .. }) => assert_ne!(uid, 0),
            Ok(SystemUser::Own { .. }) => assert!(!Uid::effective().is_root()),
            Err(_) => assert!(Uid::effective().is_root()),
        }
    }
}
