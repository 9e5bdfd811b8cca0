//! TLS with clients and with servers.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};
use tests::authority::{Authority, Files};
use tests::client::Client;
use tests::message;
use tests::pooler::{Ini, Pooler};
use tests::postgres::SECRET;
use tests::program::{Ended, psql, run};
use tests::wait::wait_until;

use crate::house::House;

/// A pooler with TLS, and what its clients need for it.
pub(crate) struct Stage {
    pub(crate) pooler: Pooler,
    authority: Authority,
    ca: String,
    files: Files,
    ini: Ini,
}

impl Stage {
    /// A stage for a database of its own on the PostgreSQL with TLS.
    pub(crate) fn new(house: &House, database: &str, settings: &[&str]) -> Self {
        house.secure.postgres.database(database);
        let ini = Ini::new(&house.secure_line(database, database)).set("client_tls_sslmode = require");
        Self::with(house, settings.iter().fold(ini, |ini, setting| ini.set(setting)))
    }

    fn with(house: &House, ini: Ini) -> Self {
        let authority = Authority::new("an authority");
        let files = authority.signs("pooler", &["localhost", "127.0.0.1"]).files(&house.place);
        let ini = ini
            .set(&format!("client_tls_cert_file = {}", files.certificate.display()))
            .set(&format!("client_tls_key_file = {}", files.key.display()));
        let ca = authority.file(&house.place).display().to_string();
        Self { pooler: house.start(&ini), authority, ca, files, ini }
    }

    /// psql with TLS, which also verifies the pooler's name.
    fn psql(&self, user: &str, database: &str) -> Command {
        let mut command = psql(&self.pooler, user, database);
        command.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", &self.ca);
        command
    }

    pub(crate) fn ask(&self, database: &str, sql: &str) -> Ended {
        run(self.psql("u", database).args(["-c", sql]), LIMIT)
    }

    fn reload(&self) -> Ended {
        let mut console = psql(&self.pooler, "admin", "pgbouncer");
        run(console.env("PGSSLMODE", "require").args(["-c", "RELOAD"]), LIMIT)
    }

    /// A client that begins with a TLS handshake directly.
    fn direct(&self, protocols: &[&str]) -> StreamOwned<ClientConnection, TcpStream> {
        self.over(TcpStream::connect(self.pooler.address()).expect("a door"), protocols)
    }

    /// The same over this connection.
    pub(crate) fn over(&self, tcp: TcpStream, protocols: &[&str]) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).expect("ours"))
            .expect("an authority");
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        tcp.set_read_timeout(Some(LIMIT)).expect("a time limit");
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a client"), tcp)
    }
}

pub(crate) fn both_legs_are_secured_and_say_how(house: &House) {
    let stage = Stage::new(house, "tls_both", &["server_tls_sslmode = require"]);
    let server = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(stage.ask("tls_both", server).success(), "t|TLSv1.3\n");
    let shown = |what: &str| {
        let mut console = stage.psql("admin", "pgbouncer");
        let rows = run(console.args(["-c", what]), LIMIT).success();
        rows.lines().next().and_then(|row| row.split('|').nth(17)).unwrap_or_default().to_owned()
    };
    assert_eq!(shown("SHOW CLIENTS"), "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519");
    assert!(shown("SHOW SERVERS").starts_with("TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH="));
    stage.pooler.await_log("login attempt: db=tls_both user=u tls=TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519 ");
    stage.pooler.await_log("SSL established: TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=");
}

pub(crate) fn who_must_speak_tls_and_does_not_is_told_so(house: &House) {
    let stage = Stage::new(house, "tls_must", &[]);
    let plain = Client::try_login(stage.pooler.address(), &[("user", "u"), ("database", "tls_must")]);
    assert_eq!(plain.expect_err("refused").text, "SSL required");
    // A client on the same machine may connect without TLS.
    let mut local = psql(&stage.pooler, "u", "tls_must");
    local.arg("-h").arg(stage.pooler.directory()).args(["-c", "select 1"]);
    assert_eq!(run(&mut local, LIMIT).success(), "1\n");
}

