//! Which share of the server's work each table has, and what its buffers hold.
//!
//! Always true: shares of blocks are exact, from the counters of tables; shares of time are an estimate, from statements and the tables that they
//! name; a statement whose tables are not known for sure is counted as unknown. What an extension or a right is missing for says so.
//! Not here: reading tables out of a statement (`relations`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::relations::{Named, relations};
use super::writing::{WriteCounters, Writing, question};
use crate::connection::Line;
use crate::facts::Observed;
use crate::hatest::Target;

/// The shares.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Attribution {
    /// By table, the largest share of blocks first.
    pub(crate) tables: Observed<Vec<TableShare>>,
    /// Of the time of statements: unknown, and of no table of ours; or why nothing is known of time.
    pub(crate) untold: Observed<Untold>,
    pub(crate) hot: Observed<Vec<HotTable>>,
    /// What was written meanwhile.
    pub(crate) writing: Observed<Writing>,
}

/// What a table has of all.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TableShare {
    pub(crate) table: String,
    /// Of block accesses; exact.
    pub(crate) blocks: f64,
    /// Of rows that were read.
    pub(crate) rows: f64,
    /// Of rows that were written.
    pub(crate) writes: f64,
    /// Of the time of statements; an estimate.
    pub(crate) time: Option<f64>,
}

/// The time that no table is told for.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Untold {
    /// Statements whose tables are not known.
    pub(crate) unknown: f64,
    /// Statements that name no table.
    pub(crate) without: f64,
    /// Milliseconds of all statements.
    pub(crate) milliseconds: f64,
    /// Bytes of the log that statements wrote.
    pub(crate) wal_bytes: f64,
}

/// What buffers hold of a relation.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct HotTable {
    pub(crate) name: String,
    /// Buffers, those that are used often, and those of them that are dirty.
    pub(crate) buffers: f64,
    pub(crate) hot: f64,
    pub(crate) dirty: f64,
}

/// Counters of a table.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct TableCounters {
    oid: u32,
    schema: String,
    name: String,
    blocks: f64,
    read: f64,
    written: f64,
}

/// Counters of a statement.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct StatementCounters {
    key: String,
    query: String,
    milliseconds: f64,
    wal: f64,
    #[serde(default)]
    dirtied: f64,
}

/// A reading of a server.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Snapshot {
    pub(crate) tables: Observed<Vec<TableCounters>>,
    pub(crate) statements: Observed<Vec<StatementCounters>>,
    pub(crate) writes: Observed<WriteCounters>,
}

/// A first reading that waits for the second.
pub(crate) struct Observation<'t> {
    target: &'t Target,
    before: Snapshot,
    began: Instant,
}

impl<'t> Observation<'t> {
    /// Reads for the first time.
    pub(crate) fn begin(target: &'t Target) -> Self {
        Self { target, before: ask(target, false).0, began: Instant::now() }
    }

    /// Reads for the second time.
    pub(crate) fn end(self, is_hot_set: bool) -> Attribution {
        let seconds = self.began.elapsed().as_secs_f64();
        let (after, hot) = ask(self.target, is_hot_set);
        attribute(&self.before, &after, seconds, hot)
    }
}

/// What grew between two readings, as shares.
pub(crate) fn attribute(
    before: &Snapshot,
    after: &Snapshot,
    seconds: f64,
    hot: Observed<Vec<HotTable>>,
) -> Attribution {
    let writes = before.writes.as_ref().and_then(|before| Ok((before, after.writes.as_ref()?)));
    let grown = grown_tables(before, after);
    let statements = grown_statements(before, after);
    let dirtied = statements.as_ref().map(|grown| grown.iter().map(|statement| statement.dirtied).sum());
    let writing = writes
        .map_err(String::clone)
        .map(|(first, second)| Writing::between(seconds, first, second, dirtied.map_err(String::clone)));
    let (times, untold) = match (&grown, &statements) {
        (Ok(grown), Ok(statements)) => divide(grown, statements),
        (Err(why), _) | (_, Err(why)) => (BTreeMap::new(), Err(why.clone())),
    };
    let tables = grown.map(|grown| {
        let sum = |of: fn(&TableCounters) -> f64| grown.iter().map(of).sum::<f64>().max(f64::MIN_POSITIVE);
        let (blocks, read, written) = (sum(|t| t.blocks), sum(|t| t.read), sum(|t| t.written));
        let share = |table: &TableCounters| TableShare {
            table: format!("{}.{}", table.schema, table.name),
            blocks: table.blocks / blocks,
            rows: table.read / read,
            writes: table.written / written,
            time: untold.is_ok().then(|| times.get(&table.oid).copied().unwrap_or(0.0)),
        };
        let mut shares: Vec<TableShare> = grown.iter().map(share).collect();
        shares.retain(|share| share.blocks + share.rows + share.writes + share.time.unwrap_or(0.0) > 0.0);
        shares.sort_by(|a, b| b.blocks.total_cmp(&a.blocks));
        shares
    });
    Attribution { tables, untold, hot, writing }
}

