//! Passwords that a directory (LDAP) or the system's PAM modules check.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::geteuid;
use tests::authority::Authority;
use tests::client::Client;
use tests::directory::{Begins, Directory, Person};
use tests::message::{self, Complaint};
use tests::peer::Peer;
use tests::pooler::{Ini, Pooler};
use tests::postgres::SECRET;
use tests::runner::skip;
use tests::wait::LIMIT;

use crate::house::House;

const PEOPLE: [Person; 5] = [
    Person { dn: "uid=u,dc=example,dc=net", uid: "u", password: "right" },
    Person { dn: "uid=by_scram,dc=example,dc=net", uid: "by_scram", password: SECRET },
    Person { dn: "uid=v,dc=example,dc=net", uid: "v", password: "one" },
    Person { dn: "uid=v,ou=x,dc=example,dc=net", uid: "v", password: "two" },
    Person { dn: "cn=searcher,dc=example,dc=net", uid: "searcher", password: "look" },
];

/// Logs in with a clear-text password, which the pooler must request.
fn enter(pooler: &Pooler, user: &str, password: &str, database: &str) -> Result<Client, Complaint> {
    let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
    peer.send(&message::startup(0, &[("user", user), ("database", database)]));
    let asked = peer.frame().expect("an answer");
    if asked.tag == b'E' {
        return Err(Complaint::read(&asked));
    }
    assert_eq!((asked.tag, &asked.body[..]), (b'R', &3_u32.to_be_bytes()[..]));
    peer.send(&message::frame(b'p', &message::strings(&[password])));
    Client::finish_login(peer, LIMIT)
}

fn refusal(outcome: Result<Client, Complaint>) -> String {
    let error = outcome.map(|_| ()).expect_err("somebody was let in");
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "08P01"));
    error.text
}

/// A configuration that uses the directory for administrators too.
fn ini(house: &House, settings: &[&str]) -> Ini {
    let ini =
        Ini::new(&house.line("postgres")).database(&format!("{} auth_user=u", house.line_as("asked", "postgres")));
    settings.iter().fold(ini, |ini, setting| ini.set(setting))
}

pub(crate) fn a_directory_knows_who_may_come_in(house: &House) {
    let directory = Directory::open(PEOPLE.to_vec());
    let port = directory.port();
    let simple = format!("ldapserver=127.0.0.1 ldapport={port} ldapprefix=\"uid=\" ldapsuffix=\",dc=example,dc=net\"");
    let options = format!("auth_ldap_options = {simple}");
    let pooler = house.start(&ini(house, &["auth_type = ldap", &options]));
    assert_eq!(enter(&pooler, "u", "right", "postgres").expect("let in").value("select current_user"), "u");
    // The pooler logs in to a server that asks for a password with the password of the user.
    assert_eq!(
        enter(&pooler, "by_scram", SECRET, "postgres").expect("let in").value("select current_user"),
        "by_scram"
    );
    assert_eq!(refusal(enter(&pooler, "u", "wrong", "postgres")), "LDAP authentication failed");
    assert_eq!(refusal(enter(&pooler, "stranger", "right", "postgres")), "LDAP authentication failed");
    assert_eq!(refusal(enter(&pooler, "u", "", "postgres")), "empty password returned by client");
    assert_eq!(refusal(enter(&pooler, "u", "right", "nowhere")), "no such database: nowhere");
    assert_eq!(refusal(enter(&pooler, "u", "right", "asked")), "bouncer config error");
    pooler.await_log("LDAP login failed for user uid=u,dc=example,dc=net on server ldap://127.0.0.1");
    pooler.await_log(": Invalid credentials");
    pooler.await_log("LDAP can't be used together with database authentication");
    let log = pooler.log();
    assert!(!log.contains("right") && !log.contains("wrong"), "a password is in the log: {log}");
}

