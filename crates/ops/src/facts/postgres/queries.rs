//! The questions to a PostgreSQL, for versions 13 to 18.
//!
//! Always true: each reads catalogs and statistics only, takes no lock on a table, and has a limit of rows; a column that only some versions have
//! is read through `to_jsonb`, which leaves it null elsewhere.
//! Not here: what the columns mean (`mod`), who asks.

/// A question, by the name of what it needs.
pub(crate) struct Query {
    /// The name, as it may follow "needs".
    pub(crate) name: &'static str,
    sql: &'static str,
    /// The oldest and the newest major version that have it.
    versions: (u32, u32),
}

impl Query {
    /// The statement: one JSON object a row.
    pub(crate) fn statement(&self) -> String {
        format!("select to_jsonb(q) from ({}) q limit {ROWS_MAX}", self.sql)
    }

    /// Whether a major version has what it asks for.
    pub(crate) fn suits(&self, major: u32) -> bool {
        (self.versions.0..=self.versions.1).contains(&major)
    }
}

const fn any(name: &'static str, sql: &'static str) -> Query {
    Query { name, sql, versions: (0, u32::MAX) }
}

/// What is asked once.
pub(crate) const SERVER_QUERIES: &[Query] = &[
    any(
        "the server's version",
        "select current_setting('server_version_num')::int as version, current_setting('server_version') as words, \
         pg_is_in_recovery() as is_in_recovery, extract(epoch from now() - pg_postmaster_start_time()) as uptime, \
         extract(epoch from now()) as now, pg_has_role('pg_monitor', 'MEMBER') as has_pg_monitor, \
         pg_has_role('pg_read_all_stats', 'USAGE') as sees_sessions",
    ),
    any("pg_settings", "select name, setting, unit from pg_settings"),
    any(
        "pg_database",
        "select d.datname as name, d.datconnlimit as limit, d.datistemplate as is_template, \
         d.datallowconn and has_database_privilege(d.oid, 'CONNECT') as may_connect, s.numbackends as backends, \
         extract(epoch from now() - s.stats_reset) as since_reset \
         from pg_database d join pg_stat_database s on s.datid = d.oid where d.datconnlimit <> -2",
    ),
    any(
        "pg_roles",
        "select rolname as name, rolcanlogin as may_login, rolsuper as is_superuser, rolconnlimit as limit from pg_roles",
    ),
    any(
        "pg_authid",
        "select rolname as name, case when rolpassword like 'md5%' then 'md5' when rolpassword like 'SCRAM-SHA-256$%' then 'scram' \
         else 'other' end as kind from pg_authid where rolcanlogin and rolpassword is not null",
    ),
    any(
        "pg_hba_file_rules",
        "select line_number as line, coalesce(type, '') as kind, address, coalesce(auth_method, '') as method, error from pg_hba_file_rules",
    ),
    any(
        "pg_stat_activity",
        "select pid, datname as database, usename as role, application_name as application, host(client_addr) as address, state, \
         backend_type as kind, extract(epoch from now() - xact_start) as transaction_age, \
         extract(epoch from now() - state_change) as state_age, age(backend_xmin) as xmin_age, \
         coalesce(application_name = current_setting('application_name'), false) as is_own from pg_stat_activity",
    ),
    any(
        "pg_prepared_xacts",
        "select gid, database, extract(epoch from now() - prepared) as age, age(transaction) as xid_age from pg_prepared_xacts",
    ),
    any(
        "pg_locks",
        "select l.pid, d.datname as database, case l.objsubid when 1 then ((l.classid::bigint << 32) | l.objid::bigint)::text \
         else l.classid || ', ' || l.objid end as key, l.mode, a.usename as role, a.application_name as application, a.state, \
         extract(epoch from now() - a.state_change) as state_age from pg_locks l left join pg_stat_activity a using (pid) \
         left join pg_database d on d.oid = l.database where l.locktype = 'advisory' and l.granted and l.pid is not null",
    ),
    any(
        "pg_replication_slots",
        "select s.slot_name, s.slot_type, s.active, s.temporary, s.wal_status, greatest(age(s.xmin), age(s.catalog_xmin)) as xmin_age, \
         pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, s.restart_lsn) as retained \
         from pg_replication_slots s",
    ),
    any(
        "pg_stat_replication",
        "select pid, application_name as application, host(client_addr) as address, state, sync_state, age(backend_xmin) as xmin_age \
         from pg_stat_replication",
    ),
    any(
        "pg_ls_tmpdir",
        "select substring(name from '^pgsql_tmp([0-9]+)[.]')::int as pid, sum(size) as size, \
         extract(epoch from now() - min(modification)) as age from pg_ls_tmpdir() where name ~ '^pgsql_tmp[0-9]+[.]' group by 1",
    ),
    any("pg_ls_waldir", "select count(*) as count from pg_ls_waldir() where name like '%.history'"),
];

