//! The catalog of rules, in the order of their names.
//!
//! Always true: a rule has one entry; the reference page and every report take its texts from here.
//! Not here: how a rule is judged (the other files of this folder).

use crate::findings::{Rule, Severity};

use super::{Case, DoctorRule, Verdicts, catalogs, machine, pooled, settings, transactions, work};

use Severity::{Error, Information, Warning};

/// Entries as lines: the texts in the order of [`Rule`].
macro_rules! rules {
    ($($id:literal $severity:ident $check:path, $title:literal, $condition:literal, $formula:literal, $advice:literal, $source:literal;)*) => {
        &[$(DoctorRule {
            rule: Rule {
                id: $id,
                severity: $severity,
                title: $title,
                condition: $condition,
                formula: $formula,
                advice: $advice,
                source: $source,
            },
            check: $check as fn(&Case<'_>, &mut Verdicts<'_>),
        },)*]
    };
}

/// All rules.
pub(crate) const RULES: &[DoctorRule] = rules! {
    "D01" Warning machine::too_many_for_cores, "more connections than processors can serve",
        "`max_connections` is more than ten for each processor, or more than four sessions for each were running statements on average.",
        "max_connections > 10 x cores; mean active sessions > 4 x cores",
        "lower max_connections and let a pooler queue: two to four running statements for each processor give the most throughput",
        "pg_gather";
    "D02" Warning work::churn, "connections live for few transactions",
        "Applications, or a pooler that evicts, open a session for less than ten transactions each.",
        "sessions opened / transactions > 0.1",
        "use a pooler; if there is one: raise its limit of servers for the database, or lower min_pool_size (SHOW CHURN tells why)",
        "Mattermost, CERN";
    "D03" Warning transactions::idle_in_transaction, "sessions are idle in a transaction",
        "A session has been idle in its transaction for over a minute, or more than 5 % of the sessions in use were. It keeps a pooled server from everybody else, its locks, and rows from vacuum.",
        "state_change older than 60 s; idle in transaction / sessions in use > 5 %",
        "set idle_in_transaction_session_timeout for the role, and end transactions before the application waits for anything else",
        "Percona";
    "D04" Warning transactions::old_xmin, "something old keeps dead rows",
        "Vacuum removes nothing that this session, slot, prepared transaction or standby may still see.",
        "age(xmin) > 10,000 transactions",
        "end the transaction, drop the slot, or commit or roll back the prepared transaction that is named",
        "pg_gather";
    "D05" Information settings::connection_check, "statements of vanished clients run on",
        "The server does not look whether its client is still there while a statement runs.",
        "client_connection_check_interval = 0 (PostgreSQL 14 and later)",
        "set client_connection_check_interval = 10s to 60s",
        "pg_gather";
    "D06" Warning settings::no_timeouts, "nothing ends a statement, a lock wait or an idle transaction",
        "None of the three timeouts is set for the server. Roles may have their own, which this does not see.",
        "statement_timeout = lock_timeout = idle_in_transaction_session_timeout = 0",
        "set them for each role (alter role ... set), not in pooled sessions, where they would stay for the next client",
        "pg_gather";
    "D07" Warning settings::idle_session, "the server closes pooled connections",
        "Idle servers of a pool are closed by PostgreSQL, and clients may meet one as it closes.",
        "idle_session_timeout > 0",
        "set idle_session_timeout = 0 for the pooler's roles, and server_idle_timeout in the pooler",
        "pg_gather";
    "D08" Warning machine::page_tables_expected, "page tables may take much memory",
        "Without huge pages each connection that lives long maps all of shared memory with a page table of its own.",
        "max_connections x shared memory / 512 > 5 % of memory, and huge pages are not in use",
        "reserve huge pages (see D10) and set huge_pages = on",
        "Percona: 45 MB became 25 GB";
    "D09" Information machine::transparent, "transparent huge pages are always on",
        "The kernel makes huge pages of any memory, and stops processes while it does.",
        "/sys/kernel/mm/transparent_hugepage/enabled = always",
        "set transparent_hugepage=madvise; huge_pages of PostgreSQL does not need them",
        "Percona";
    "D10" Warning machine::huge_pages, "too few huge pages are reserved",
        "PostgreSQL may or must use huge pages, and the kernel has fewer than shared memory needs.",
        "vm.nr_hugepages < ceil(shared memory / huge page)",
        "set vm.nr_hugepages to the number that is given, and restart PostgreSQL",
        "Percona: 148,392,404 kB / 2,048 kB = 72,458 pages, rounded up";
    "D11" Warning machine::page_tables, "page tables take much memory",
        "The kernel's page tables take memory that is missing elsewhere.",
        "PageTables > 2 % of memory, or > 10 % of shared_buffers",
        "use huge pages, fewer connections, or a shorter server_lifetime in the pooler",
        "Percona: 45 MB became 25 GB";
    "D12" Warning machine::out_of_memory, "the kernel may kill PostgreSQL",
        "The kernel promises more memory than it has and the postmaster is not protected, or what processes have and may ask for does not fit.",
        "vm.overcommit_memory is not 2 and oom_score_adj of the postmaster >= 0; PSS + active x work_mem > memory",
        "set vm.overcommit_memory = 2, and OOMScoreAdjust=-900 for the service with PG_OOM_ADJUST_VALUE=0",
        "Percona; PostgreSQL's manual";
    "D13" Warning machine::memory_at_peak, "a full server does not fit into memory",
        "If all connections are used at once, shared memory, page tables and their own memory are more than there is.",
        "shared memory + max_connections x (page table + 5 MB + work_mem) > 90 % of memory",
        "lower max_connections or work_mem",
        "Percona; own calculation";
    "D14" Information machine::work_mem, "sorts go to disk though there is memory, or may take too much",
        "`work_mem` is far from what memory allows, and the server writes temporary files.",
        "work_mem against (memory - shared_buffers) / (3 x max_connections); temporary files written",
        "change work_mem for the roles that sort most, towards the value that is given",
        "CERN; pgtune";
    "D15" Information machine::shared_buffers, "shared_buffers are an unusual part of memory",
        "Less than 20 % leaves rows to the kernel's cache, more than 40 % stores them twice.",
        "shared_buffers / memory outside 20 to 40 %",
        "begin with 25 % of memory, and compare hit ratio and read time",
        "CERN: 25 GB of 100 GB; pg_gather";
    "D16" Information work::hit_ratio, "many pages are read from disk",
        "Of the pages that statements needed in this time, too few were in shared buffers.",
        "hits / (hits + reads) < 99 %, with at least 1,000 reads",
        "raise shared_buffers if reads take time (track_io_timing), or look for scans of whole tables in pg_stat_statements",
        "GitLab: over 99 %";
    "D17" Warning work::client_write, "the server waits to send rows",
        "Statements were finished, or nearly, and waited for the network, the client or the pooler to take rows.",
        "ClientWrite > 20 % of active samples",
        "fetch fewer rows or columns, read them faster, or use a pooler nearer to the clients; the division of time below tells who it is",
        "Percona: 286 of 364 samples";
    "D18" Warning work::client_read, "transactions wait for their clients",
        "In the middle of transactions the server waited for the next statement.",
        "ClientRead in transactions > 20 % of sessions in use",
        "send more with one round trip (pipelines, larger FETCH), do other work outside of transactions",
        "Percona: 1,754 of 2,000 samples";
    "D19" Warning work::light_locks, "sessions wait for the lock manager or for snapshots",
        "Too many sessions at once, or statements on too many partitions or indexes, compete inside the server.",
        "LWLock LockManager or ProcArray > 5 % of active samples",
        "use fewer server connections, and conditions that leave partitions out",
        "CERN; PostgreSQL's manual";
    "D20" Warning pooled::too_small, "clients wait for a pool that is too small",
        "Clients waited long for a server while the processors of PostgreSQL were less than half busy.",
        "wait / (wait + transactions) > 20 %, and active sessions on a processor < 50 % of cores",
        "raise pool_size step by step while the wait falls",
        "own measurement";
    "D21" Warning pooled::too_large, "a pool is never half used",
        "Over a week (`--history`) never half of a pool's servers were at work at a reading.",
        "most servers in use / pool_size < 50 % over 7 days",
        "lower pool_size to twice the peak",
        "own calculation";
    "D22" Information pooled::unneeded, "max_connections is larger than needed",
        "All pools together, and what bypasses them, leave more than 30 % of max_connections unused.",
        "(max_connections - pools x replicas - direct - reserved) / max_connections > 30 %",
        "lower max_connections: it is memory for locks and snapshots, and a bound for accidents",
        "own calculation";
    "D23" Warning pooled::direct, "sessions bypass the pooler",
        "More sessions than expected are neither servers of the pooler nor from its machine.",
        "sessions that SHOW SERVERS does not know > --direct",
        "point the named applications to the pooler, or close the server to others in pg_hba.conf",
        "CERN";
    "D24" Warning work::logins, "many logins",
        "Each login costs a process, and TLS and SCRAM take processor time.",
        "sessions opened > 9 a second",
        "use a pooler, or raise the lifetime of the applications' connections",
        "pg_gather";
    "D25" Information transactions::prepared, "a prepared transaction or a cursor WITH HOLD is old",
        "A transaction of two-phase commit waits for its end and keeps locks and dead rows. A cursor WITH HOLD keeps its rows, and a pooled server for one client.",
        "prepared longer than 1 h ago; idle with a temporary file older than 1 h; pinned by a cursor for longer than 1 h (SHOW PINS)",
        "commit prepared or rollback prepared, and find out which coordinator has left it; close the cursor, or read it within its transaction",
        "PostgreSQL's manual";
    "D26" Error pooled::stranded_locks, "an advisory lock is stranded on a pooled connection",
        "A pooled server that belongs to no client holds a session-level advisory lock: whoever wants it waits until the server is closed.",
        "advisory lock held by an idle server connection without a client",
        "close the connection (select pg_terminate_backend(PID)); use pg_advisory_xact_lock, a session route for migrations, or a pooler that keeps session state",
        "Mattermost: up to server_lifetime, 3,600 s";
    "D27" Warning catalogs::repack, "pg_repack has left something, or waits",
        "Tables, triggers or types of an ended pg_repack remain and slow each write, or a pg_repack that runs waits behind a long transaction.",
        "tables in schema repack or triggers repack_trigger without a running pg_repack; transaction > 60 s beside a running one",
        "drop extension pg_repack cascade; create extension pg_repack - while none runs",
        "Percona";
    "D28" Warning catalogs::weak_secrets, "weak passwords or lines of pg_hba.conf",
        "Roles have md5 secrets, which are as good as passwords, or pg_hba.conf takes logins by trust, password or md5, or without TLS, from other machines.",
        "rolpassword like md5%; method trust, password or md5 on host lines that are not loopback; kind host instead of hostssl",
        "set password_encryption = scram-sha-256 and let the named roles change their passwords; use hostssl ... scram-sha-256",
        "Percona, CERN";
    "D29" Error catalogs::lookup, "the lookup of secrets is not safe, or not everywhere",
        "A function that reads secrets for the pooler's auth_query lacks a protection, or a database lacks the function that others have.",
        "not SECURITY DEFINER; no search_path of its own; executable by public; its owner may log in; privileged roles are not left out; missing in a database",
        "create it as SECURITY DEFINER SET search_path = pg_catalog, owned by a role with NOLOGIN, revoke execute from public, and leave out rolsuper, rolreplication and rolbypassrls; in all databases and template1, or use auth_dbname",
        "CERN";
    "D30" Warning pooled::role_limits, "a role or database has fewer connections than its pool",
        "The pooler opens servers until PostgreSQL refuses them (53300).",
        "rolconnlimit or datconnlimit < (pool_size + reserve_pool_size) x replicas",
        "alter role ... connection limit, or lower pool_size",
        "Odyssey: 10 against 200";
    "D31" Warning work::spilled, "logical decoding spills to disk",
        "Large transactions are written to disk before they are sent, and none is streamed.",
        "spill_bytes grows, stream_txns does not",
        "alter subscription ... set (streaming = on), or raise logical_decoding_work_mem",
        "Percona: 2,250,000,000 bytes spilled";
    "D32" Warning catalogs::slots, "a replication slot keeps the log",
        "An inactive slot keeps the write-ahead log until the disk is full, or has lost what it needs (an error).",
        "inactive and retained > 10 % of the disk (1 GB if that is not known); wal_status = lost; inactive and max_slot_wal_keep_size = -1",
        "drop the slot if nobody will use it, and set max_slot_wal_keep_size",
        "Percona";
    "D33" Information catalogs::dead_rows, "tables wait for vacuum",
        "Dead rows are twice what starts autovacuum, or a large table was never vacuumed.",
        "n_dead_tup > 2 x (threshold + scale factor x rows); never vacuumed with > 100,000 rows",
        "look for what holds it back (D04), and lower the table's autovacuum_vacuum_scale_factor",
        "CERN";
    "D34" Information work::slow_vacuum, "autovacuum is slower than the writes",
        "If each changed row is on another page, autovacuum may not clean as fast as rows change.",
        "rows updated and deleted a second > (1000 / autovacuum_vacuum_cost_delay) x cost_limit / (page_dirty + page_hit)",
        "raise autovacuum_vacuum_cost_limit",
        "CERN";
    "D35" Information catalogs::indexes, "unused or invalid indexes",
        "Each write maintains them. Replicas may use what is unused here.",
        "not valid; or never scanned since the statistics began, at least a day ago, not unique, > 1 MB",
        "drop index concurrently, after a look at the replicas; reindex what is invalid",
        "CERN";
    "D36" Information catalogs::unkeyed, "tables without a primary key",
        "Logical replication cannot name rows that are updated, and pg_repack refuses such tables.",
        "no primary key",
        "add a primary key, or replica identity using index",
        "Percona";
    "D37" Information settings::checkpoints, "checkpoints are frequent or abrupt",
        "Each checkpoint writes full pages again; those that are requested come because max_wal_size is small.",
        "checkpoint_timeout < 20 min; checkpoint_completion_target < 0.7; max_wal_size < log of an hour; requested > timed",
        "set checkpoint_timeout = 30min, checkpoint_completion_target = 0.9, and max_wal_size above the log of an hour",
        "pg_gather";
    "D38" Information settings::jit, "statements may be compiled",
        "Compilation takes longer than short statements do, if the planner is wrong about their cost.",
        "jit = on, and transactions take < 100 ms on average or are not measured",
        "set jit = off for roles of applications, or raise jit_above_cost",
        "pg_gather";
    "D39" Information settings::not_measured, "the server does not measure itself",
        "Without these, this report and everybody else knows less.",
        "track_io_timing = off; pg_stat_statements not in shared_preload_libraries",
        "set track_io_timing = on, and preload pg_stat_statements",
        "pg_gather";
    "D40" Warning settings::version, "the release of PostgreSQL is old",
        "Later minor releases mend errors, some of which crash servers; a major release without support gets none.",
        "minor < latest known; major without support at the server's date",
        "install the latest minor release, which needs a restart only",
        "CERN: 12.5 crashed every 6 h, 12.10 did not";
    "D41" Warning settings::restarted, "the server was restarted, or failed over, recently or often",
        "The server started less than a day ago, or has had more than five timelines.",
        "uptime < 1 day; timeline histories > 5",
        "look for the reason in the log: \"was terminated by signal\", \"database system was not properly shut down\"",
        "CERN; pg_gather";
    "D42" Warning settings::idle_snapshots, "idle connections slow an old version down",
        "Before PostgreSQL 14 each snapshot looks at all connections.",
        "PostgreSQL < 14 and idle sessions > 500",
        "use a pooler in transaction mode, or upgrade",
        "CERN: 47.17 % of a processor";
    "D43" Warning settings::lonely_commits, "commits wait for a standby that is not there",
        "Synchronous commits wait until enough of the named standbys are connected.",
        "synchronous_standby_names is set and no standby is synchronous",
        "bring the standby back, or let Patroni manage synchronous_standby_names",
        "pg_gather";
    "D44" Information machine::network_disk, "commits wait long for the disk, or the disk is a network filesystem",
        "Each commit waits for the log to be on the disk; a mount that hangs stops the server. Commits are tried with `--commit-probe`.",
        "filesystem of data_directory is nfs, cifs, ceph, glusterfs or similar; 99 % of the tried commits take up to more than 10 ms, without the way there and back",
        "measure commits (pg_test_fsync); mount NFS with hard and sync",
        "CERN";
    "D45" Warning settings::replica, "a replica cancels its readers, or keeps no rows for them",
        "Statements of this replica were cancelled by replay in this time, or long ones run without feedback to the primary, or logical slots depend on it.",
        "conflicts grow; hot_standby_feedback = off with transactions > 60 s or logical slots",
        "set hot_standby_feedback = on, or raise max_standby_streaming_delay",
        "Percona";
    "D46" Warning pooled::replication_idle, "the pooler may close quiet replication",
        "Sessions that replicate through the pooler are quiet for longer than the pooler allows.",
        "client_idle_timeout or query_timeout of the pooler < wal_sender_timeout / 2, or wal_sender_timeout = 0, with replication through it",
        "set client_idle_timeout = 0 for replication, or wal_sender_timeout below it",
        "PostgreSQL's manual";
    "D47" Information machine::walsenders, "a walsender is busy",
        "Decoding for a subscriber runs on one processor.",
        "processor time of a walsender > 10 % (a warning: > 20 %)",
        "publish fewer tables, spread them over slots less than one for each subscriber, or stream large transactions",
        "GitLab";
};
