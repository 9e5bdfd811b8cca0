//! A throw-away PostgreSQL.
//!
//! Always true: its files are in the scratch directory, its processes end with the guard.
//! Not here: what is run on it.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::authority::{Authority, Identity};
use crate::client::{Answer, Client};
use crate::message;
use crate::peer::Peer;
use crate::place::{Place, free_port};
use crate::program::{run, signal};
use crate::wait::{LIMIT, try_wait_for, wait_until};

/// A running cluster. The roles `u`, `v` and `admin` need no password; `by_password`, `by_md5` and `by_scram` need the
/// password `SECRET` by the method of their name.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    port: u16,
    directory: PathBuf,
    major: u32,
}

impl Postgres {
    /// Makes a cluster and starts it.
    ///
    /// # Panics
    /// With PostgreSQL's output, when it cannot be created or does not start.
    pub fn start(place: &Place) -> Self {
        let directory = place.directory();
        let files = directory.join("pg");
        let port = free_port();
        let mut initdb = place.command(&place.postgres_program("initdb"), "KILL");
        initdb.arg("-D").arg(&files).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        run(&mut initdb, Duration::from_secs(120)).success();
        let major = major_of(&files);
        configure(place, &files, &directory, port, major);
        let server = launch(place, &directory);
        let mut postgres = Self { server, port, directory, major };
        postgres.await_login();
        postgres.query("create role u superuser login; create role v superuser login; create role admin login");
        postgres.query(&format!(
            "set password_encryption = 'md5'; create role by_md5 login password '{SECRET}';
             set password_encryption = 'scram-sha-256'; create role by_scram login password '{SECRET}';
             create role by_password login password '{SECRET}'"
        ));
        // Commits are not flushed here: without this checkpoint, a crash soon after could lose the roles.
        postgres.query("checkpoint");
        postgres
    }

    /// Starts a standby of it, from a copy of its files.
    ///
    /// # Panics
    /// When the standby does not start, or is not sent WAL.
    pub fn standby(&self, place: &Place) -> Self {
        let standby = Self { server: idle_child(), port: free_port(), directory: place.directory(), major: self.major };
        standby.follow(self, place)
    }

    /// Makes it a standby of another one, from a copy of the other's files. It must have been stopped before.
    ///
    /// # Panics
    /// When the standby does not start, or is not sent WAL.
    #[must_use]
    pub fn follow(mut self, primary: &Self, place: &Place) -> Self {
        let files = self.directory.join("pg");
        let _ = fs::remove_dir_all(&files);
        let mut backup = primary.client("postgres");
        let (begin, end) = match self.major {
            15.. => ("pg_backup_start('a copy', true)", "(pg_backup_stop(false)).labelfile"),
            _ => ("pg_start_backup('a copy', true, false)", "(pg_stop_backup(false, false)).labelfile"),
        };
        backup.run(&format!("select {begin}"));
        // Files of temporary tables may vanish meanwhile, which is no harm.
        let mut copy = place.command(Path::new("/bin/cp"), "KILL");
        copy.arg("-a").arg(primary.directory.join("pg")).arg(&files).stderr(Stdio::null());
        let _ = copy.status().expect("cp runs");
        let label = backup.value(&format!("select {end}"));
        place.write(&files.join("backup_label"), &label);
        for left in ["postmaster.pid", "postmaster.opts", "standby.signal"] {
            let _ = fs::remove_file(files.join(left));
        }
        configure(place, &files, &self.directory, self.port, self.major);
        let source = format!("primary_conninfo = 'host=127.0.0.1 port={} user=postgres'\n", primary.port);
        match self.major {
            12.. => {
                let path = files.join("postgresql.auto.conf");
                let before = fs::read_to_string(&path).expect("our own file");
                place.write(&path, &format!("{before}{source}"));
                place.write(&files.join("standby.signal"), "");
            }
            _ => place.write(&files.join("recovery.conf"), &format!("standby_mode = on\n{source}")),
        }
        self.server = launch(place, &self.directory);
        self.await_login();
        let sent = "select count(*) from pg_stat_wal_receiver where status = 'streaming'";
        wait_until("the standby is sent WAL", LIMIT, || self.value(sent) == "1");
        self
    }

    /// Ends the recovery of a standby.
    ///
    /// # Panics
    /// When it stays in recovery.
    pub fn promote(&self) {
        match self.major {
            12.. => drop(self.query("select pg_promote()")),
            _ => {
                // As `pg_ctl promote` does.
                fs::write(self.directory.join("pg").join("promote"), "").expect("our own directory");
                signal(self.server.id(), Signal::SIGUSR1);
            }
        }
        wait_until("recovery has ended", LIMIT, || self.value("select pg_is_in_recovery()") == "f");
    }

