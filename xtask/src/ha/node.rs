//! A node of the cluster: a network and a PID namespace, with etcd, Patroni and PostgreSQL in them.
//!
//! Always true: what a node runs ends with the first process of its PID namespace, at once and without a farewell, as
//! by a loss of power; what it has written stays. The page cache is the machine's and is not lost: writes that were not
//! synced cannot be missed here.
//! Not here: when a node fails (`course`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ops::trial::{SystemUser, children_of};

use super::lab::{FOLDER, Lab, call};
use super::paths::HERE;

/// One of n1, n2 and n3, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(u8);

impl Node {
    pub(super) const ALL: [Node; 3] = [Node(1), Node(2), Node(3)];

    pub(super) fn named(name: &str) -> Option<Node> {
        Self::ALL.into_iter().find(|node| node.name() == name)
    }

    pub(super) fn name(self) -> String {
        format!("n{}", self.0)
    }

    pub(super) fn address(self) -> String {
        format!("10.77.0.1{}", self.0)
    }

    /// Where its etcd is, in the network of etcd.
    pub(super) fn etcd_address(self) -> String {
        format!("10.78.0.1{}", self.0)
    }

    /// The addresses of all nodes, separated by commas.
    pub(super) fn addresses() -> String {
        Self::ALL.map(Self::address).join(",")
    }

    pub(super) fn folder(self) -> PathBuf {
        Path::new(FOLDER).join(self.name())
    }

    /// Starts what is not running, and connects the node to the network. Files of an earlier life are kept.
    pub(super) fn power_on(self, lab: &Lab) -> Result<(), String> {
        if self.first().is_none() {
            self.begin(lab)?;
        }
        self.link("up")?;
        self.hear_clients(true)?;
        self.start_etcd(lab)?;
        if self.patroni().is_empty() {
            self.start(lab, "patroni", &["patroni".into(), self.folder().join("patroni.yml").display().to_string()])?;
        }
        Ok(())
    }

    /// Loss of power: the link first, so that no FIN or RST leaves, then every process; the node's network with its
    /// sockets, so that none of them speaks when it returns.
    pub(super) fn power_off(self) -> Result<(), String> {
        self.link("down")?;
        if let Some(first) = self.first() {
            let _ = kill(first, Signal::SIGKILL);
            wait_until("the end of the node's processes", || self.first().is_none())?;
        }
        call("ip", &["netns", "del", &self.name()])?;
        for switch in [SWITCH, ETCD_SWITCH] {
            // The kernel removes it with the network, but not at once.
            let _ = call("ip", &["link", "del", &self.port(switch)]);
        }
        Ok(())
    }

    /// Pulls the plugs of both networks (`down`) or puts them in (`up`), at the switches.
    pub(super) fn link(self, state: &str) -> Result<(), String> {
        call("ip", &["link", "set", &self.port(SWITCH), state])?;
        self.etcd_link(state)
    }

    /// The same for the network of etcd alone: the node's etcd and its Patroni are cut off from the others' etcd.
    pub(super) fn etcd_link(self, state: &str) -> Result<(), String> {
        call("ip", &["link", "set", &self.port(ETCD_SWITCH), state]).map(drop)
    }

    /// Starts etcd, unless it runs.
    pub(super) fn start_etcd(self, lab: &Lab) -> Result<(), String> {
        if self.own_etcd().is_empty() {
            self.start(lab, "etcd", &self.etcd())?;
        }
        Ok(())
    }

    /// `kill -9` to etcd.
    pub(super) fn kill_etcd(self) -> Result<(), String> {
        kill_all("etcd", &self.own_etcd())
    }

    fn own_etcd(self) -> Vec<Pid> {
        self.find(|words| words.first().is_some_and(|word| word.ends_with("etcd")))
    }

    /// All processes of the node.
    pub(super) fn everything(self) -> Vec<Pid> {
        self.find(|_| true)
    }

    /// Without it, nothing of the node reaches the clients and poolers any more, while the nodes still see each other.
    pub(super) fn hear_clients(self, is_heard: bool) -> Result<(), String> {
        let name = self.name();
        let route = |word| call("ip", &["-n", &name, "route", word, "blackhole", HERE]);
        if is_heard {
            // There is no such route if it was heard before.
            let _ = route("del");
            return Ok(());
        }
        route("add").map(drop)
    }

