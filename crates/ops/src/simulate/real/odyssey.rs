//! Odyssey's configuration for a spec.
//!
//! Always true: what is not written has Odyssey's own default, its reset of servers included; what a spec says and Odyssey has no word for is named, so
//! that no comparison is made in silence between different limits.
//! Not here: the same spec for Trunkline and PgBouncer (`ini`), starting it (`stage`).

use std::fmt::Write as _;
use std::time::Duration;

use pool::{Mode, Reuse};

use super::ini::Around;
use super::objects::Objects;
use crate::simulate::spec::Spec;

/// The directive without which BEGIN is answered before there is a server, which would be taken for a short wait. Odyssey has it since May 2026;
/// before, it is an unknown word, and nothing is deferred.
pub(super) const DEFERRED_BEGIN: &str = "virtual_transaction";

/// The file. `password` is that of all roles, if they have one.
pub(super) fn configuration(spec: &Spec, objects: &Objects, around: &Around<'_>, password: Option<&str>) -> String {
    let mut text = String::from(HEAD);
    let first = spec.databases.first().map(|database| database.pooler.clone()).unwrap_or_default();
    if first.clients_max > 0 {
        line(&mut text, "client_max", first.clients_max);
    }
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "listen {{\n    host \"127.0.0.1\"\n    port {}\n}}\nstorage \"server\" {{\n    type \"remote\"\n    host \"{}\"\n    port {}\n}}\n",
        around.port, around.server_host, around.server_port
    );
    for (place, (database, name)) in spec.databases.iter().zip(&objects.databases).enumerate() {
        let limits = &database.pooler.limits;
        let mut roles: Vec<&str> = objects
            .tenants
            .iter()
            .filter(|tenant| tenant.database == place)
            .map(|tenant| tenant.role.as_str())
            .collect();
        roles.sort_unstable();
        roles.dedup();
        let _ = writeln!(text, "database \"{name}\" {{");
        for role in roles {
            let _ = writeln!(text, "    user \"{role}\" {{");
            match password {
                Some(password) => {
                    let _ = write!(
                        text,
                        "    authentication \"clear_text\"\n    password \"{password}\"\n    storage_password \"{password}\"\n"
                    );
                }
                None => text.push_str("    authentication \"none\"\n"),
            }
            let _ = write!(text, "    storage \"server\"\n    pool \"{}\"\n", mode(limits.mode));
            line(&mut text, "pool_size", limits.servers_max);
            if limits.servers_min > 0 {
                line(&mut text, "min_pool_size", limits.servers_min);
            }
            line(&mut text, "pool_timeout", limits.wait_max.map_or(0, |time| time.as_millis()));
            line(&mut text, "pool_ttl", whole_seconds(limits.idle_max));
            line(&mut text, "server_lifetime", whole_seconds(limits.lifetime_max));
            text.push_str("    client_fwd_error yes\n    }\n");
        }
        text.push_str("}\n");
    }
    text
}

/// The same for a version that does not defer BEGIN.
pub(super) fn without_deferred_begin(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with(DEFERRED_BEGIN)).map(|line| format!("{line}\n")).collect()
}

/// What a spec says and Odyssey cannot be told, in words.
pub(super) fn left_out(spec: &Spec) -> Vec<String> {
    let poolers = || spec.databases.iter().map(|database| (&database.pooler, database));
    let any = |is: &dyn Fn(&crate::simulate::spec::Pooler) -> bool| poolers().any(|(pooler, _)| is(pooler));
    let limit = poolers()
        .any(|(pooler, database)| pooler.database_limit(database.groups.iter().map(|group| group.tenants).sum()) > 0);
    let named = [
        (limit, "max_db_connections"),
        (any(&|pooler| pooler.user_max > 0), "max_user_connections"),
        (any(&|pooler| pooler.limits.reserve_max > 0), "reserve_pool_size"),
        (any(&|pooler| pooler.limits.reuse == Reuse::Oldest), "server_round_robin"),
    ];
    let named: Vec<&str> = named.into_iter().filter(|(is_said, _)| *is_said).map(|(_, name)| name).collect();
    match named.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "Odyssey has no {}: it was played without, so that its figures are not those of the same limits.",
            named.join(", ")
        )],
    }
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "    {name} {value}");
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Session => "session",
        Mode::Transaction => "transaction",
        Mode::Statement => "statement",
    }
}