/// What is asked twice, so that the difference is a rate.
pub(crate) const RATE_QUERIES: &[Query] = &[
    any(
        "pg_stat_database",
        "select datname as name, xact_commit + xact_rollback as xact, (to_jsonb(s) ->> 'sessions')::float8 as sessions, \
         blks_read, blks_hit, blk_read_time, temp_bytes, tup_updated + tup_deleted as changed, deadlocks \
         from pg_stat_database s where datname is not null",
    ),
    Query {
        name: "pg_stat_replication_slots (PostgreSQL 14 and later)",
        sql: "select slot_name, spill_txns, spill_bytes, stream_txns from pg_stat_replication_slots",
        versions: (14, u32::MAX),
    },
    any(
        "the position of the log",
        "select pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0') as count",
    ),
    Query {
        name: "pg_stat_bgwriter",
        sql: "select checkpoints_timed as timed, checkpoints_req as requested from pg_stat_bgwriter",
        versions: (0, 16),
    },
    Query {
        name: "pg_stat_checkpointer",
        sql: "select num_timed as timed, num_requested as requested from pg_stat_checkpointer",
        versions: (17, u32::MAX),
    },
    any(
        "pg_stat_database_conflicts",
        // The last is of PostgreSQL 16 and later.
        "select coalesce(sum(confl_tablespace + confl_lock + confl_snapshot + confl_bufferpin + confl_deadlock \
         + coalesce((to_jsonb(s) ->> 'confl_active_logicalslot')::bigint, 0)), 0) as count from pg_stat_database_conflicts s",
    ),
];

/// What is asked in each database.
pub(crate) const DATABASE_QUERIES: &[Query] = &[
    any(
        "functions",
        "select p.oid::regprocedure::text as name, p.prosecdef as is_definer, r.rolname as owner, r.rolcanlogin as owner_may_login, \
         r.rolsuper as owner_is_superuser, \
         exists (select from unnest(p.proconfig) c where c like 'search_path=%') as has_search_path, \
         exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0) as is_public, \
         p.prosrc ~* '(rol|use)super' and p.prosrc ~* '(rolreplication|userepl)' and p.prosrc ~* 'bypassrls' as has_filter \
         from pg_proc p join pg_roles r on r.oid = p.proowner \
         where p.prosrc ~* '\\m(pg_shadow|pg_authid)\\M' and p.pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)",
    ),
    any(
        "tables",
        "select c.oid::regclass::text as name from pg_class c where c.relkind in ('r', 'p') and c.relpersistence = 'p' \
         and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) \
         and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary) order by c.reltuples desc",
    ),
    any(
        "indexes",
        "select i.indexrelid::regclass::text as name, c.relpages * current_setting('block_size')::float8 as number, \
         case when not i.indisvalid then 'invalid' else 'unused' end as reason \
         from pg_index i join pg_class c on c.oid = i.indexrelid left join pg_stat_user_indexes s on s.indexrelid = i.indexrelid \
         where c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace) and c.relkind = 'i' \
         and (not i.indisvalid or s.idx_scan = 0 and not i.indisunique and not i.indisexclusion and c.relpages > 128 \
         and not exists (select from pg_constraint k where k.conindid = i.indexrelid)) order by c.relpages desc",
    ),
    any(
        "dead rows",
        // From PostgreSQL 18 on there is a largest threshold; -1 is none.
        "select s.relid::regclass::text as name, s.n_dead_tup as number, l.threshold as limit, \
         case when s.n_dead_tup > 2 * l.threshold then 'dead' else 'never' end as reason \
         from pg_stat_user_tables s join pg_class c on c.oid = s.relid, lateral (select least(nullif( \
         coalesce((select option_value from pg_options_to_table(c.reloptions) where option_name = 'autovacuum_vacuum_max_threshold')::float8, \
         current_setting('autovacuum_vacuum_max_threshold', true)::float8), -1), \
         coalesce((select option_value from pg_options_to_table(c.reloptions) where option_name = 'autovacuum_vacuum_threshold')::float8, \
         current_setting('autovacuum_vacuum_threshold')::float8) + greatest(c.reltuples, 0) * \
         coalesce((select option_value from pg_options_to_table(c.reloptions) where option_name = 'autovacuum_vacuum_scale_factor')::float8, \
         current_setting('autovacuum_vacuum_scale_factor')::float8)) as threshold) l \
         where s.n_dead_tup > 2 * l.threshold and s.n_dead_tup > 1000 \
         or s.last_vacuum is null and s.last_autovacuum is null and s.n_live_tup > 100000 order by s.n_dead_tup desc",
    ),
    any(
        "leftovers of pg_repack",
        "select c.oid::regclass::text as name, 'table' as reason from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = 'repack' and c.relkind = 'r' and c.relname ~ '^(log|table)_[0-9]+$' \
         union all select tgname || ' on ' || tgrelid::regclass, 'trigger' from pg_trigger where tgname in ('repack_trigger', 'z_repack_trigger')",
    ),
];

