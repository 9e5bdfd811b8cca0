//! The lab from inside: three nodes, and HAProxy, PgBouncer and Trunkline beside the clients.
//!
//! Always true: this runs in the namespaces of the lab, where /run is a file system in memory that ends with them.
//! Not here: the namespaces (`namespaces`), what a node is (`node`), and what happens to it (`course`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use ops::trial::{SystemUser, Trial};

use super::node::{self, ETCD_SWITCH, Node, SWITCH};
use super::paths::{self, HERE};
use super::patroni;

pub(super) struct Lab {
    trial: Trial,
}

impl Lab {
    /// Makes everything, and waits until the cluster is complete and the three proxies are started.
    pub(super) fn raise(trunkline: &Path) -> Result<Self, String> {
        call("mount", &["-t", "tmpfs", "-o", "mode=755", SWITCH, "/run"])?;
        for folder in ["/run/netns", FOLDER] {
            fs::create_dir(folder).map_err(|error| format!("cannot make {folder}: {error}"))?;
        }
        fs::copy(trunkline, Self::trunkline()).map_err(|error| format!("cannot copy Trunkline: {error}"))?;
        call("ip", &["link", "set", "lo", "up"])?;
        for (switch, address) in [(SWITCH, HERE), (ETCD_SWITCH, paths::HERE_OF_ETCD)] {
            call("ip", &["link", "add", switch, "type", "bridge"])?;
            call("ip", &["link", "set", switch, "up"])?;
            call("ip", &["addr", "add", &format!("{address}/24"), "dev", switch])?;
        }
        let lab = Self::join()?;
        eprintln!("three nodes begin");
        let leader = lab.heal()?;
        let sql = ["-h", &leader.address(), "-U", "postgres", "-c", "CREATE DATABASE lab"];
        call(&lab.trial.programs.path("psql").display().to_string(), &sql)?;
        lab.start_proxies()?;
        Ok(lab)
    }

    /// The lab that these namespaces hold already.
    pub(super) fn join() -> Result<Self, String> {
        Ok(Self { trial: Trial::open(SWITCH).map_err(|error| error.to_string())? })
    }

    /// Undoes every fault, and waits until three members follow one leader, which is returned.
    pub(super) fn heal(&self) -> Result<Node, String> {
        Node::ALL.iter().try_for_each(|node| node.power_on(self))?;
        self.settle(&Node::ALL)
    }

    /// Waits until these nodes follow a leader, and returns it. One that Patroni does not bring back is copied anew.
    pub(super) fn settle(&self, nodes: &[Node]) -> Result<Node, String> {
        let begun = Instant::now();
        let mut copied: Vec<Node> = Vec::new();
        loop {
            let members = patroni::members();
            if let Some(leader) = patroni::settled(&members, nodes) {
                return Ok(leader);
            }
            if begun.elapsed() > SETTLING_MAX {
                return Err(format!("the cluster does not settle: {members:?}"));
            }
            if begun.elapsed() > SETTLING_ALONE {
                for node in patroni::strays(&members, nodes)
                    .into_iter()
                    .filter(|node| !copied.contains(node))
                    .collect::<Vec<_>>()
                {
                    eprintln!("  {} does not follow; it is copied anew", node.name());
                    patroni::reinitialize(node);
                    copied.push(node);
                }
            }
            self.wait(Duration::from_millis(300))?;
        }
    }

    /// Waits until a client gets an answer by each path: a pooler may still wait before it tries again.
    pub(super) fn reach_by_all_paths(&self) -> Result<(), String> {
        let psql = self.trial.programs.path("psql");
        let until = Instant::now() + SETTLING_MAX;
        let ways = paths::Path::ALL.into_iter().flat_map(|path| {
            [(path.writer(), "BEGIN; CREATE TABLE reached (); ROLLBACK"), (path.reader(), "SELECT 1")]
        });
        for (way, sql) in ways {
            let mut command = self.trial.command(&psql);
            command.args([&way, "-c", sql]);
            while !self.trial.run("psql", &mut command, SETTLING_MAX, &mut |_| {}).is_ok_and(|status| status.success())
            {
                if Instant::now() > until {
                    return Err(format!("no way by {way}: {}", self.trial.last_words("psql")));
                }
                self.wait(Duration::from_millis(300))?;
            }
        }
        Ok(())
    }