/// 0 is no limit; a part of a second counts as a whole one.
fn whole_seconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

const HEAD: &str = "daemonize no
log_format \"%p %t %l [%i %s] (%c) %m\\n\"
log_to_stdout yes
log_session no
log_stats no
virtual_transaction no
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Facts, read_odyssey};
    use crate::simulate::demand::spec_of_text;

    const SPEC: &str = "[pooler]\ndefault_pool_size = 7\nmin_pool_size = 2\nmax_client_conn = 300\nserver_idle_timeout = '1.5 s'\nquery_wait_timeout = 9\n\
        [[databases]]\n[[databases.tenants]]\ncount = 2\narrivals = { poisson = 1 }\n\
        [[databases.tenants.transactions]]\nservice = '1 ms'\n";

    fn text(password: Option<&str>) -> String {
        let (_, spec) = spec_of_text(SPEC).expect("a spec");
        let around = Around {
            port: 6000,
            server_host: "127.0.0.1",
            server_port: 5000,
            become_name: None,
            admin: "demo",
            has_passwords: password.is_some(),
            is_ours: false,
        };
        configuration(&spec, &Objects::of(&spec), &around, password)
    }

    #[test]
    fn the_file_says_what_the_spec_says() {
        let open = text(None);
        assert_eq!(
            open,
            "daemonize no\nlog_format \"%p %t %l [%i %s] (%c) %m\\n\"\nlog_to_stdout yes\nlog_session no\nlog_stats no\nvirtual_transaction no\n    \
             client_max 300\nlisten {\n    host \"127.0.0.1\"\n    port 6000\n}\n\
             storage \"server\" {\n    type \"remote\"\n    host \"127.0.0.1\"\n    port 5000\n}\ndatabase \"tlsim_1\" {\n"
                .to_owned()
                + &["tlsim_1_1_1", "tlsim_1_1_2"]
                    .map(|role| {
                        format!(
                            "    user \"{role}\" {{\n    authentication \"none\"\n    storage \"server\"\n    pool \"transaction\"\n    pool_size 7\n    \
                             min_pool_size 2\n    pool_timeout 9000\n    pool_ttl 2\n    server_lifetime 3600\n    client_fwd_error yes\n    }}\n"
                        )
                    })
                    .concat()
                + "}\n"
        );
        let older = without_deferred_begin(&open);
        assert!(!older.contains(DEFERRED_BEGIN) && older.lines().count() + 1 == open.lines().count(), "{older}");
        let sealed = text(Some("word"));
        assert!(!sealed.contains("\"none\"") && sealed.matches("storage_password \"word\"").count() == 2, "{sealed}");
    }

    /// Our own reader of such files, which knows their grammar from files of others, finds the same limits.
    #[test]
    fn the_file_is_one_that_is_read_again() {
        let mut facts = Facts::default();
        let _ = read_odyssey("odyssey.conf", &text(None), &|_| Err(std::io::ErrorKind::NotFound.into()), &mut facts);
        assert!(facts.mistakes.is_empty(), "{:?}", facts.mistakes);
        let pools: Vec<_> = facts.poolers[0].lent().map(|pool| (pool.size, pool.min)).collect();
        assert_eq!(pools, [(7, 2), (7, 2)]);
    }

    #[test]
    fn what_odyssey_cannot_be_told_is_named() {
        let (_, spec) = spec_of_text(
            &SPEC.replace("[[databases]]", "max_db_connections = 9\nreserve_pool_size = 2\n[[databases]]"),
        )
        .expect("a spec");
        let told = left_out(&spec).join("");
        assert!(told.contains("no max_db_connections, reserve_pool_size:"), "{told}");
        assert!(left_out(&spec_of_text(SPEC).expect("a spec").1).is_empty());
    }
}