pub(crate) fn who_may_speak_tls_may_also_not(house: &House) {
    let stage = Stage::new(house, "tls_may", &["client_tls_sslmode = allow"]);
    assert_eq!(stage.pooler.client("u", "tls_may").value("select 1"), "1");
    assert_eq!(stage.ask("tls_may", "select 1").success(), "1\n");
}

pub(crate) fn a_client_of_an_older_tls_is_served(house: &House) {
    let ciphers = "client_tls_ciphers = DHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256:HIGH";
    let stage = Stage::new(house, "tls_older", &[ciphers]);
    let mut older = stage.psql("u", "tls_older");
    older.env("PGSSLMAXPROTOCOLVERSION", "TLSv1.2").args(["-c", "select 1"]);
    assert_eq!(run(&mut older, LIMIT).success(), "1\n");
    stage.pooler.await_log("tls=TLSv1.2/ECDHE-ECDSA-AES128-GCM-SHA256/ECDH=");
}

pub(crate) fn clients_go_to_their_home_with_their_tls(house: &House) {
    let secure = &house.secure;
    let names: Vec<String> = (0..8).map(|number| format!("tls_home{number}")).collect();
    let ini = Ini::default().set("workers = 4").set("client_tls_sslmode = require");
    let ini = names.iter().fold(ini, |ini, name| {
        secure.postgres.database(name);
        ini.database(&house.secure_line(name, name))
    });
    let stage = Stage::with(house, ini);
    for name in names.iter().chain(&names) {
        assert_eq!(stage.ask(name, "select current_database()").success(), format!("{name}\n"));
    }
}

pub(crate) fn large_rows_pass_both_ways(house: &House) {
    let stage = Stage::new(house, "tls_copy", &["server_tls_sslmode = require"]);
    let sql = "create table t (x text);
               insert into t select repeat(md5(i::text), 300) from generate_series(1, 2000) i;
               \\copy t to program 'cat > {file}'
               create table u (like t);
               \\copy u from '{file}'
               select count(*), count(*) filter (where x = repeat(md5(rank::text), 300))
               from (select x, row_number() over () as rank from u) numbered";
    let file = stage.pooler.directory().join("rows");
    let mut command = stage.psql("u", "tls_copy");
    let script = sql.replace("{file}", &file.display().to_string());
    let script = script.lines().map(str::trim).collect::<Vec<_>>().join("\n") + ";\n";
    let path = stage.pooler.directory().join("script");
    house.place.write(&path, &script);
    let ended = run(command.arg("-f").arg(&path), Duration::from_secs(60)).success();
    assert_eq!(ended, "2000|2000\n");
}

pub(crate) fn a_client_that_does_not_read_gets_all_in_the_end(house: &House) {
    let stage = Stage::new(house, "tls_slow", &["server_tls_sslmode = require"]);
    let mut slow = stage.direct(&["postgresql"]);
    log_in(&mut slow, "tls_slow");
    slow.write_all(&message::query("select repeat('x', 1000) from generate_series(1, 20000)")).expect("sent");
    // The server is blocked until the client reads.
    house.secure.postgres.await_running("tls_slow", "repeat");
    let mut rows = 0;
    loop {
        let (kind, body) = frame(&mut slow);
        match kind {
            b'D' => {
                rows += 1;
                assert!(body.len() == 1006 && body[6..].iter().all(|&byte| byte == b'x'));
            }
            b'Z' => break,
            _ => {}
        }
    }
    assert_eq!(rows, 20_000);
}

