//! `trunkline demo`: many clients at a throw-away PostgreSQL, first directly, then through Trunkline.
//!
//! Always true: nothing is left behind, however the demo ends; every printed figure was measured in this run, and a run
//! that failed is shown as failed.
//! Not here: the cluster and the load (`trial`), and the interpretation of the figures (`report`).

mod options;
mod report;
mod show;
mod watch;

pub use crate::trial::TrialError as DemoError;
pub use options::{DemoOptions, USAGE};

use std::path::Path;
use std::time::Duration;

use crate::trial::{
    Cluster, ClusterShape, DATABASE, Load, LoadOutcome, Pooler, Protocol, Script, Trial, USER, free_ports,
    raise_descriptor_limit, resident_peak_of,
};
use report::{Crowd, Measured, Peak, Way};
use show::Screen;
use watch::Watch;

/// Runs the demo. `own_executable` is this program, which is started again as the pooler.
///
/// # Errors
/// PostgreSQL is not installed, a program cannot be started, or Ctrl-C came before the tables were complete. All
/// started programs are gone in any case.
pub fn run(options: &DemoOptions, own_executable: &Path) -> Result<(), DemoError> {
    if options.wants_help {
        print!("{USAGE}");
        return Ok(());
    }
    let clients_max = options.clients.iter().copied().max().unwrap_or(0);
    check_descriptors(clients_max)?;
    let screen = Screen::of_stdout();
    let trial = Trial::open("trunkline-demo")?;
    let cluster = raise_cluster(&trial, &screen, clients_max)?;
    let (mut pooler, http_port) = raise_pooler(&trial, &screen, own_executable, cluster.port(), clients_max)?;

    let demo = Demo { trial: &trial, screen: &screen, cluster: &cluster, options };
    for crowd in Crowd::ALL {
        let rows = demo.measure(crowd, &mut pooler)?;
        screen.say(&format!("\n{}\n", crowd.title(options.seconds)));
        screen.lines(&report::table(&rows).lines());
        screen.lines(&report::failures(&rows));
        screen.say("");
        screen.paragraph(&report::meaning(crowd, &rows, servers_max()));
    }
    screen.say("");
    screen.paragraph(LEGEND);
    if let Some(bytes) = resident_peak_of(pooler.pid()) {
        screen.paragraph(&format!("Trunkline itself took {} of memory at most.", report::mebibytes(bytes)));
    }
    if options.is_waiting { demo.wait(&mut pooler, http_port) } else { Ok(()) }
}

struct Demo<'a> {
    trial: &'a Trial,
    screen: &'a Screen,
    cluster: &'a Cluster,
    options: &'a DemoOptions,
}

impl Demo<'_> {
    fn measure(&self, crowd: Crowd, pooler: &mut Pooler) -> Result<Vec<Measured>, DemoError> {
        let mut rows = Vec::new();
        for &clients in &self.options.clients {
            let direct = self.run(crowd, clients, Way::Direct, self.cluster.port())?;
            let pooled = self.run(crowd, clients, Way::Pooled, pooler.port())?;
            if pooler.has_ended() {
                return Err(DemoError::step("Trunkline has ended".into(), self.trial.last_words(POOLER)));
            }
            rows.push(Measured { clients, direct, pooled });
        }
        Ok(rows)
    }

    /// Runs one load and watches PostgreSQL's processes and their memory meanwhile.
    fn run(&self, crowd: Crowd, clients: u32, way: Way, port: u16) -> Result<(LoadOutcome, Peak), DemoError> {
        let load = Load {
            port,
            database: DATABASE,
            clients,
            seconds: self.options.seconds,
            script: Script::SelectOnly,
            protocol: Protocol::Simple,
            is_reconnecting: crowd == Crowd::Reconnecting,
            is_secured: false,
        };
        let step = format!("{clients} clients {}, {way}", crowd.words());
        self.screen.progress(&step, "");
        let mut watch = Watch::over(self.cluster, self.strangers(way)?);
        let outcome = load.run(self.trial, &mut |elapsed| {
            if let Some(processes) = watch.look(elapsed) {
                let state = format!(": {} s, {processes} PostgreSQL processes", elapsed.as_secs());
                self.screen.progress(&step, &state);
            }
        })?;
        Ok((outcome, watch.peak()))
    }

    /// The server processes that do not count for a run. In a direct run these are the servers that the pool still
    /// holds. A pooled run counts the whole pool, so this waits until the clients of the direct run before it are gone.
    fn strangers(&self, way: Way) -> Result<Vec<u32>, DemoError> {
        if way == Way::Direct {
            return Ok(self.cluster.serving());
        }
        for _ in 0..LEAVING_TRIES {
            if self.cluster.serving().len() <= servers_max() as usize {
                break;
            }
            self.trial.interrupt.wait(Duration::from_millis(50))?;
        }
        Ok(Vec::new())
    }

    /// Keeps PostgreSQL and the pooler running for a person to try, until Ctrl-C.
    fn wait(&self, pooler: &mut Pooler, http_port: u16) -> Result<(), DemoError> {
        let psql = self.trial.programs.psql().unwrap_or_else(|| "psql".into());
        let line = |port: u16, database: &str| format!("    {psql} -h 127.0.0.1 -p {port} -U {USER} {database}");
        self.screen.say("\nBoth stay up until Ctrl-C. To try it by hand, through Trunkline:\n");
        self.screen.say(&line(pooler.port(), DATABASE));
        self.screen.say(&format!("\nits page:\n\n    {}", page(http_port)));
        self.screen.say("\nits console (SHOW POOLS; SHOW SERVERS; SHOW HELP;):\n");
        self.screen.say(&line(pooler.port(), "pgbouncer"));
        self.screen.say("\nand PostgreSQL directly:\n");
        self.screen.say(&line(self.cluster.port(), DATABASE));
        self.screen.say("");
        while self.trial.interrupt.wait(Duration::from_millis(500)).is_ok() {
            if pooler.has_ended() {
                return Err(DemoError::step("Trunkline has ended".into(), self.trial.last_words(POOLER)));
            }
        }
        self.screen.say("\nTidying up.");
        Ok(())
    }
}

