//! What a real run needs: a server, the objects in it, a pooler in front of it.
//!
//! Always true: a server that is not named is made for the run, listens on the loopback interface and is removed with the guard, as are poolers. A server that
//! is named gets only objects whose names begin with the prefix, which are removed with the guard.
//! Not here: playing (`cell`).

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::cell::{After, Cell, Setup, finish, play};
use super::incidents::{Incidents, incidents_of};
use super::ini::{Around, given, ini, users};
use super::objects::{Manner, Objects, PREFIX};
use super::odyssey::{self, DEFERRED_BEGIN, without_deferred_begin};
use super::server::{Line, Server, target};
use super::sessions::LOG_SETTINGS;
use super::target::TargetKind;
use super::watch::Watched;
use crate::load::{Capability, Login, Place, capability};
use crate::simulate::options::SimulateOptions;
use crate::simulate::spec::Spec;
use crate::trial::{Cluster, ClusterShape, Pooler, Trial, TrialError, USER, free_ports, raise_descriptor_limit};

/// The server, and what is known of it.
pub(super) struct Stage {
    // Dropped before the cluster, which it is connected to.
    server: Server,
    cluster: Option<Cluster>,
    trial: Rc<Trial>,
    capability: Capability,
    rows_per_micro: f64,
    /// The times of logins, one after the other, in microseconds, ascending.
    logins: Vec<u64>,
}

impl Stage {
    /// Makes a server, or connects to the one that is named.
    pub(super) fn open(
        settings: &[(Vec<String>, Spec)],
        targets: &[TargetKind],
        options: &SimulateOptions,
    ) -> Result<Self, String> {
        for target in targets {
            target.program()?;
        }
        let trial = Trial::open("trunkline-simulate").map_err(told)?;
        let _ = raise_descriptor_limit();
        let (cluster, server) = match &options.server {
            Some(conninfo) => (None, Server::open(conninfo, Some(password()?), options.keeps)?),
            None => {
                let [port] = free_ports().map_err(told)?;
                let most = settings.iter().map(|(_, spec)| spec.server.connections_max).max().unwrap_or(0);
                let shape = ClusterShape {
                    connections_max: if most == 0 { CONNECTIONS_MAX } else { most },
                    buffers_mib: 64,
                    scale: 0,
                };
                let cluster = Cluster::start_empty(&trial, port, shape, &LOG_SETTINGS).map_err(told)?;
                let conninfo = format!("host=127.0.0.1 port={port} user={USER} dbname=postgres sslmode=disable");
                // The whole cluster goes with its guard.
                (Some(cluster), Server::open(&conninfo, None, true)?)
            }
        };
        let mut stage = Self {
            server,
            cluster,
            trial: Rc::new(trial),
            capability: capability(64, 300_000).map_err(|why| why.to_string())?,
            rows_per_micro: 0.0,
            logins: Vec::new(),
        };
        if settings.iter().any(|(_, spec)| spec.server.is_contended()) {
            stage.rows_per_micro = stage.server.rows_per_micro()?;
        }
        stage.logins = stage.server.logins(LOGINS)?;
        stage.logins.sort_unstable();
        Ok(stage)
    }

    /// What ends a run early.
    pub(super) fn trial(&self) -> Rc<Trial> {
        self.trial.clone()
    }

    /// The times of logins at the server, one after the other, in microseconds, ascending.
    pub(super) fn logins(&self) -> &[u64] {
        &self.logins
    }

    /// Where it was run, for a reader.
    pub(super) fn words(&self) -> String {
        let whose = match &self.cluster {
            Some(_) => "made for the run, not durable".to_owned(),
            None => format!("at {}:{}", self.server.host, self.server.port),
        };
        format!(
            "PostgreSQL {}, {whose}. The generator can do {:.0} requests a second here.",
            self.server.version, self.capability.rate
        )
    }

