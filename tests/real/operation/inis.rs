//! Configurations as distributions, images and operators write them: each is accepted unchanged.
//!
//! Always true: `tests/ini` has one of each kind, in our own words with their keys; `@DIR@` stands for a directory that contains
//! the files that they name.
//! Not here: what the settings do.

use std::path::{Path, PathBuf};

use tests::authority::Authority;
use tests::program::{Ended, run};
use tests::runner::skip;
use tests::wait::LIMIT;

use crate::house::House;

pub(crate) fn what_others_generate_is_accepted_with_exact_warnings(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let directory = furnish(house);
    for (name, warnings, found) in SAMPLES {
        let ini = place_sample(house, &directory, name, "");
        let ended = check(house, &ini);
        let expected: String = warnings.iter().map(|words| format!("warning: {}:{words}\n", ini.display())).collect();
        assert_eq!((ended.code(), ended.err.as_str()), (0, ""), "{name}: {ended:?}");
        assert_eq!(ended.out, format!("{expected}{}: good ({found})\n", ini.display()), "{name}");
    }
}

/// Zalando's image runs a patched PgBouncer; an unpatched one refuses this line too.
pub(crate) fn a_setting_of_zalandos_own_is_named(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let directory = furnish(house);
    let ini = place_sample(house, &directory, "zalando", "stats_users_prefix = robot_\n");
    let ended = check(house, &ini);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.err.contains("unknown parameter: pgbouncer/stats_users_prefix"), "{ended:?}");
    assert!(ended.err.ends_with("1 mistake\n"), "{ended:?}");
}

/// The file that the distribution's package installs, if it is here: unchanged, and with all commented settings enabled.
pub(crate) fn the_distributions_own_file_is_accepted(house: &House) {
    if !house.place.is_trunkline() {
        return skip("PgBouncer has no --check");
    }
    let Ok(text) = std::fs::read_to_string(INSTALLED) else {
        return skip("there is no package pgbouncer");
    };
    let ended = run(house.place.command(house.place.pooler(), "KILL").args(["--check", INSTALLED]), LIMIT);
    assert_eq!((ended.code(), ended.err.as_str()), (0, ""), "{ended:?}");
    let ini = house.place.directory().join("told.ini");
    house.place.write(&ini, &said(&text));
    let ended = check(house, &ini);
    assert!(ended.code() == 0 && ended.err.is_empty(), "{ended:?}\n{}", said(&text));
}

/// Enables lines such as `;name = value` by removing the semicolon. A name that is already set, and a value that is only
/// described, stay comments.
fn said(text: &str) -> String {
    let mut names = Vec::new();
    let mut said = String::new();
    for line in text.lines() {
        let told = line.strip_prefix(';').unwrap_or(line);
        let name = told.split('=').next().unwrap_or_default().trim();
        let is_name =
            told.contains('=') && !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        // These name files that do not exist; `service_name` is for Windows.
        let is_odd = name.ends_with("_file") || name == "resolv_conf" || name == "service_name";
        let is_good = is_name && !is_odd && !names.contains(&name);
        names.extend(is_name.then_some(name));
        said.push_str(if is_good { told } else { line });
        said.push('\n');
    }
    said
}

/// Creates everything that the samples name.
fn furnish(house: &House) -> PathBuf {
    let directory = house.place.directory();
    let authority = Authority::new("an authority");
    let own = authority.signs("pooler", &["localhost"]);
    let write = |name: &str, text: &str| house.place.write(&directory.join(name), text);
    write("userlist.txt", "\"shop_owner\" \"secret\"\n\"pooler\" \"md5d1b1b6b2f1e1a6ad4c8f4a5e6f7a8b9c\"\n");
    write("pg_hba.conf", "local pgbouncer pgbouncer peer\nhost all all 0.0.0.0/0 md5\nhost all all ::/0 md5\n");
    write("resolv.conf", "nameserver 127.0.0.1\n");
    write("included.ini", "; nothing was added\n");
    write("ca.crt", &authority.pem());
    write("own.crt", &own.certificate);
    house.place.write_secret(&directory.join("own.key"), &own.key);
    directory
}

fn place_sample(house: &House, directory: &Path, name: &str, more: &str) -> PathBuf {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("ini").join(format!("{name}.ini"));
    let text = std::fs::read_to_string(&sample).unwrap_or_else(|error| panic!("{}: {error}", sample.display()));
    let ini = directory.join("ini");
    house.place.write(&ini, &(text.replace("@DIR@", &directory.display().to_string()) + more));
    ini
}

fn check(house: &House, ini: &Path) -> Ended {
    run(house.place.command(house.place.pooler(), "KILL").arg("--check").arg(ini), LIMIT)
}

/// Name, the warnings without the path in front, and the expected counts.
const SAMPLES: [(&str, &[&str], &str); 6] = [
    (
        "debian",
        &[
            "5: max_db_connections (30) is smaller than one pool may become (50 servers and 10 in reserve)",
            "30: admin_users names users who are not in auth_file and cannot log in: user2, someadmin, otheradmin",
            "31: stats_users names users who are not in auth_file and cannot log in: stats, root",
        ],
        "1 file, 2 databases and any other (*)",
    ),
    (
        "bitnami",
        &["11: auth_user postgres is not in auth_file: its logins at servers have no password"],
        "1 file, 1 database and any other (*)",
    ),
    ("cloudnative_pg", &[], "1 file, 0 databases and any other (*)"),
    ("zalando", &[], "1 file, 1 database and any other (*)"),
    (
        "crunchy",
        &["9: auth_user _crunchypgbouncer is not in auth_file: its logins at servers have no password"],
        "2 files, 0 databases and any other (*)",
    ),
    (
        "percona",
        &["10: auth_user _crunchypgbouncer is not in auth_file: its logins at servers have no password"],
        "2 files, 1 database and any other (*)",
    ),
];

const INSTALLED: &str = "/etc/pgbouncer/pgbouncer.ini";