pub(crate) fn a_directory_is_searched_for_who_wants_to_come_in(house: &House) {
    let directory = Directory::open(PEOPLE.to_vec());
    let search = format!("ldapurl=\"ldap://127.0.0.1:{}/dc=example,dc=net?uid?sub\"", directory.port());
    let rules = format!(
        "host pgbouncer all all trust\nhost all searcher all ldap {search} ldapbinddn=\"cn=nobody\" ldapbindpasswd=hidden\n\
         host all all all ldap {search} ldapbinddn=\"cn=searcher,dc=example,dc=net\" ldapbindpasswd=look\n"
    );
    let hba = house.place.directory().join("hba");
    house.place.write(&hba, &rules);
    let hba = format!("auth_hba_file = {}", hba.display());
    let pooler = house.start(&ini(house, &["auth_type = hba", &hba]));
    assert_eq!(enter(&pooler, "u", "right", "postgres").expect("let in").value("select 1"), "1");
    for (user, password, why) in [
        ("u", "wrong", "LDAP login failed for user uid=u,dc=example,dc=net"),
        ("stranger", "right", "LDAP user \"stranger\" does not exist"),
        ("v", "one", "LDAP user \"v\" is not unique"),
        ("u*", "right", "invalid character in user name for LDAP authentication"),
        ("searcher", "look", "could not perform initial LDAP bind for ldapbinddn \"cn=nobody\""),
    ] {
        assert_eq!(refusal(enter(&pooler, user, password, "postgres")), "LDAP authentication failed", "{user}");
        pooler.await_log(why);
    }
    assert!(!pooler.log().contains("hidden"), "a password is in the log");
}

/// The password is not sent before the directory has presented a valid certificate.
pub(crate) fn a_directory_may_be_asked_by_tls(house: &House) {
    let authority = Authority::new("people");
    let path = authority.file(&house.place);
    let good = authority.signs("", &["127.0.0.1"]);
    let of_another_name = authority.signs("", &["example.net"]);
    let of_another_authority = Authority::new("people").signs("", &["127.0.0.1"]);
    for (begins, option) in [(Begins::AtOnce, "ldapscheme=ldaps"), (Begins::WhenAsked, "ldaptls=1")] {
        for (identity, is_good) in [(&good, true), (&of_another_name, false), (&of_another_authority, false)] {
            let directory = Directory::open_secured(PEOPLE.to_vec(), identity, begins);
            let port = directory.port();
            let options = format!("ldapserver=127.0.0.1 ldapport={port} {option} ldapbasedn=\"dc=example,dc=net\"");
            let options = format!("auth_ldap_options = {options}");
            let ini = ini(house, &["auth_type = ldap", &options]);
            let pooler = house.start(&ini.environment("LDAPTLS_CACERT", &path.display().to_string()));
            if is_good {
                assert_eq!(enter(&pooler, "u", "right", "postgres").expect("let in").value("select 1"), "1");
                assert_eq!(refusal(enter(&pooler, "u", "wrong", "postgres")), "LDAP authentication failed");
                pooler.await_log(": Invalid credentials");
            } else {
                assert_eq!(refusal(enter(&pooler, "u", "right", "postgres")), "LDAP authentication failed");
                pooler.await_log("could not connect to LDAP server ldap");
                pooler.await_log("invalid peer certificate");
            }
        }
    }
}

/// A directory that does not answer holds up only clients that need it.
pub(crate) fn a_directory_that_does_not_answer_holds_up_its_own_only(house: &House) {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = silent.local_addr().expect("bound").port();
    let hba = house.place.directory().join("hba");
    let rules = format!(
        "host pgbouncer all all trust\nhost all u all ldap ldapserver=127.0.0.1 ldapport={port} ldapprefix=x\nhost all all all trust\n"
    );
    house.place.write(&hba, &rules);
    let hba = format!("auth_hba_file = {}", hba.display());
    let pooler = house.start(&ini(house, &["auth_type = hba", &hba, "client_login_timeout = 6"]));
    let mut waiting: Vec<Peer> = (0..40)
        .map(|_| {
            let mut peer = Peer::tcp(pooler.address()).expect("the port answers");
            peer.send(&message::startup(0, &[("user", "u"), ("database", "postgres")]));
            assert_eq!(peer.frame().expect("an answer").tag, b'R');
            peer.send(&message::frame(b'p', &message::strings(&["right"])));
            peer
        })
        .collect();
    assert_eq!(pooler.client("v", "postgres").value("select 1"), "1");
    for peer in &mut waiting {
        let answer = Complaint::read(&peer.frame().expect("an answer"));
        assert!(["client_login_timeout", "LDAP authentication failed"].contains(&&*answer.text), "{answer:?}");
    }
    drop(silent);
    assert_eq!(refusal(enter(&pooler, "u", "right", "postgres")), "LDAP authentication failed");
    // The last connection may still have been taken by the port that is being closed: it is reset then, not refused.
    pooler.await_log(&format!("ldap://127.0.0.1:{port}: Connection re"));
}