    /// Prints the members as Patroni sees them.
    pub(super) fn status(&self) -> Result<(), String> {
        for member in patroni::members() {
            let role = if member.is_leader { "leader" } else { "standby" };
            let timeline = member.timeline.map_or("-".into(), |timeline| timeline.to_string());
            println!(
                "{} {} {role:<8} {:<10} timeline {timeline}",
                member.node.name(),
                member.node.address(),
                member.state
            );
        }
        for path in paths::Path::ALL {
            println!("{:<22}{}", path.label(), path.writer());
        }
        Ok(())
    }

    /// Waits, unless the user wants to end.
    pub(super) fn wait(&self, duration: Duration) -> Result<(), String> {
        self.trial.interrupt.wait(duration).map_err(|error| error.to_string())
    }

    pub(super) fn trial(&self) -> &Trial {
        &self.trial
    }

    pub(super) fn user(&self) -> &SystemUser {
        &self.trial.system_user
    }

    /// The folder of PostgreSQL's programs.
    pub(super) fn programs(&self) -> PathBuf {
        self.trial.programs.directory().to_owned()
    }

    /// The lab's own copy of the pooler: a build meanwhile does not change it.
    pub(super) fn trunkline() -> PathBuf {
        Path::new(FOLDER).join("trunkline")
    }

    /// Makes a folder that belongs to the lab's user, if there is none.
    pub(super) fn make_folder(&self, path: &Path) -> Result<(), String> {
        let made = fs::create_dir_all(path).and_then(|()| self.user().own(path));
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))
    }

    pub(super) fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        let written = fs::write(path, text).and_then(|()| self.user().own(path));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Copies the logs of all programs to a folder outside the lab. What cannot be copied is left out: they only explain.
    pub(super) fn save_logs(target: &Path) {
        let folders = std::iter::once(PathBuf::from(FOLDER)).chain(Node::ALL.map(Node::folder));
        for folder in folders {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let _ = fs::create_dir_all(target);
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|end| end == "log") {
                    let _ = fs::copy(entry.path(), target.join(format!("{name}-{}", entry.file_name().display())));
                }
            }
        }
    }

    /// HAProxy, PgBouncer and Trunkline.
    pub(super) fn proxies() -> Vec<Pid> {
        let files = ["haproxy.cfg", "pgbouncer.ini", "trunkline.ini"];
        Self::own(|words| words.last().is_some_and(|word| files.contains(&word.as_str())))
    }

    /// The processes beside the nodes whose arguments are wanted.
    pub(super) fn own(is_wanted: impl Fn(&[String]) -> bool) -> Vec<Pid> {
        let of_nodes: Vec<Pid> = Node::ALL.into_iter().flat_map(Node::everything).collect();
        let all = node::processes().filter(|pid| !of_nodes.contains(pid));
        all.filter(|pid| node::arguments_of(*pid).is_some_and(|words| is_wanted(&words))).collect()
    }

    fn start_proxies(&self) -> Result<(), String> {
        let folder = Path::new(FOLDER);
        let user = self.user().name();
        let proxies = [
            ("haproxy", PathBuf::from("haproxy"), "haproxy.cfg", paths::haproxy()),
            ("pgbouncer", PathBuf::from("pgbouncer"), "pgbouncer.ini", paths::pgbouncer(user)),
            ("trunkline", Self::trunkline(), "trunkline.ini", paths::trunkline(user)),
        ];
        for (name, program, file, text) in proxies {
            self.write(&folder.join(file), &text)?;
            let mut command = Command::new(program);
            command.args(if name == "haproxy" { &["-db", "-f"][..] } else { &[] }).arg(file).current_dir(folder);
            node::spawn(command, &folder.join(format!("{name}.log")))?;
        }
        Ok(())
    }
}

/// Runs a short command to its end and returns what it printed.
pub(super) fn call(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot start {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("failed: {program} {}: {}", arguments.join(" "), why.trim()))
}

/// The folder of the lab, in memory.
pub(super) const FOLDER: &str = "/run/trunkline-ha";

/// The lease of a leader that has gone lasts for 20 s; a rewind, or Patroni's own copy, takes some more.
const SETTLING_ALONE: Duration = Duration::from_secs(60);

/// All this time and a copy.
const SETTLING_MAX: Duration = Duration::from_secs(180);