pub(crate) fn tls_may_be_spoken_at_once(house: &House) {
    let stage = Stage::new(house, "tls_direct", &[]);
    for protocols in [&["postgresql"][..], &["http/1.1", "postgresql"]] {
        let mut client = stage.direct(protocols);
        log_in(&mut client, "tls_direct");
        assert_eq!(client.conn.alpn_protocol(), Some(&b"postgresql"[..]));
    }
    // A client that names no protocol may have been redirected here by an attacker, and mean another service.
    let mut unnamed = stage.direct(&[]);
    let said = unnamed.write_all(&message::startup(0, &[("user", "u"), ("database", "tls_direct")]));
    let heard = said.and_then(|()| unnamed.read(&mut [0; 1]));
    assert!(!matches!(heard, Ok(1..)), "{heard:?}");
    stage.pooler.await_log("received direct SSL connection request without ALPN protocol negotiation extension");
    let mut other = stage.direct(&["http/1.1"]);
    let refused = other.write_all(b"GET / HTTP/1.1").expect_err("refused");
    assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
    stage.pooler.await_log("TLS handshake error: ");
}

pub(crate) fn a_client_that_just_vanishes_is_no_warning(house: &House) {
    let stage = Stage::new(house, "tls_vanish", &[]);
    let mut client = stage.direct(&["postgresql"]);
    log_in(&mut client, "tls_vanish");
    // The connection ends without a TLS close alert.
    drop(client.sock.shutdown(Shutdown::Both));
    stage.pooler.await_log("closing because: client unexpected eof");
    assert!(!stage.pooler.log().contains("TLS handshake error"), "{}", stage.pooler.log());
}

pub(crate) fn clients_are_asked_for_certificates(house: &House) {
    let ours = Authority::new("an authority");
    let ca = ours.file(&house.place);
    let settings =
        [&format!("client_tls_ca_file = {}", ca.display()), "client_tls_sslmode = verify-full", "auth_type = cert"];
    let stage = Stage::new(house, "tls_cert", &settings);
    let come = |user: &str, own: Option<&Files>| {
        let mut command = stage.psql(user, "tls_cert");
        if let Some(own) = own {
            command.env("PGSSLCERT", &own.certificate).env("PGSSLKEY", &own.key);
        }
        run(command.args(["-c", "select current_user"]), LIMIT)
    };
    let own = ours.signs("u", &[]).own_files(&house.place);
    let strange = Authority::new("another authority").signs("u", &[]).own_files(&house.place);
    assert_eq!(come("u", Some(&own)).success(), "u\n");
    assert!(come("v", Some(&own)).failure().contains("certificate authentication failed"));
    assert!(come("u", None).failure().contains("certificate required"));
    come("u", Some(&strange)).failure();
    stage.pooler.await_log("TLS handshake error: peer did not return a certificate");
    stage.pooler.await_log("TLS handshake error: certificate verify failed: unable to get local issuer certificate");
}

pub(crate) fn rules_tell_who_speaks_tls(house: &House) {
    let ours = Authority::new("an authority");
    let ca = ours.file(&house.place);
    let rules = house.place.directory().join("hba");
    house.place.write(&rules, "hostnossl all all all reject\nhostssl all all all cert\n");
    let settings = [
        &format!("client_tls_ca_file = {}", ca.display()),
        "client_tls_sslmode = allow",
        "auth_type = hba",
        &format!("auth_hba_file = {}", rules.display()),
    ];
    let stage = Stage::new(house, "tls_rules", &settings);
    let plain = Client::try_login(stage.pooler.address(), &[("user", "u"), ("database", "tls_rules")]);
    assert_eq!(plain.expect_err("refused").text, "login rejected");
    assert!(stage.ask("tls_rules", "select 1").failure().contains("certificate authentication failed"));
    let own = ours.signs("u", &[]).own_files(&house.place);
    let mut command = stage.psql("u", "tls_rules");
    command.env("PGSSLCERT", &own.certificate).env("PGSSLKEY", &own.key).args(["-c", "select current_user"]);
    assert_eq!(run(&mut command, LIMIT).success(), "u\n");
}