fn grown_tables(before: &Snapshot, after: &Snapshot) -> Observed<Vec<TableCounters>> {
    let (before, after) =
        (before.tables.as_ref().map_err(String::clone)?, after.tables.as_ref().map_err(String::clone)?);
    let earlier: BTreeMap<u32, &TableCounters> = before.iter().map(|table| (table.oid, table)).collect();
    let grown = |table: &TableCounters| match earlier.get(&table.oid) {
        // Counters that fell were reset, and count from 0.
        Some(earlier) if table.blocks >= earlier.blocks => TableCounters {
            blocks: table.blocks - earlier.blocks,
            read: (table.read - earlier.read).max(0.0),
            written: (table.written - earlier.written).max(0.0),
            ..table.clone()
        },
        _ => table.clone(),
    };
    Ok(after.iter().map(grown).collect())
}

fn grown_statements(before: &Snapshot, after: &Snapshot) -> Observed<Vec<StatementCounters>> {
    let (before, after) =
        (before.statements.as_ref().map_err(String::clone)?, after.statements.as_ref().map_err(String::clone)?);
    let earlier: BTreeMap<&String, &StatementCounters> =
        before.iter().map(|statement| (&statement.key, statement)).collect();
    let grown = |statement: &StatementCounters| {
        let mut grown = statement.clone();
        if let Some(earlier) = earlier.get(&statement.key)
            && earlier.milliseconds <= statement.milliseconds
        {
            grown.milliseconds -= earlier.milliseconds;
            grown.wal -= earlier.wal;
            grown.dirtied = (grown.dirtied - earlier.dirtied).max(0.0);
        }
        grown
    };
    Ok(after.iter().map(grown).filter(|statement| statement.milliseconds > 0.0).collect())
}

/// The share of time of each table. A statement of several tables counts for each as much as the table's blocks say.
fn divide(tables: &[TableCounters], statements: &[StatementCounters]) -> (BTreeMap<u32, f64>, Observed<Untold>) {
    let all = statements.iter().map(|statement| statement.milliseconds).sum::<f64>().max(f64::MIN_POSITIVE);
    let mut times: BTreeMap<u32, f64> = BTreeMap::new();
    let mut untold = Untold { milliseconds: all, ..Untold::default() };
    for statement in statements {
        let share = statement.milliseconds / all;
        untold.wal_bytes += statement.wal;
        match relations(&statement.query).and_then(|named| found(tables, &named)) {
            None => untold.unknown += share,
            Some(of) if of.is_empty() => untold.without += share,
            Some(of) => {
                let weight = |table: &&TableCounters| table.blocks + 1.0;
                let sum: f64 = of.iter().map(weight).sum();
                for table in &of {
                    *times.entry(table.oid).or_default() += share * weight(table) / sum;
                }
            }
        }
    }
    (times, Ok(untold))
}

/// The tables of names; `None` if one is not a table of ours, or could be several.
fn found<'t>(tables: &'t [TableCounters], named: &BTreeSet<Named>) -> Option<Vec<&'t TableCounters>> {
    let find = |(schema, name): &Named| {
        let mut all = tables
            .iter()
            .filter(|table| table.name == *name && schema.as_ref().is_none_or(|schema| *schema == table.schema));
        let first = all.next()?;
        all.next().is_none().then_some(first)
    };
    named.iter().map(find).collect()
}

