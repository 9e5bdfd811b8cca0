//! The process's system user, and its limit of descriptors.
//!
//! Always true: the pooler does not run as root.

use config::Settings;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{User, geteuid, initgroups, setgid, setuid};

use crate::last_words::Fatal;

/// Switches to `user`, if one is given, and then checks that the process is not root's.
///
/// # Errors
/// There is no such user, the process may not switch to it, or it would run as root.
pub(crate) fn become_user(user: Option<&str>) -> Result<(), Fatal> {
    if let Some(name) = user {
        switch_to(name)?;
    }
    if geteuid().is_root() {
        return Err(Fatal("trunkline should not run as root: name whom to become with user = or -u".to_owned()));
    }
    Ok(())
}

/// The message for a user that does not exist.
pub(crate) fn unknown(name: &str) -> Option<String> {
    matches!(User::from_name(name), Ok(None)).then(|| format!("could not find user '{name}'"))
}

fn switch_to(name: &str) -> Result<(), Fatal> {
    let failed =
        |step: &str, error: nix::Error| Fatal(format!("cannot become user '{name}': {step}: {}", error.desc()));
    let found = User::from_name(name).map_err(|error| failed("getpwnam", error))?;
    let user = found.ok_or_else(|| Fatal(format!("could not find user '{name}'")))?;
    if user.uid == geteuid() {
        return Ok(());
    }
    let c_name = std::ffi::CString::new(name).map_err(|_| Fatal(format!("could not find user '{name}'")))?;
    initgroups(&c_name, user.gid).map_err(|error| failed("initgroups", error))?;
    setgid(user.gid).map_err(|error| failed("setgid", error))?;
    setuid(user.uid).map_err(|error| failed("setuid", error))
}

/// The limit of descriptors: the soft limit in force, and the hard limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DescriptorLimit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// Raises the soft limit to the hard limit, if allowed.
///
/// # Errors
/// The system does not report the limit.
pub(crate) fn raise_descriptor_limit() -> Result<DescriptorLimit, Fatal> {
    let failed = |error: nix::Error| Fatal(format!("getrlimit: {}", error.desc()));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Ok(DescriptorLimit { soft: if raised { hard } else { soft }, hard })
}

/// The effective user id.
pub(crate) fn own_uid() -> u32 {
    geteuid().as_raw()
}

/// How many descriptors are needed when all limits are reached, computed as in PgBouncer: every user may have a pool in
/// every database without a forced user. Connections that have not logged in have descriptors besides those of clients.
pub(crate) fn descriptors_expected(settings: &Settings, users: usize) -> u64 {
    let users = u64::try_from(users).unwrap_or(u64::MAX);
    let servers = settings.databases.values().map(|database| {
        let size = u64::from(database.pool_size.unwrap_or(settings.default_pool_size));
        if database.user.is_some() { size } else { size.saturating_mul(users) }
    });
    let connections = u64::from(settings.max_client_conn) + u64::from(settings.unauthenticated_connections_max());
    servers.fold(connections + OTHERS, u64::saturating_add)
}

/// Listeners, logs and the like, as PgBouncer counts them.
const OTHERS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_may_have_a_pool_in_every_database_that_forces_none() {
        let text = "[databases]\na = pool_size=2\nb = pool_size=5 user=x\nc =\n[pgbouncer]\nauth_type=any\n\
                    max_client_conn=100\ndefault_pool_size=7\n";
        let read = |_: &str| Ok(text.as_bytes().to_vec());
        let loaded = config::load("test.ini", &read, &config::Overrides::default()).expect("good settings");
        assert_eq!(descriptors_expected(&loaded.settings, 3), 100 + 1000 + 10 + 2 * 3 + 5 + 7 * 3);
    }
}