pub(crate) fn logins_are_bound_to_their_channel(house: &House) {
    let line = format!("{} user=by_scram password='{SECRET}'", house.secure_line("tls_bound", "postgres"));
    let ini =
        Ini::new(&line).set("auth_type = scram-sha-256").set("server_tls_sslmode = require").secret("ann", SECRET);
    let stage = Stage::with(house, ini.set("client_tls_sslmode = require"));
    for binding in ["require", "prefer", "disable"] {
        let mut command = stage.psql("ann", "tls_bound");
        command.env("PGPASSWORD", SECRET).env("PGCHANNELBINDING", binding).args(["-c", "select current_user"]);
        assert_eq!(run(&mut command, LIMIT).success(), "by_scram\n", "{binding}");
    }
}

pub(crate) fn a_server_without_tls_is_refused_where_it_is_required(house: &House) {
    for (mode, is_served) in [("prefer", true), ("allow", true), ("require", false), ("verify-full", false)] {
        let ini = Ini::new(&house.line("postgres")).set(&format!("server_tls_sslmode = {mode}"));
        let ca = Authority::new("an authority").file(&house.place);
        let ini = ini.set(&format!("server_tls_ca_file = {}", ca.display())).set("query_wait_timeout = 1");
        let pooler = house.start(&ini.set("server_login_retry = 1"));
        let login = Client::try_login(pooler.address(), &[("user", "u"), ("database", "postgres")]);
        assert_eq!(login.is_ok(), is_served, "{mode}");
        let refused = "closing because: server refused SSL";
        if is_served {
            assert!(!pooler.log().contains(refused), "{mode}");
        } else {
            pooler.await_log(refused);
        }
    }
}

pub(crate) fn a_servers_certificate_is_checked_as_far_as_it_is_asked_for(house: &House) {
    let secure = &house.secure;
    let ours = secure.authority.file(&house.place).display().to_string();
    let other = Authority::new("another authority").file(&house.place).display().to_string();
    let serves = |mode: &str, ca: &str, host: &str| {
        let line = format!("d = host={host} port={} dbname=postgres", secure.postgres.port());
        let ini =
            Ini::new(&line).set(&format!("server_tls_sslmode = {mode}")).set(&format!("server_tls_ca_file = {ca}"));
        let pooler = house.start(&ini.set("query_wait_timeout = 1").set("server_login_retry = 1"));
        let login = Client::try_login(pooler.address(), &[("user", "u"), ("database", "d")]);
        (login.is_ok(), pooler)
    };
    for (mode, ca, host) in
        [("require", &other, "127.0.0.1"), ("verify-ca", &ours, "127.0.0.1"), ("verify-full", &ours, "localhost")]
    {
        assert!(serves(mode, ca, host).0, "{mode} {host}");
    }
    let (is_served, pooler) = serves("verify-ca", &other, "localhost");
    assert!(!is_served);
    pooler.await_log("TLS handshake error: certificate verify failed: unable to get local issuer");
    // The certificate names localhost but not its address.
    let (is_served, pooler) = serves("verify-full", &ours, "127.0.0.1");
    assert!(!is_served);
    pooler.await_log("certificate verify failed: it does not name the host");
}

pub(crate) fn servers_see_our_certificate(house: &House) {
    let secure = &house.secure;
    let own = secure.authority.signs("by_certificate", &[]).files(&house.place);
    let settings = [
        "server_tls_sslmode = require",
        &format!("server_tls_cert_file = {}", own.certificate.display()),
        &format!("server_tls_key_file = {}", own.key.display()),
    ];
    let stage = Stage::new(house, "tls_own", &settings);
    // Before PostgreSQL 12 the column had another name.
    let column = if house.secure.postgres.major() < 12 { "clientdn" } else { "client_dn" };
    let sql = &format!("select {column} from pg_stat_ssl where pid = pg_backend_pid()");
    assert_eq!(stage.ask("tls_own", sql).success(), "/CN=by_certificate\n");
}

