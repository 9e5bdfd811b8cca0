//! The four paths from a client to the primary, and the configuration of what is on them.
//!
//! Always true: each program has its own defaults, but for what the lab needs and what is said at the text; all paths
//! lead to the same three hosts, with the same time to connect.
//! Not here: the cluster (`node`), and how the programs are started (`lab`).

use super::node::Node;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    Direct,
    HaProxy,
    PgBouncer,
    Trunkline,
}

impl Path {
    pub(super) const ALL: [Path; 4] = [Path::Direct, Path::HaProxy, Path::PgBouncer, Path::Trunkline];

    /// The name under which the client that measures knows it.
    pub(super) fn letter(self) -> &'static str {
        match self {
            Self::Direct => "A",
            Self::HaProxy => "B",
            Self::PgBouncer => "C",
            Self::Trunkline => "D",
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Direct => "A direct",
            Self::HaProxy => "B HAProxy",
            Self::PgBouncer => "C PgBouncer, HAProxy",
            Self::Trunkline => "D Trunkline",
        }
    }

    /// The connection string, as libpq takes it, of those who write.
    pub(super) fn writer(self) -> String {
        let end = "user=postgres dbname=lab connect_timeout=5";
        match self {
            Self::Direct => format!("host={} {end} target_session_attrs=read-write", Node::addresses()),
            Self::HaProxy => format!("host={HERE} port={HAPROXY} {end}"),
            Self::PgBouncer => format!("host={HERE} port={PGBOUNCER} {end}"),
            Self::Trunkline => format!("host={HERE} port={TRUNKLINE} {end}"),
        }
    }

    /// The connection string of those who read, of a standby.
    pub(super) fn reader(self) -> String {
        let end = "user=postgres connect_timeout=5";
        match self {
            Self::Direct => format!("host={} {end} dbname=lab target_session_attrs=standby", Node::addresses()),
            Self::HaProxy => format!("host={HERE} port={HAPROXY_STANDBYS} {end} dbname=lab"),
            Self::PgBouncer => format!("host={HERE} port={PGBOUNCER} {end} dbname=lab_ro"),
            Self::Trunkline => format!("host={HERE} port={TRUNKLINE} {end} dbname=lab_ro"),
        }
    }
}

/// The connection string to one node, past all that finds the primary.
pub(super) fn directly(node: Node) -> String {
    format!("host={} user=postgres dbname=lab connect_timeout=2", node.address())
}

/// The connection string of path D's console.
pub(super) fn console() -> String {
    format!("host={HERE} port={TRUNKLINE} user=postgres")
}

/// Path D. `query_wait_timeout` is how long a client waits for a primary; the others as in docs/operating/high-availability.md.
pub(super) fn trunkline(user: &str) -> String {
    let (hosts, agents) =
        (Node::addresses(), Node::ALL.map(|node| format!("http://{}:8008", node.address())).join(","));
    format!(
        "[clusters]\n\
         main = hosts={hosts} user=postgres patroni={agents}\n\
         [databases]\n\
         lab = cluster=main user=postgres\n\
         lab_ro = cluster=main role=replica dbname=lab user=postgres\n\
         lab_long = cluster=main dbname=lab user=postgres pool_size={LONG}\n\
         [pgbouncer]\n\
         listen_addr = {HERE}\n\
         listen_port = {TRUNKLINE}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         admin_users = postgres\n\
         pool_mode = transaction\n\
         query_wait_timeout = 60\n\
         user = {user}\n"
    )
}

/// The connection string, by path D, of transactions that stay open, which get servers of their own.
pub(super) fn long() -> String {
    format!("host={HERE} port={TRUNKLINE} user=postgres dbname=lab_long connect_timeout=5")
}

/// How many transactions stay open.
pub(super) const LONG: usize = 50;

/// Path C: PgBouncer with one host, HAProxy. It has the same time for a client to wait; its default is twice that.
pub(super) fn pgbouncer(user: &str) -> String {
    format!(
        "[databases]\n\
         lab = host={HERE} port={HAPROXY} user=postgres\n\
         lab_ro = host={HERE} port={HAPROXY_STANDBYS} dbname=lab user=postgres\n\
         [pgbouncer]\n\
         listen_addr = {HERE}\n\
         listen_port = {PGBOUNCER}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         query_wait_timeout = 60\n\
         user = {user}\n"
    )
}

/// Path B, the template of Patroni's documentation, but for `inter`, which is 3 s there: 1 s is the faster choice.
pub(super) fn haproxy() -> String {
    let servers: String = Node::ALL
        .iter()
        .map(|node| format!("  server {} {}:5432 maxconn 100 check port 8008\n", node.name(), node.address()))
        .collect();
    let listen = |name: &str, port: u16, path: &str| {
        format!(
            "listen {name}\n  bind {HERE}:{port}\n  option httpchk GET {path}\n  http-check expect status 200\n  \
             default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions\n{servers}"
        )
    };
    let (primary, replica) = (listen("primary", HAPROXY, "/primary"), listen("replica", HAPROXY_STANDBYS, "/replica"));
    format!(
        "global\n  maxconn 1000\n\
         defaults\n  mode tcp\n  retries 2\n  timeout client 30m\n  timeout connect 4s\n  timeout server 30m\n  \
         timeout check 5s\n{primary}{replica}"
    )
}

/// The address of clients, poolers and HAProxy.
pub(super) const HERE: &str = "10.77.0.100";

/// Our address in the network of etcd, to read who leads it.
pub(super) const HERE_OF_ETCD: &str = "10.78.0.100";

const HAPROXY: u16 = 5000;
const HAPROXY_STANDBYS: u16 = 5001;
const TRUNKLINE: u16 = 6432;
const PGBOUNCER: u16 = 6532;