fn raise_cluster(trial: &Trial, screen: &Screen, clients_max: u32) -> Result<Cluster, DemoError> {
    let [port] = free_ports()?;
    screen.say(&format!("PostgreSQL {}, from {}", trial.programs.version, trial.programs.directory().display()));
    screen.progress("making a throw-away cluster", " ...");
    // Room for the largest crowd, and for the pool besides it.
    let shape = ClusterShape { connections_max: (clients_max + 100).max(1000), buffers_mib: 64, scale: 5 };
    let cluster = Cluster::start(trial, port, shape)?;
    let place = trial.scratch.path().display();
    screen.say(&format!("A throw-away cluster in {place}, run by {}, on port {port}", trial.system_user.name()));
    Ok(cluster)
}

fn raise_pooler(
    trial: &Trial,
    screen: &Screen,
    executable: &Path,
    server_port: u16,
    clients_max: u32,
) -> Result<(Pooler, u16), DemoError> {
    let [port, http_port] = free_ports()?;
    let ini = configuration(trial.system_user.become_name(), server_port, [port, http_port], clients_max);
    let pooler = Pooler::start(trial, POOLER, executable, &ini, port)?;
    screen.say(&format!("Trunkline on port {port}, with this configuration:\n"));
    screen.quote(&ini);
    screen.say(&format!("\nTo watch it in a browser: {}\n", page(http_port)));
    Ok((pooler, http_port))
}

fn page(http_port: u16) -> String {
    format!("http://127.0.0.1:{http_port}/")
}

fn configuration(become_name: Option<&str>, server_port: u16, [port, http_port]: [u16; 2], clients_max: u32) -> String {
    let become_line = become_name.map(|name| format!("user = {name}\n")).unwrap_or_default();
    format!(
        "[databases]\n\
         {DATABASE} = host=127.0.0.1 port={server_port}\n\
         \n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         ; a page to look at, and metrics for Prometheus\n\
         http_port = {http_port}\n\
         {become_line}\
         auth_type = trust\n\
         auth_file = users.txt\n\
         admin_users = {USER}\n\
         pool_mode = transaction\n\
         ; {SERVERS_PER_PROCESSOR} for each of the {} processors, so that none waits for the next question, and\n\
         ; {SERVERS_BESIDES} more for answers that are on their way\n\
         default_pool_size = {}\n\
         max_client_conn = {}\n\
         ; a crowd that reconnects would fill the log\n\
         log_connections = 0\n\
         log_disconnections = 0\n",
        processors(),
        servers_max(),
        (clients_max + 100).max(2000),
    )
}

fn check_descriptors(clients_max: u32) -> Result<(), DemoError> {
    let allowed = raise_descriptor_limit();
    let needed = u64::from(clients_max) + 200;
    if allowed >= needed {
        return Ok(());
    }
    let advice = format!("{needed} are needed; raise the hard limit (ulimit -Hn), or name smaller --clients");
    Err(DemoError::step(format!("at most {allowed} files may be open at a time"), advice))
}

fn servers_max() -> u32 {
    SERVERS_PER_PROCESSOR * processors() + SERVERS_BESIDES
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

const LEGEND: &str = "Processes and memory are the most that was seen at one time in a run; the memory is that of \
                      PostgreSQL's processes alone, without the shared buffers.";

const POOLER: &str = "trunkline";

const SERVERS_PER_PROCESSOR: u32 = 2;
const SERVERS_BESIDES: u32 = 4;

/// How often to check whether the clients of the previous run are gone: for five seconds.
const LEAVING_TRIES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_whom_to_become_only_for_root() {
        assert!(configuration(Some("postgres"), 1, [2, 3], 800).contains("\nuser = postgres\n"));
        assert!(!configuration(None, 1, [2, 3], 800).contains("\nuser ="));
    }

    #[test]
    fn the_configuration_admits_the_largest_crowd() {
        assert!(configuration(None, 1, [2, 3], 800).contains("max_client_conn = 2000\n"));
        assert!(configuration(None, 1, [2, 3], 5000).contains("max_client_conn = 5100\n"));
    }
}