/// Rows of an answer that are taken; the rest shows nothing new.
const ROWS_MAX: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_question_writes_or_asks_for_a_statement_or_a_secret() {
        for query in SERVER_QUERIES.iter().chain(RATE_QUERIES).chain(DATABASE_QUERIES) {
            let sql = query.statement();
            assert!(sql.starts_with("select to_jsonb(q) from (select "), "{sql}");
            for word in [" query", " rolpassword as", " rolpassword,", "insert ", "update ", "delete ", "create ", ";"]
            {
                assert!(!query.sql.contains(word), "{word:?} is in {sql}");
            }
        }
    }

    /// The views of statistics that not all versions have, by the pages of each version's documentation: "Cumulative Statistics System".
    #[test]
    fn a_version_is_asked_for_what_it_has() {
        let names = |major: u32| -> Vec<&str> {
            let varied = RATE_QUERIES.iter().filter(|query| query.versions != (0, u32::MAX));
            varied.filter(|query| query.suits(major)).map(|query| query.name).collect()
        };
        let slots = "pg_stat_replication_slots (PostgreSQL 14 and later)";
        assert_eq!(names(13), ["pg_stat_bgwriter"]);
        for major in 14..=16 {
            assert_eq!(names(major), [slots, "pg_stat_bgwriter"], "{major}");
        }
        // 17 has moved the counters of checkpoints to a view of their own, under other names.
        for major in 17..=19 {
            assert_eq!(names(major), [slots, "pg_stat_checkpointer"], "{major}");
        }
        let of = |name: &str| RATE_QUERIES.iter().find(|query| query.name == name).map_or("", |query| query.sql);
        assert!(of("pg_stat_bgwriter").contains("checkpoints_timed as timed, checkpoints_req as requested"));
        assert!(of("pg_stat_checkpointer").contains("num_timed as timed, num_requested as requested"));
    }

    /// Columns that came later are read through `to_jsonb`, and settings with `current_setting(..., true)`: there they are absent, and no error.
    #[test]
    fn what_came_later_is_absent_before() {
        let all = || SERVER_QUERIES.iter().chain(RATE_QUERIES).chain(DATABASE_QUERIES);
        for (name, since) in [("sessions", 14), ("confl_active_logicalslot", 16)] {
            for query in all().filter(|query| query.versions.0 < since && query.sql.contains(name)) {
                let quoted = query.sql.matches(&format!("to_jsonb(s) ->> '{name}'")).count();
                let other = query.sql.replace(&format!("as {name}"), "").matches(name).count();
                assert!(quoted == other || name == "sessions" && query.name == "the server's version", "{}", query.sql);
            }
        }
        for query in all().filter(|query| query.sql.contains("current_setting('autovacuum_vacuum_max_threshold'")) {
            assert!(query.sql.contains("current_setting('autovacuum_vacuum_max_threshold', true)"), "{}", query.sql);
        }
    }
}