/// Reads a server once, with its buffers or without.
fn ask(target: &Target, is_hot_set: bool) -> (Snapshot, Observed<Vec<HotTable>>) {
    let nothing = |why: String| {
        let snapshot = Snapshot { tables: Err(why.clone()), statements: Err(why.clone()), writes: Err(why.clone()) };
        (snapshot, Err(why))
    };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return nothing("a runtime".to_owned());
    };
    let read = LocalSet::new().block_on(&runtime, async {
        let mut line = Line::open(target).await?;
        line.limit().await;
        let tables = rows(&mut line, "pg_stat_user_tables", TABLES).await;
        let statements = match extension(&mut line, "pg_stat_statements").await {
            Ok(schema) => rows(&mut line, "pg_stat_statements", &STATEMENTS.replace("SCHEMA", &schema)).await,
            Err(why) => Err(why),
        };
        let hot = match is_hot_set {
            true => match extension(&mut line, "pg_buffercache").await {
                Ok(schema) => rows(&mut line, "pg_buffercache", &BUFFERS.replace("SCHEMA", &schema)).await,
                Err(why) => Err(why),
            },
            false => Err("--hot-set".to_owned()),
        };
        let writes = match version(&mut line).await {
            Ok(version) => rows(&mut line, "pg_stat_bgwriter", question(version)).await,
            Err(why) => Err(why),
        };
        let writes = writes.and_then(|mut rows: Vec<WriteCounters>| {
            rows.pop().ok_or_else(|| "pg_stat_bgwriter, whose answer is empty".to_owned())
        });
        line.close().await;
        Ok::<_, String>((Snapshot { tables, statements, writes }, hot))
    });
    runtime.shutdown_background();
    read.unwrap_or_else(nothing)
}

async fn rows<T: DeserializeOwned>(line: &mut Line, name: &str, sql: &str) -> Observed<Vec<T>> {
    let mut rows = Vec::new();
    let statement = format!("select to_jsonb(q) from ({sql}) q limit {ROWS_MAX}");
    line.rows(&statement, |row| rows.extend(row.into_iter().flatten()))
        .await
        .map_err(|why| format!("{name} ({why})"))?;
    let read = |row: &String| serde_json::from_str(row).map_err(|why| format!("{name}, whose answer is odd: {why}"));
    rows.iter().map(read).collect()
}

/// `server_version_num`.
async fn version(line: &mut Line) -> Observed<u32> {
    let mut version = String::new();
    line.rows("show server_version_num", |row| version.extend(row.into_iter().flatten())).await?;
    version.parse().map_err(|_| "server_version_num as a number".to_owned())
}

/// The schema of an extension, quoted.
async fn extension(line: &mut Line, name: &str) -> Observed<String> {
    let mut schemas = Vec::new();
    let sql = format!(
        "select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = '{name}'"
    );
    line.rows(&sql, |row| schemas.extend(row.into_iter().flatten())).await?;
    schemas.pop().ok_or_else(|| format!("the extension {name} in this database"))
}

const TABLES: &str = "select t.relid::bigint as oid, t.schemaname as schema, t.relname as name, \
    coalesce(i.heap_blks_hit + i.heap_blks_read, 0) + coalesce(i.idx_blks_hit + i.idx_blks_read, 0) \
    + coalesce(i.toast_blks_hit + i.toast_blks_read, 0) + coalesce(i.tidx_blks_hit + i.tidx_blks_read, 0) as blocks, \
    coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0) as read, t.n_tup_ins + t.n_tup_upd + t.n_tup_del as written \
    from pg_stat_user_tables t join pg_statio_user_tables i using (relid)";
/// The texts are normalised: they have no literal. The columns are those of the extension, which may be older than the server: before 1.8 (PostgreSQL 13)
/// the time is `total_time` and the log is not counted, before 1.9 there is no `toplevel`.
const STATEMENTS: &str = "select s.userid || '/' || s.queryid || '/' || coalesce(to_jsonb(s) ->> 'toplevel', '') as key, \
    left(s.query, 100000) as query, coalesce(to_jsonb(s) ->> 'total_exec_time', to_jsonb(s) ->> 'total_time')::float8 as milliseconds, \
    coalesce((to_jsonb(s) ->> 'wal_bytes')::numeric, 0) as wal, s.shared_blks_dirtied as dirtied from SCHEMA.pg_stat_statements s \
    where s.dbid = (select oid from pg_database where datname = current_database()) and s.queryid is not null \
    and coalesce(to_jsonb(s) ->> 'toplevel', 'true') = 'true'";
const BUFFERS: &str = "select case when c.oid is null then 'of other databases, or of none' when n.nspname ~ '^pg_' then 'system catalogs' \
    else n.nspname || '.' || c.relname end as name, count(*) as buffers, \
    count(*) filter (where b.usagecount >= 3) as hot, count(*) filter (where b.usagecount >= 3 and b.isdirty) as dirty \
    from SCHEMA.pg_buffercache b left join pg_class c on pg_relation_filenode(c.oid) = b.relfilenode \
    and b.reldatabase in (0, (select oid from pg_database where datname = current_database())) \
    left join pg_namespace n on n.oid = c.relnamespace where b.relfilenode is not null group by 1 order by 3 desc";