    /// Stops all its processes at once, as in a crash.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn crash(&mut self) {
        signal(self.server.id(), Signal::SIGQUIT);
        wait_until("postgres has stopped", LIMIT, || self.server.try_wait().is_ok_and(|ended| ended.is_some()));
    }

    /// Stops all its processes where they are: connections stay, and nothing is answered.
    ///
    /// # Panics
    /// When its processes cannot be found.
    pub fn freeze(&self) {
        let postmaster = self.server.id();
        signal(postmaster, Signal::SIGSTOP);
        let children =
            fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).expect("its children");
        for child in children.split_whitespace() {
            signal(child.parse().expect("a process"), Signal::SIGSTOP);
        }
    }

    /// Lets them go on.
    pub fn thaw(&self) {
        let postmaster = self.server.id();
        let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .for_each(|child| signal(child, Signal::SIGCONT));
        signal(postmaster, Signal::SIGCONT);
    }

    /// Begins a fast shutdown, which waits for replication connections.
    pub fn begin_shutdown(&self) {
        signal(self.server.id(), Signal::SIGINT);
    }

    /// The process that is to be signalled for a shutdown.
    pub fn postmaster(&self) -> u32 {
        self.server.id()
    }

    /// Starts it again after a crash, on the same port.
    ///
    /// # Panics
    /// With PostgreSQL's output, when it does not start.
    pub fn restart(&mut self, place: &Place) {
        self.server = launch(place, &self.directory);
        self.await_login();
    }

    /// Its major version.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its unix socket.
    pub fn socket_directory(&self) -> &Path {
        &self.directory
    }

    /// Its IPv4 address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A direct client, without a pooler.
    pub fn client(&self, database: &str) -> Client {
        Client::login(self.address(), "postgres", database)
    }

    /// Runs a query in the database `postgres`, directly.
    ///
    /// # Panics
    /// When it fails.
    pub fn query(&self, sql: &str) -> Answer {
        let answer = self.client("postgres").query(sql);
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
        answer
    }

    /// The first value of a query in the database `postgres`, directly.
    pub fn value(&self, sql: &str) -> String {
        self.query(sql).value()
    }

    /// Terminates a backend, and waits until it has gone: the function itself can wait only since PostgreSQL 14.
    ///
    /// # Panics
    /// When there is none, or it does not end.
    pub fn terminate(&self, pid: &str) {
        assert_eq!(self.value(&format!("select pg_terminate_backend({pid})")), "t");
        let left = format!("select count(*) from pg_stat_activity where pid = {pid}");
        wait_until("the server has gone", LIMIT, || self.value(&left) == "0");
    }

    /// Creates a database for one test, so that its servers can be told apart.
    pub fn database(&self, name: &str) {
        self.query(&format!("create database {name}"));
    }

    /// The number of backends in a database.
    pub fn servers(&self, database: &str) -> usize {
        let sql = format!("select count(*) from pg_stat_activity where datname = '{database}'");
        self.value(&sql).parse().expect("a count")
    }

    /// Waits until a database has so many backends.
    pub fn await_servers(&self, database: &str, count: usize) {
        wait_until(&format!("{count} servers of {database}"), LIMIT, || self.servers(database) == count);
    }

    /// Waits until a backend of the database runs a query that contains `text`, and returns its process ID.
    ///
    /// # Panics
    /// When none does in time.
    pub fn await_running(&self, database: &str, text: &str) -> String {
        let sql = format!(
            "select pid from pg_stat_activity where datname = '{database}' and state = 'active' \
             and query like '%{text}%' and pid <> pg_backend_pid()"
        );
        let mut watcher = self.client("postgres");
        crate::wait::wait_for(&format!("{text} runs in {database}"), LIMIT, || {
            watcher.query(&sql).rows.first().and_then(|row| row[0].clone())
        })
    }

    /// Enables TLS with this certificate, and with this authority for client certificates.
    ///
    /// # Panics
    /// When it does not accept them.
    pub fn speak_tls(&self, place: &Place, own: &Identity, authority: &Authority) {
        let files = self.directory.join("pg");
        place.write(&files.join("server.crt"), &own.certificate);
        place.write_secret(&files.join("server.key"), &own.key);
        place.write(&files.join("root.crt"), &authority.pem());
        let mut client = self.client("postgres");
        for setting in ["ssl_ca_file = 'root.crt'", "ssl = on"] {
            client.run(&format!("alter system set {setting}"));
        }
        client.run("select pg_reload_conf()");
        wait_until("postgres speaks TLS", LIMIT, || self.value("show ssl") == "on");
    }

    /// Puts lines in front of `pg_hba.conf`, for roles that would be let in otherwise.
    ///
    /// # Panics
    /// When it does not accept them.
    pub fn rule(&self, place: &Place, lines: &str) {
        let path = self.directory.join("pg").join("pg_hba.conf");
        let before = fs::read_to_string(&path).expect("our own file");
        place.write(&path, &format!("{lines}{before}"));
        self.query("select pg_reload_conf()");
        let count = before.lines().count() + lines.lines().count();
        let sql = "select count(*) from pg_hba_file_rules where error is null";
        wait_until("postgres has its rules", LIMIT, || self.value(sql) == count.to_string());
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn await_login(&mut self) {
        let ready = try_wait_for(Duration::from_secs(60), || {
            if let Ok(Some(status)) = self.server.try_wait() {
                panic!("postgres ended with {status}:\n{}", self.log());
            }
            let mut peer = Peer::tcp(self.address()).ok()?;
            peer.try_send(&message::startup(0, &[("user", "postgres"), ("database", "postgres")])).ok()?;
            Client::finish_login(peer, LIMIT).ok()
        });
        assert!(ready.is_some(), "postgres does not answer:\n{}", self.log());
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.server.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        signal(self.server.id(), Signal::SIGQUIT);
        if try_wait_for(LIMIT, || self.server.try_wait().ok().flatten()).is_none() {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }
}

/// A process that has ended.
fn idle_child() -> Child {
    let mut child = std::process::Command::new("/bin/true").spawn().expect("true runs");
    let _ = child.wait();
    child
}

fn launch(place: &Place, directory: &Path) -> Child {
    let log =
        fs::OpenOptions::new().append(true).create(true).open(directory.join("log")).expect("the log can be written");
    place
        .command(&place.postgres_program("postgres"), "INT")
        .arg("-D")
        .arg(directory.join("pg"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file can be shared"))
        .stderr(log)
        .spawn()
        .expect("postgres starts")
}

/// As written by `initdb`.
fn major_of(files: &Path) -> u32 {
    let noted = fs::read_to_string(files.join("PG_VERSION")).expect("initdb notes the version");
    noted.trim().parse().expect("a number")
}

fn configure(place: &Place, files: &Path, sockets: &Path, port: u16, major: u32) {
    // Abstract sockets came with PostgreSQL 14; before, the name would be that of a directory that does not exist.
    let also_abstract = if major >= 14 { format!(",@{}", abstract_name(port)) } else { String::new() };
    let also_ipv6 = if has_ipv6() { ",::1" } else { "" };
    // Other tests may fill WAL while a test reads it.
    let keeps_wal = if major >= 13 { "wal_keep_size = '1GB'" } else { "wal_keep_segments = 64" };
    let settings = format!(
        "listen_addresses = '127.0.0.1,127.0.0.2{also_ipv6}'\nport = {port}\nunix_socket_directories = '{}{also_abstract}'\n\
         max_connections = 200\nfsync = off\nfull_page_writes = off\nsynchronous_commit = off\n\
         max_prepared_transactions = 4\nwal_level = logical\npassword_encryption = 'scram-sha-256'\nmax_replication_slots = 30\nmax_wal_senders = 30\nlog_min_messages = warning\nlog_connections = on\nmax_wal_size = 2GB\n{keeps_wal}\n",
        sockets.display()
    );
    place.write(&files.join("postgresql.auto.conf"), &settings);
    let mut rules = String::new();
    // The role `admin` may not replicate.
    rules.push_str("host replication u,v,postgres all trust\n");
    for kind in ["local all", "host all"] {
        let address = if kind.starts_with("host") { " all" } else { "" };
        for (role, method) in
            [("by_password", "password"), ("by_md5", "md5"), ("by_scram", "scram-sha-256"), ("all", "trust")]
        {
            rules.push_str(&format!("{kind} {role}{address} {method}\n"));
        }
    }
    place.write(&files.join("pg_hba.conf"), &rules);
}

/// The abstract name on which a cluster also listens, without the `@`.
pub fn abstract_name(port: u16) -> String {
    format!("trunkline-tests-postgres-{port}")
}

/// Returns whether this machine has the IPv6 loopback.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// The password of the roles that need one.
pub const SECRET: &str = "open sesame";