    /// `kill -9` to the postmaster; the other processes of PostgreSQL notice and end.
    pub(super) fn kill_postmaster(self) -> Result<(), String> {
        let data = self.folder().join("data").display().to_string();
        let is_postmaster =
            |words: &[String]| words.first().is_some_and(|word| word.ends_with("/postgres")) && words.contains(&data);
        kill_all("postmaster", &self.find(is_postmaster))
    }

    /// `kill -9` to Patroni; its PostgreSQL goes on without a keeper.
    pub(super) fn kill_patroni(self) -> Result<(), String> {
        kill_all("Patroni", &self.patroni())
    }

    fn patroni(self) -> Vec<Pid> {
        let settings = self.folder().join("patroni.yml").display().to_string();
        self.find(|words| words.first().is_some_and(|word| word.contains("python")) && words.contains(&settings))
    }

    /// The processes of the node whose arguments are wanted.
    pub(super) fn find(self, is_wanted: impl Fn(&[String]) -> bool) -> Vec<Pid> {
        let Some(own) = self.first().and_then(namespace_of) else {
            return Vec::new();
        };
        let is_ours = |pid: &Pid| namespace_of(*pid).is_some_and(|namespace| namespace == own);
        processes().filter(is_ours).filter(|pid| arguments_of(*pid).is_some_and(|words| is_wanted(&words))).collect()
    }

    /// The first process of the node.
    fn first(self) -> Option<Pid> {
        let text = fs::read_to_string(self.record()).ok()?;
        let pid = Pid::from_raw(text.trim().parse().ok()?);
        arguments_of(pid).filter(|words| !words.is_empty()).map(|_| pid)
    }

    fn record(self) -> PathBuf {
        self.folder().join("first.pid")
    }

    /// The node's port of a switch.
    fn port(self, switch: &str) -> String {
        format!("{switch}-{}", self.name())
    }