    /// Runs a setting at a target.
    pub(super) fn run(
        &mut self,
        spec: &Spec,
        objects: &Objects,
        target: &TargetKind,
        (setting, run): (usize, u32),
        seed: u64,
        goes_on: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Cell, String> {
        self.server.make(objects)?;
        let before = self.server.counters()?;
        let log_from = self.log().len();
        let [port] = free_ports().map_err(told)?;
        let pooler = self.start(spec, objects, target, port)?;
        let configuration = |changed: &Spec| match target {
            TargetKind::Direct => None,
            _ => self.configuration(changed, objects, target, port).ok(),
        };
        let planned = incidents_of(spec, configuration);
        let restarts = Incidents::restarts(&planned);
        let server_pid = self.cluster.as_ref().map(|cluster| Arc::new(AtomicU32::new(cluster.pid())));
        let place = match &pooler {
            Some(pooler) => SocketAddr::from(([127, 0, 0, 1], pooler.port())),
            None => (self.server.host.as_str(), self.server.port)
                .to_socket_addrs()
                .map_err(|why| why.to_string())?
                .next()
                .ok_or("the server's name has no address")?,
        };
        let secret = self.server.password.as_ref().map_or_else(auth::Secret::default, auth::Secret::parse);
        let setup = Setup {
            spec,
            objects,
            target: target.name(),
            setting,
            seed,
            run,
            manner: match spec.server.is_contended() {
                true => Manner { computing: spec.server.cpu_share, rows_per_micro: self.rows_per_micro },
                false => Manner::SLEEPING,
            },
            place: Place::Tcp(place),
            secret: Arc::new(secret),
            watched: Watched { server: server_pid.clone(), pooler: pooler.as_ref().map(Pooler::pid) },
            capability: self.capability,
            probe: self.cluster.as_ref().map(|cluster| Login {
                place: Place::Tcp(SocketAddr::from(([127, 0, 0, 1], cluster.port()))),
                user: USER.into(),
                database: "postgres".into(),
                secret: Arc::default(),
                name: "simulate probe".into(),
                tls: None,
            }),
        };
        let played = {
            let (trial, pid) = (self.trial.clone(), server_pid.unwrap_or_default());
            let mut incidents = Incidents::new(trial, self.cluster.as_mut(), pooler.as_ref(), pid, planned);
            let played = play(&setup, goes_on, &mut |now| incidents.pass(now));
            incidents.end()?;
            played?
        };
        if let Some(cluster) = self.cluster.as_mut().filter(|_| restarts > 0) {
            cluster.await_ready(&self.trial).map_err(told)?;
            self.server.reach()?;
        }
        let churn = match &pooler {
            Some(pooler) if target.is_ours() => Some(self.churn(pooler)?),
            _ => None,
        };
        drop(pooler);
        // When no session is left, the log is complete.
        self.server.counters()?;
        let log = self.log();
        let (opened_by_pooler, closed_by_cause) =
            churn.map_or((None, BTreeMap::new()), |(opened, closed)| (Some(opened), closed));
        let after = After {
            before,
            log: self.cluster.as_ref().map(|_| log.get(log_from..).unwrap_or_default()),
            closed_by_cause,
            opened_by_pooler,
            is_alone: self.cluster.is_some(),
            cut_off: restarts * CUT_OFF,
        };
        finish(&setup, played, &after, &mut self.server)
    }

    /// What the server has logged.
    fn log(&self) -> String {
        if self.cluster.is_some() { self.trial.complaints("postgres") } else { String::new() }
    }

    fn around(&self, target: &TargetKind, port: u16) -> Around<'_> {
        Around {
            port,
            server_host: &self.server.host,
            server_port: self.server.port,
            become_name: self.trial.system_user.become_name(),
            admin: ADMIN,
            has_passwords: self.server.password.is_some(),
            is_ours: target.is_ours(),
        }
    }

    /// The configuration of a pooler for a spec.
    fn configuration(&self, spec: &Spec, objects: &Objects, target: &TargetKind, port: u16) -> Result<String, String> {
        let around = self.around(target, port);
        match (target, target.given()) {
            (TargetKind::Odyssey(_), _) => {
                Ok(odyssey::configuration(spec, objects, &around, self.server.password.as_deref()))
            }
            (_, Some(path)) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
                Ok(given(&text, objects, &around))
            }
            _ => Ok(ini(spec, objects, &around)),
        }
    }

    fn start(&self, spec: &Spec, objects: &Objects, target: &TargetKind, port: u16) -> Result<Option<Pooler>, String> {
        let Some(program) = target.program()? else { return Ok(None) };
        let text = self.configuration(spec, objects, target, port)?;
        let mut roles = objects.roles();
        roles.push(ADMIN);
        let users = users(&roles, self.server.password.as_deref().unwrap_or_default());
        let (trial, own) = (&self.trial, || self.trial.own_command(&program));
        let started = match target {
            TargetKind::Odyssey(_) => {
                // It does not become another user by itself.
                let begin = |text: &str| {
                    let file = ("odyssey.conf", text);
                    Pooler::start_for(trial, "odyssey", &mut trial.command(&program), file, &users, port)
                };
                begin(&text).or_else(|why| {
                    let said = trial.output("odyssey") + &trial.complaints("odyssey");
                    if said.contains(DEFERRED_BEGIN) { begin(&without_deferred_begin(&text)) } else { Err(why) }
                })
            }
            _ if target.is_ours() => {
                Pooler::start_for(trial, "trunkline", &mut own(), ("trunkline.ini", &text), &users, port)
            }
            _ => Pooler::start_for(trial, "pgbouncer", &mut own(), ("pgbouncer.ini", &text), &users, port),
        };
        started.map(Some).map_err(told)
    }

    /// What our console says of servers: how many were opened, and how many closed by cause.
    fn churn(&self, pooler: &Pooler) -> Result<(u64, BTreeMap<String, u64>), String> {
        let password = self.server.password.as_ref().map(|word| format!(" password={word}")).unwrap_or_default();
        let conninfo =
            format!("host=127.0.0.1 port={} user={ADMIN} dbname=pgbouncer sslmode=disable{password}", pooler.port());
        let (mut opened, mut closed) = (0, BTreeMap::new());
        Line::open(&target(&conninfo)?)?.each("SHOW CHURN", |row| {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            let count = text(4).parse::<u64>().unwrap_or(0);
            match text(2).as_str() {
                "opened" => opened += count,
                _ => *closed.entry(text(3)).or_default() += count,
            }
        })?;
        Ok((opened, closed))
    }

    /// Keeps what was made until Ctrl-C, if it would go with us.
    pub(super) fn wait(&self) {
        let Some(cluster) = &self.cluster else { return };
        eprintln!("PostgreSQL stays until Ctrl-C: psql -h 127.0.0.1 -p {} -U {USER} {PREFIX}1", cluster.port());
        while self.trial.interrupt.wait(Duration::from_secs(1)).is_ok() {}
    }
}

pub(super) fn told(why: TrialError) -> String {
    why.to_string()
}

/// A password for the roles of the run.
fn password() -> Result<String, String> {
    use std::io::Read as _;
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|why| why.to_string())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Who asks our console.
const ADMIN: &str = "tlsim_admin";
/// `max_connections` of a server that is made for the run, unless the spec says it.
const CONNECTIONS_MAX: u32 = 1000;
/// Logins by which their time is measured.
const LOGINS: usize = 30;
/// Logins that a restart may cut off between PostgreSQL's log and its counters.
const CUT_OFF: u64 = 16;