pub(crate) fn options_of_a_directory_that_are_wrong_or_missing_are_told(house: &House) {
    let wrong = ini(house, &["auth_type = ldap", "auth_ldap_options = ldapserver=a ldapbindpasswd=hidden"]);
    let (code, said) = Pooler::start_in_vain(&house.place, &wrong);
    assert_eq!(code, 1);
    assert!(
        said.contains("invalid value \"***\" for parameter auth_ldap_options") && !said.contains("hidden"),
        "{said}"
    );
    let pooler = house.start(&ini(house, &["auth_type = ldap"]));
    assert_eq!(refusal(enter(&pooler, "u", "right", "postgres")), "auth_ldap_options is null");
    pooler.await_log("auth_type = ldap needs auth_ldap_options");
}

/// PAM is configured for the whole machine, under the service name that PgBouncer uses: where that file exists already or
/// may not be written, nothing is tested.
pub(crate) fn the_systems_modules_know_who_may_come_in(house: &House) {
    let service = Path::new("/etc/pam.d/pgbouncer");
    if !geteuid().is_root() || !Path::new("/etc/pam.d").is_dir() || Service::is_anothers(service) {
        return skip(&format!("PAM is tried by root, where nobody has made {} for something else", service.display()));
    }
    let knows = house.place.directory().join("knows");
    house
        .place
        .write(&knows, "#!/bin/sh\nread -r password\n[ \"$PAM_USER $PAM_RHOST $password\" = 'u 127.0.0.1 right' ]\n");
    fs::set_permissions(&knows, fs::Permissions::from_mode(0o755)).expect("our own file takes permissions");
    let _service = Service::write(
        service,
        &format!(
            "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
            knows.display()
        ),
    );
    let pooler = house.start(&ini(house, &["auth_type = pam"]));
    assert_eq!(enter(&pooler, "u", "right", "postgres").expect("let in").value("select current_user"), "u");
    assert_eq!(refusal(enter(&pooler, "u", "wrong", "postgres")), "PAM authentication failed");
    assert_eq!(refusal(enter(&pooler, "v", "right", "postgres")), "PAM authentication failed");
    assert_eq!(refusal(enter(&pooler, "u", "right", "asked")), "bouncer config error");
    pooler.await_log("pam_authenticate() failed: ");
    pooler.await_log("PAM can't be used together with database authentication");
    // A user whose password is right may still be refused by the account check.
    let _service = Service::write(service, "auth required pam_permit.so\naccount required pam_deny.so\n");
    assert_eq!(refusal(enter(&pooler, "u", "right", "postgres")), "PAM authentication failed");
    pooler.await_log("pam_acct_mgmt() failed: ");
    assert!(!pooler.log().contains("right"), "a password is in the log");
}

/// A file in `/etc/pam.d` that is removed at the end. A file left behind by a killed run is recognized by its first line.
struct Service<'p>(&'p Path);

impl<'p> Service<'p> {
    fn write(path: &'p Path, text: &str) -> Self {
        fs::write(path, format!("{MARK}\n{text}")).expect("root may write there");
        Self(path)
    }

    fn is_anothers(path: &Path) -> bool {
        path.exists() && !fs::read_to_string(path).is_ok_and(|text| text.lines().next() == Some(MARK))
    }
}

const MARK: &str = "# written by a test of Trunkline, and of no use to anybody else";

impl Drop for Service<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}