const ROWS_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(oid: u32, name: &str, blocks: f64) -> TableCounters {
        TableCounters {
            oid,
            schema: "public".to_owned(),
            name: name.to_owned(),
            blocks,
            read: blocks * 2.0,
            written: 0.0,
        }
    }

    fn statement(key: &str, query: &str, milliseconds: f64) -> StatementCounters {
        StatementCounters {
            key: key.to_owned(),
            query: query.to_owned(),
            milliseconds,
            wal: 0.0,
            dirtied: milliseconds * 2.0,
        }
    }

    /// `pg_stat_statements` has renamed and added columns from version to version; those that all have are named, others are looked up by their names.
    #[test]
    fn columns_of_statements_that_versions_name_differently_are_looked_up() {
        for name in ["total_exec_time", "total_time", "wal_bytes", "toplevel"] {
            assert_eq!(
                STATEMENTS.matches(name).count(),
                STATEMENTS.matches(&format!("to_jsonb(s) ->> '{name}'")).count(),
                "{name}"
            );
        }
        // Renamed in 1.11 (PostgreSQL 17), and not asked for.
        assert!(!STATEMENTS.contains("blk_read_time") && !STATEMENTS.contains("blk_write_time"));
    }

    #[test]
    fn blocks_are_exact_and_time_is_divided_by_what_statements_name() {
        let before = Snapshot {
            tables: Ok(vec![table(1, "a", 1000.0), table(2, "b", 50.0)]),
            statements: Ok(vec![statement("1", "select * from a", 500.0)]),
            writes: Ok(WriteCounters::default()),
        };
        let after = Snapshot {
            tables: Ok(vec![table(1, "a", 1300.0), table(2, "b", 750.0), table(3, "idle", 0.0)]),
            statements: Ok(vec![
                statement("1", "select * from a", 530.0),
                statement("2", "update public.b set x = $1", 50.0),
                statement("3", "call mystery()", 15.0),
                statement("4", "select $1", 5.0),
            ]),
            writes: Ok(WriteCounters { log: 100.0, ..WriteCounters::default() }),
        };
        let shares = attribute(&before, &after, 5.0, Err("--hot-set".to_owned()));
        let writing = shares.writing.expect("counters");
        assert_eq!((writing.rate(writing.grown.log), writing.dirtied), (20.0, Ok(200.0)));
        let tables = shares.tables.expect("tables");
        let told: Vec<_> = tables.iter().map(|share| (&*share.table, share.blocks, share.time)).collect();
        assert_eq!(told, [("public.b", 0.7, Some(0.5)), ("public.a", 0.3, Some(0.3))]);
        let untold = shares.untold.expect("statements");
        assert_eq!((untold.unknown, untold.without, untold.milliseconds), (0.15, 0.05, 100.0));
    }

    #[test]
    fn a_statement_that_is_forgotten_takes_nothing_from_what_grew() {
        let reading = |statements: Vec<StatementCounters>| Snapshot {
            tables: Ok(Vec::new()),
            statements: Ok(statements),
            writes: Ok(WriteCounters::default()),
        };
        let before = reading(vec![statement("1", "a", 500_000_000.0), statement("2", "b", 100.0)]);
        let after = reading(vec![statement("1", "a", 500_000_020.0), statement("3", "c", 5.0)]);
        let shares = attribute(&before, &after, 1.0, Err(String::new()));
        assert_eq!(shares.writing.expect("counters").dirtied, Ok(50.0));
    }

    #[test]
    fn a_name_that_could_be_two_tables_is_unknown() {
        let mut other = table(2, "a", 5.0);
        other.schema = "tenant".to_owned();
        let after = Snapshot {
            tables: Ok(vec![table(1, "a", 5.0), other]),
            statements: Ok(vec![statement("1", "select * from a", 6.0), statement("2", "select * from tenant.a", 4.0)]),
            writes: Err("a right".to_owned()),
        };
        let before =
            Snapshot { tables: Ok(Vec::new()), statements: Ok(Vec::new()), writes: Ok(WriteCounters::default()) };
        let shares = attribute(&before, &after, 1.0, Err(String::new()));
        assert_eq!(shares.writing, Err("a right".to_owned()));
        assert_eq!(shares.untold.map(|untold| untold.unknown), Ok(0.6));
        let without =
            Snapshot { statements: Err("the extension pg_stat_statements in this database".to_owned()), ..after };
        let shares = attribute(&before, &without, 1.0, Err(String::new()));
        assert!(shares.untold.expect_err("no extension").contains("pg_stat_statements"));
        assert!(shares.tables.is_ok_and(|tables| tables.iter().all(|share| share.time.is_none())));
    }
}
