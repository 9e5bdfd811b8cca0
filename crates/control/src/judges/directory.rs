//! A directory is asked whether a password is its user's: by logging in there as that user (a bind of LDAP).
//!
//! Always true: whoever is let in has been let in by a directory, under one name that it has for the user; a server that cannot
//! be reached is passed over for the next one, one that has answered is believed.
//! Not here: what is configured (`auth::ldap`), who waits (`judges`).

use std::sync::Arc;
use std::time::Duration;

use auth::{LdapOptions, LdapScope, LdapSearch, LdapWay, Password};
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry};
use worker::letters::Verdict;

use super::trust;

/// Asks whether this is the user's password.
pub(super) async fn check(options: &LdapOptions, user: &str, password: &Password) -> Verdict {
    let password = std::str::from_utf8(password.as_bytes()).map_err(|_| "a password for LDAP must be UTF-8")?;
    let name = match &options.way {
        LdapWay::Simple { .. } => options.way.simple_dn(user).unwrap_or_default(),
        LdapWay::Search(search) => {
            let (mut directory, url) = connect(options).await?;
            let found = find(&mut directory, url, search, user).await;
            let _ = directory.unbind().await;
            found?
        }
    };
    // A bind with an empty name is one of nobody in particular, and succeeds with any password.
    if name.is_empty() {
        return Err("LDAP has an empty name for the user".into());
    }
    let (mut directory, url) = connect(options).await?;
    let bound = directory.simple_bind(&name, password).await.and_then(ldap3::LdapResult::success);
    let _ = directory.unbind().await;
    bound
        .map(drop)
        .map_err(|error| format!("LDAP login failed for user {name} on server {url}: {}", words(&error)).into())
}

/// The first server that can be reached, and where it is.
async fn connect(options: &LdapOptions) -> Result<(Ldap, &str), Arc<str>> {
    let mut settings = LdapConnSettings::new().set_conn_timeout(CONNECT_MAX).set_starttls(options.starts_tls);
    if options.starts_tls || options.urls.iter().any(|url| url.starts_with("ldaps:")) {
        settings = settings.set_config(trust::demand()?.without_alpn());
    }
    let mut why = String::new();
    for url in &options.urls {
        match LdapConnAsync::with_settings(settings.clone(), url).await {
            Ok((connection, directory)) => {
                // It ends with the last use of `directory`; what goes wrong with it is told there.
                tokio::spawn(async move { drop(connection.drive().await) });
                return Ok((directory, url));
            }
            Err(error) => {
                why = format!("could not connect to LDAP server {url}: {}", words(&error));
            }
        }
    }
    Err(why.into())
}

/// The name that a directory has for a user.
async fn find(directory: &mut Ldap, url: &str, search: &LdapSearch, user: &str) -> Result<String, Arc<str>> {
    let filter = search.filter_for(user)?;
    let searcher = search.bind_password.as_ref().map_or(Ok(""), |password| std::str::from_utf8(password.as_bytes()));
    let searcher = searcher.map_err(|_| "ldapbindpasswd must be UTF-8")?;
    let bound = directory.simple_bind(&search.bind_dn, searcher).await.and_then(ldap3::LdapResult::success);
    bound.map_err(|error| {
        let name = &search.bind_dn;
        format!("could not perform initial LDAP bind for ldapbinddn \"{name}\" on server \"{url}\": {}", words(&error))
    })?;
    let scope = match search.scope {
        LdapScope::Base => Scope::Base,
        LdapScope::One => Scope::OneLevel,
        LdapScope::Subtree => Scope::Subtree,
    };
    // No attribute: the name is all that is wanted.
    let found = directory.search(&search.base, scope, &filter, ["1.1"]).await.and_then(ldap3::SearchResult::success);
    let (entries, _) = found.map_err(|error| {
        format!("could not search LDAP for filter \"{filter}\" on server \"{url}\": {}", words(&error))
    })?;
    let mut names = entries.into_iter().filter(|entry| !entry.is_ref()).map(|entry| SearchEntry::construct(entry).dn);
    match (names.next(), names.count()) {
        (Some(name), 0) => Ok(name),
        (None, _) => {
            Err(format!("LDAP user \"{user}\" does not exist: filter \"{filter}\" on server \"{url}\"").into())
        }
        (Some(_), more) => {
            let count = more + 1;
            Err(format!("LDAP user \"{user}\" is not unique: filter \"{filter}\" on server \"{url}\" found {count}")
                .into())
        }
    }
}

/// What a directory says when it refuses, in the words of LDAP clients, or what went wrong on the way.
fn words(error: &LdapError) -> String {
    match error {
        LdapError::LdapResult { result } => {
            let known = REFUSALS.iter().find(|(code, _)| *code == result.rc).map(|(_, text)| (*text).to_owned());
            known.unwrap_or_else(|| format!("result code {}", result.rc))
        }
        LdapError::Io { source } => crate::source::words_of(source),
        LdapError::Timeout { .. } => "no answer in time".to_owned(),
        other => other.to_string(),
    }
}

const REFUSALS: [(u32, &str); 9] = [
    (1, "Operations error"),
    (2, "Protocol error"),
    (8, "Strong(er) authentication required"),
    (13, "Confidentiality required"),
    (32, "No such object"),
    (34, "Invalid DN syntax"),
    (49, "Invalid credentials"),
    (50, "Insufficient access"),
    (53, "Server is unwilling to perform"),
];

/// How long connecting to one server may take. Less than PgBouncer's 3 seconds: a client that waits no longer than that is to
/// hear why it is not let in.
const CONNECT_MAX: Duration = Duration::from_secs(2);
