//! A typical file of an operator.

use std::time::Duration;

use config::{AuthType, CheckQuery, Host, IoBackend};
use pool::Mode;

use crate::loaded;

pub(crate) const SAMPLE: &str = r#"
;; The pooler in front of the shop's databases.
;; Times are in seconds.

[databases]

; over the unix socket of this machine
local =

; under another name on another machine
shop = host=10.1.0.5 port=5433 dbname=shop_live

; everybody is this user there
reports = host=replica-1.internal,replica-2.internal user=reporter password='it''s me' pool_mode=transaction pool_size=8

; told to the server at the login
legacy = host=fd00::17 client_encoding=LATIN1 datestyle='ISO, DMY' timezone=Europe/Berlin connect_query='SET statement_timeout = ''30s'''

"with space" = host=/var/run/postgresql max_db_connections=12 reserve_pool=2

; all others
* = host=db.internal auth_user=lookup

[users]
batch = pool_mode=session max_user_connections=10
"web app" = query_timeout=20

[pgbouncer]

;; files
logfile = /var/log/pgbouncer/pgbouncer.log
pidfile = /var/run/pgbouncer/pgbouncer.pid

;; where clients come in
listen_addr = 127.0.0.1, ::1
listen_port = 6432
unix_socket_dir = /var/run/pgbouncer
unix_socket_mode = 0770
;unix_socket_group =

;; who they are
auth_type = scram-sha-256
auth_file = /etc/pgbouncer/userlist.txt
admin_users = postgres, root
stats_users = stats

;; pools
pool_mode = transaction
server_reset_query = DISCARD ALL
ignore_startup_parameters = extra_float_digits, options
server_check_query = select 1
server_check_delay = 10
max_client_conn = 2000
default_pool_size = 25
min_pool_size = 2
reserve_pool_size = 5
reserve_pool_timeout = 2.5
server_round_robin = 1

;; times
server_lifetime = 1200
server_idle_timeout = 60
server_connect_timeout = 5
query_wait_timeout = 30
client_idle_timeout = 0
tcp_keepalive = 1
tcp_keepidle = 60

log_connections = 0
log_disconnections = 0
stats_period = 30
pkt_buf = 8192

[trunkline]
workers = 4
io_backend = epoll
"#;

#[test]
fn a_file_as_operators_have_it_means_what_it_says() {
    let loaded = loaded(SAMPLE);
    let s = &loaded.settings;
    assert_eq!(*s.listen_addr, ["127.0.0.1".into(), "::1".into()]);
    assert_eq!((s.listen_port, s.unix_socket_mode, s.unix_socket_group.as_deref()), (6432, 0o770, None));
    assert_eq!((s.auth_type, s.pool_mode, s.io_backend), (AuthType::ScramSha256, Mode::Transaction, IoBackend::Epoll));
    assert!(s.admin_users.has("root") && s.ignore_startup_parameters.has("options"));
    assert_eq!(s.server_check_query, CheckQuery::Sql("select 1".into()));
    assert_eq!(s.reserve_pool_timeout, Some(Duration::from_millis(2500)));
    assert_eq!(s.stats_period, Duration::from_secs(30));
    assert_eq!((s.tcp_keepidle, s.client_idle_timeout), (Some(Duration::from_secs(60)), None));
    assert!(s.server_round_robin && !s.log_connections && s.log_stats);
    assert_eq!((s.workers, s.max_client_conn), (4, 2000));
    assert_eq!(s.users["web app"].query_timeout, Some(Duration::from_secs(20)));

    let names: Vec<_> = s.databases.keys().map(|name| &**name).collect();
    assert_eq!(names, ["legacy", "local", "reports", "shop", "with space"]);
    assert_eq!(s.databases["local"].hosts, [Host::Unix("/var/run/pgbouncer".into())]);
    assert_eq!((&*s.databases["shop"].dbname, s.databases["shop"].port), ("shop_live", 5433));
    let reports = &s.databases["reports"];
    assert_eq!((reports.hosts.len(), reports.user.as_deref(), reports.pool_size), (2, Some("reporter"), Some(8)));
    assert_eq!(reports.password.as_ref().map(|password| password.expose()), Some("it's me"));
    let legacy = &s.databases["legacy"];
    assert_eq!(legacy.connect_query.as_deref(), Some("SET statement_timeout = '30s'"));
    assert_eq!(legacy.datestyle.as_deref(), Some("ISO, DMY"));
    assert_eq!(s.databases["with space"].reserve_pool_size, Some(2));
    assert_eq!(s.fallback.as_ref().and_then(|fallback| fallback.host_text.as_deref()), Some("db.internal"));
}

#[test]
fn what_it_asks_for_in_vain_is_told() {
    let warnings: Vec<_> = loaded(SAMPLE).warnings.iter().map(|warning| warning.text.clone()).collect();
    assert_eq!(
        warnings,
        [
            "pkt_buf is accepted but has no meaning here",
            "max_db_connections (12) is smaller than one pool may become (25 servers and 2 in reserve)",
        ]
    );
}