/// As tokio-postgres cancels: the end of the handshake, the request and the close alert arrive at once.
pub(crate) fn who_says_one_thing_and_leaves_is_heard(house: &House) {
    let stage = Stage::new(house, "tls_brief", &[]);
    let mut client = stage.direct(&["postgresql"]);
    client.write_all(&message::startup(0, &[("user", "u"), ("database", "tls_brief")])).expect("a startup");
    let (pid, secret) = loop {
        let (kind, body) = frame(&mut client);
        if kind == b'K' {
            break (u32::from_be_bytes(body[..4].try_into().expect("four")), body[4..].to_vec());
        }
    };
    client.write_all(&message::query("select pg_sleep(60)")).expect("a query");
    house.secure.postgres.await_running("tls_brief", "pg_sleep");

    let StreamOwned { mut conn, mut sock } = stage.direct(&["postgresql"]);
    conn.write_tls(&mut sock).expect("a beginning");
    while conn.is_handshaking() && !conn.wants_write() {
        conn.read_tls(&mut sock).expect("an answer");
        conn.process_new_packets().expect("a handshake");
    }
    conn.writer().write_all(&message::cancel_request(pid, &secret)).expect("room");
    conn.send_close_notify();
    let mut all = Vec::new();
    while conn.wants_write() {
        conn.write_tls(&mut all).expect("room");
    }
    sock.write_all(&all).expect("a listener");
    drop(sock);
    let error = loop {
        let (kind, body) = any_frame(&mut client);
        if kind == b'E' {
            break String::from_utf8_lossy(&body).into_owned();
        }
    };
    assert!(error.contains("57014"), "{error}");
}

/// The cancel request carries the secret key of the server, so it must be encrypted like the server's own connection.
pub(crate) fn a_query_on_a_secured_server_is_cancelled_in_secret(house: &House) {
    let (port, said) = tap(house.secure.postgres.address());
    house.secure.postgres.database("tls_cancel");
    let ini = Ini::new(&format!("d = host=127.0.0.1 port={port} dbname=tls_cancel"));
    let pooler = house.start(&ini.clone().set("server_tls_sslmode = require"));
    let mut client = pooler.client("u", "d");
    let mut cancel_one = |is_switched_off: bool| {
        client.ask("select pg_sleep(60)");
        house.secure.postgres.await_running("tls_cancel", "pg_sleep");
        if is_switched_off {
            // The setting applies to new servers. Existing servers stay as they are, and so do the requests for them.
            pooler.rewrite(&ini.clone().set("server_tls_sslmode = disable"));
            pooler.console("RELOAD");
        }
        client.cancel();
        assert_eq!(client.answer().error().code, "57014");
    };
    cancel_one(false);
    cancel_one(true);
    assert!(!pooler.log().contains("failed to send cancel request"), "{}", pooler.log());
    let said = said.lock().expect("nobody has panicked");
    assert_eq!(said.len(), 3, "the server and the requests");
    for first in said.iter() {
        // `SSLRequest`, and then a handshake.
        assert_eq!(first[..9], [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f, 0x16]);
    }
}

/// The first bytes sent on each connection.
type Said = Arc<Mutex<Vec<Vec<u8>>>>;

/// A relay to this address that records the first bytes of each connection. Returns its port, and these bytes.
fn tap(target: SocketAddr) -> (u16, Said) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let said = Said::default();
    let heard = said.clone();
    thread::spawn(move || {
        for (number, near) in listener.incoming().enumerate() {
            let (Ok(mut near), Ok(mut far)) = (near, TcpStream::connect(target)) else { return };
            let (mut back_from, mut back_to) =
                (far.try_clone().expect("a socket"), near.try_clone().expect("a socket"));
            heard.lock().expect("nobody has panicked").push(Vec::new());
            let heard = heard.clone();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = near.read(&mut bytes) {
                    let first = &mut heard.lock().expect("nobody has panicked")[number];
                    if first.len() < 64 {
                        first.extend_from_slice(&bytes[..count]);
                    }
                    if far.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = far.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = std::io::copy(&mut back_from, &mut back_to);
                let _ = back_to.shutdown(Shutdown::Write);
            });
        }
    });
    (port, said)
}