    /// Makes the network, the files and the first process.
    fn begin(self, lab: &Lab) -> Result<(), String> {
        let name = self.name();
        call("ip", &["netns", "add", &name])?;
        call("ip", &["-n", &name, "link", "set", "lo", "up"])?;
        for (switch, link, address) in [(SWITCH, "eth0", self.address()), (ETCD_SWITCH, "eth1", self.etcd_address())] {
            let port = self.port(switch);
            call("ip", &["link", "add", &port, "type", "veth", "peer", "name", link, "netns", &name])?;
            call("ip", &["link", "set", &port, "master", switch])?;
            call("ip", &["-n", &name, "addr", "add", &format!("{address}/24"), "dev", link])?;
            call("ip", &["-n", &name, "link", "set", link, "up"])?;
        }
        for folder in ["", "etcd", "run"] {
            lab.make_folder(&self.folder().join(folder))?;
        }
        lab.write(&self.folder().join("patroni.yml"), &self.settings(&lab.programs()))?;
        // A shell that waits takes the exit of every orphan, as a first process must.
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &name, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]);
        command.args(["sh", "-c", "while :; do sleep 1000 & wait $!; done"]);
        let child = spawn(command, &self.folder().join("first.log"))?;
        let mut first = None;
        wait_until("the first process of a node", || {
            first = children_of(child).first().copied();
            first.is_some()
        })?;
        fs::write(self.record(), first.map_or_else(String::new, |pid| pid.to_string())).map_err(|why| why.to_string())
    }

    /// Starts a program in the node, as the lab's user.
    pub(super) fn start(self, lab: &Lab, name: &str, words: &[String]) -> Result<(), String> {
        let first = self.first().ok_or_else(|| format!("{} is off", self.name()))?;
        let SystemUser::Unprivileged { uid, gid, .. } = lab.user() else {
            return Err("the lab needs root".into());
        };
        let mut command = Command::new("nsenter");
        command.args([
            "-t",
            &first.to_string(),
            "-m",
            "-n",
            "-p",
            "-S",
            &uid.to_string(),
            "-G",
            &gid.to_string(),
            "--",
        ]);
        command.args(words).current_dir(self.folder()).env("HOME", self.folder()).env("PATH", SYSTEM_PATH);
        spawn(command, &self.folder().join(format!("{name}.log"))).map(drop)
    }

    fn etcd(self) -> Vec<String> {
        let (name, address) = (self.name(), self.etcd_address());
        let (clients, peers) = (format!("http://{address}:2379"), format!("http://{address}:2380"));
        let all = Self::ALL.map(|node| format!("{}=http://{}:2380", node.name(), node.etcd_address())).join(",");
        let data = self.folder().join("etcd").display().to_string();
        let words = [
            ["--name", &name],
            ["--data-dir", &data],
            ["--listen-client-urls", &clients],
            ["--advertise-client-urls", &clients],
            ["--listen-peer-urls", &peers],
            ["--initial-advertise-peer-urls", &peers],
            ["--initial-cluster", &all],
            // Two processors for everything: the defaults (100 and 1000 ms) would hold elections without a fault.
            ["--heartbeat-interval", "250"],
            ["--election-timeout", "2500"],
            // As from etcd 3.5 on: a node that returns asks first, and disturbs no leader.
            ["--pre-vote=true", "--log-outputs=stderr"],
            ["--enable-v2=true", "--logger=zap"],
        ];
        std::iter::once("etcd").chain(words.into_iter().flatten()).map(str::to_owned).collect()
    }

    /// Patroni's file, the profile "fast": the shortest times that it documents. By etcd's older interface: with `etcd3`, Patroni 3.0.2
    /// on a leader that returns from an outage of its etcd has taken the lock back from the new leader, by what it remembered, and
    /// half a minute of writes was lost on all paths.
    fn settings(self, programs: &Path) -> String {
        let (name, address, folder) = (self.name(), self.address(), self.folder());
        let etcd = Self::ALL.map(|node| format!("{}:2379", node.etcd_address())).join(",");
        let (folder, programs) = (folder.display(), programs.display());
        format!(
            "scope: lab\n\
             name: {name}\n\
             restapi: {{listen: '{address}:8008', connect_address: '{address}:8008'}}\n\
             etcd: {{hosts: '{etcd}'}}\n\
             bootstrap:\n\
             \x20 dcs:\n\
             \x20   ttl: 20\n\
             \x20   loop_wait: 5\n\
             \x20   retry_timeout: 5\n\
             \x20   maximum_lag_on_failover: 1048576\n\
             \x20   postgresql:\n\
             \x20     use_pg_rewind: true\n\
             \x20     use_slots: true\n\
             \x20     parameters: {{wal_log_hints: 'on', wal_level: logical, max_connections: 100, shared_buffers: 128MB}}\n\
             \x20 initdb: [{{encoding: UTF8}}, {{locale: C}}]\n\
             postgresql:\n\
             \x20 listen: '{address}:5432'\n\
             \x20 connect_address: '{address}:5432'\n\
             \x20 data_dir: {folder}/data\n\
             \x20 bin_dir: {programs}\n\
             \x20 pgpass: {folder}/pgpass\n\
             \x20 authentication:\n\
             \x20   superuser: {{username: postgres, password: lab}}\n\
             \x20   replication: {{username: replicator, password: lab}}\n\
             \x20   rewind: {{username: rewinder, password: lab}}\n\
             \x20 parameters: {{unix_socket_directories: '{folder}/run'}}\n\
             \x20 pg_hba:\n\
             \x20   - local all all trust\n\
             \x20   - host all all 10.77.0.0/24 trust\n\
             \x20   - host replication all 10.77.0.0/24 trust\n"
        )
    }
}

/// Starts a program that stays, with its output at the end of a file, and returns its process id.
pub(super) fn spawn(mut command: Command, log: &Path) -> Result<u32, String> {
    let file = File::options().create(true).append(true).open(log);
    let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn();
    child.map(|child| child.id()).map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))
}

pub(super) fn kill_all(what: &str, pids: &[Pid]) -> Result<(), String> {
    if pids.is_empty() {
        return Err(format!("there is no {what} to kill"));
    }
    pids.iter().try_for_each(|pid| kill(*pid, Signal::SIGKILL)).map_err(|error| format!("cannot kill {what}: {error}"))
}

/// All processes of the lab: the lab has a /proc of its own.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// The PID namespace of a process.
fn namespace_of(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// None if there is no such process; none in the list if it has ended and nobody has waited for it.
pub(super) fn arguments_of(pid: Pid) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        if Instant::now() > until {
            return Err(format!("no sign of {what}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The bridge that joins the nodes and the clients, and the start of its ports' names, which have 15 characters at most.
pub(super) const SWITCH: &str = "trunkline-ha";

/// The bridge of the network in which the nodes' etcd is.
pub(super) const ETCD_SWITCH: &str = "trunkline-et";

/// Debian's own Python, whichever else there is: Patroni's modules are its.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports_fit_into_the_kernels_15_characters() {
        assert!(Node::ALL.iter().all(|node| node.port(SWITCH).len() <= 15 && node.port(ETCD_SWITCH).len() <= 15));
        assert_eq!(Node::named("n3"), Some(Node(3)));
        assert_eq!(Node::named("n4"), None);
    }
}