pub(crate) fn a_reload_reads_certificates_again(house: &House) {
    let stage = Stage::new(house, "tls_reload", &[]);
    stage.ask("tls_reload", "select 1").success();
    // The same paths with other certificates.
    let other = Authority::new("another authority");
    other.signs("pooler", &["127.0.0.1"]).replace(&stage.files, &house.place);
    stage.reload().success();
    wait_until("the new certificate is shown", LIMIT, || !stage.ask("tls_reload", "select 1").status.success());
    let ca = other.file(&house.place);
    let mut command = stage.psql("u", "tls_reload");
    command.env("PGSSLROOTCERT", &ca).args(["-c", "select 1"]);
    assert_eq!(run(&mut command, LIMIT).success(), "1\n");
}

pub(crate) fn a_reload_that_cannot_read_a_certificate_changes_nothing(house: &House) {
    let stage = Stage::new(house, "tls_broken", &[]);
    let broken = stage.ini.clone().set("client_tls_cert_file = /nowhere/a.crt");
    stage.pooler.rewrite(&broken);
    let told = stage.reload().failure();
    assert!(told.contains("RELOAD failed, see logs for additional details"), "{told}");
    stage.pooler.await_log(
        "ERROR TLS setup failed: client_tls_cert_file: failed to open /nowhere/a.crt: No such file or directory",
    );
    assert_eq!(stage.ask("tls_broken", "select 1").success(), "1\n");
    stage.pooler.rewrite(&stage.ini.clone().set("client_tls13_ciphers = unknown"));
    assert!(stage.reload().failure().contains("RELOAD failed"));
    stage.pooler.await_log("failed to set the TLSv1.3 cipher suites: unknown suite unknown");
    let (code, said) = Pooler::start_in_vain(&house.place, &broken);
    assert!(code == 1 && said.contains("FATAL TLS setup failed"), "{said}");
}

pub(crate) fn servers_are_replaced_when_tls_towards_them_changes(house: &House) {
    let settings = ["server_tls_sslmode = disable", "client_tls_sslmode = allow"];
    let stage = Stage::new(house, "tls_change", &settings);
    let mut client = stage.pooler.client("u", "tls_change");
    let first = client.server_pid();
    stage.reload().success();
    assert_eq!(client.server_pid(), first);
    let changed = stage.ini.clone().set("server_tls_sslmode = require");
    stage.pooler.rewrite(&changed);
    stage.reload().success();
    wait_until("there is another server", LIMIT, || client.server_pid() != first);
    assert_eq!(client.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()"), "t");
}

/// Logs in as `u` on an encrypted connection: the startup packet goes with the last flight of the handshake.
pub(crate) fn log_in(stream: &mut StreamOwned<ClientConnection, TcpStream>, database: &str) {
    stream.write_all(&message::startup(0, &[("user", "u"), ("database", database)])).expect("sent");
    while frame(stream).0 != b'Z' {}
}

/// Reads a message that is no error. Returns its type and its body.
pub(crate) fn frame(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> (u8, Vec<u8>) {
    let (kind, body) = any_frame(stream);
    assert_ne!(kind, b'E', "{}", String::from_utf8_lossy(&body));
    (kind, body)
}

/// Reads a message. Returns its type and its body.
fn any_frame(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> (u8, Vec<u8>) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("a header");
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).expect("a body");
    (header[0], body)
}

const LIMIT: Duration = Duration::from_secs(20);
