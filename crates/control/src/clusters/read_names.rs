//! Asks the primary of a cluster what the names of a database stand for: which functions only read, which relations do more than that.
//!
//! Always true: an answer that is longer than [`NAMES_BYTES_MAX`], or takes longer than [`NAMES_MAX`], is none.
//! Not here: what follows for a text (`route::reads`), when it is asked (`worker::reads`).

use std::sync::Arc;
use std::time::Duration;

use base::WorkerId;
use route::ReadNames;
use tokio::time::timeout;

use super::session::{Failed, Session};
use super::tasks::Means;

/// Who asks for the names of which database.
#[derive(Clone, Debug)]
pub(crate) struct ReadNamesAsked {
    pub(crate) from: WorkerId,
    /// As clients name it, and as its servers do.
    pub(crate) database: Arc<str>,
    pub(crate) dbname: Arc<str>,
    /// How often functions had been created there when it was asked.
    pub(crate) creations: u64,
}

/// The question for the names of a database.
#[derive(Debug)]
pub struct ReadNamesTask {
    pub(super) cluster: Arc<config::Cluster>,
    pub(super) member: usize,
    pub(crate) asked: ReadNamesAsked,
}

/// The answer.
#[derive(Debug)]
pub struct ReadNamesFound {
    pub(crate) asked: ReadNamesAsked,
    pub(crate) names: Result<ReadNames, String>,
}

impl ReadNamesTask {
    /// Asks.
    pub(crate) async fn carry_out(self, means: Means) -> ReadNamesFound {
        let Self { cluster, member, asked } = self;
        let names = match timeout(NAMES_MAX, ask(cluster, member, Arc::clone(&asked.dbname), means)).await {
            Ok(found) => found.map_err(|failed| failed.why),
            Err(_) => Err(format!("no answer within {} s", NAMES_MAX.as_secs())),
        };
        ReadNamesFound { asked, names }
    }
}

async fn ask(
    cluster: Arc<config::Cluster>,
    member: usize,
    dbname: Arc<str>,
    means: Means,
) -> Result<ReadNames, Failed> {
    let mut session = Session::open_in(cluster, member, &dbname, NAMES_BYTES_MAX, means).await?;
    let mut names = ReadNames::default();
    for row in session.rows(NAMES).await? {
        let (Some(kind), Some(name)) = (row.get(0), row.get(1)) else { continue };
        match kind {
            "p" => names.add_function(name, false, true),
            "P" => names.add_function(name, true, true),
            "f" => names.add_function(name, false, false),
            "F" => names.add_function(name, true, false),
            "o" => names.has_volatile_operators(),
            _ => names.keep(name),
        }
    }
    Ok(names)
}

/// The names of a database: functions of PostgreSQL (p) and others (f), in capitals if one of them is volatile or is an aggregate over a
/// volatile function; relations that a replica must not be asked for (r): sequences, unlogged,
/// temporary and foreign tables, and views and tables whose rules or policies call a volatile function or read such a relation; domains
/// with a constraint that does; and whether an operator or a cast calls one (o). Stored expressions name their functions by number.
const NAMES: &str = "\
SET LOCAL statement_timeout = '10s'; SET LOCAL search_path = pg_catalog; \
WITH RECURSIVE functions AS (\
SELECT p.oid, p.proname, p.pronamespace = 'pg_catalog'::regnamespace AS is_own, \
p.provolatile = 'v' OR EXISTS (SELECT FROM pg_aggregate a JOIN pg_proc q ON q.oid IN \
(a.aggtransfn, a.aggfinalfn, a.aggmtransfn, a.aggmfinalfn, a.aggminvtransfn) WHERE a.aggfnoid = p.oid AND q.provolatile = 'v') AS is_volatile \
FROM pg_proc p), \
writers AS (SELECT oid::text FROM functions WHERE is_volatile), \
expressions AS (\
SELECT ev_class AS relation, ev_action::text AS tree FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class \
WHERE c.relkind = 'v' AND c.relnamespace <> 'pg_catalog'::regnamespace \
UNION ALL SELECT polrelid, polqual::text FROM pg_policy), \
called AS (SELECT DISTINCT relation, m[1] AS function FROM expressions, \
regexp_matches(tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\\d+)', 'g') AS m), \
kept AS (SELECT oid FROM pg_class WHERE relkind IN ('S', 'f') OR relkind IN ('r', 'p', 'm') AND relpersistence <> 'p' \
UNION SELECT relation FROM called WHERE function IN (SELECT oid FROM writers) \
UNION SELECT r.ev_class FROM kept k JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = k.oid \
AND d.classid = 'pg_rewrite'::regclass JOIN pg_rewrite r ON r.oid = d.objid) \
SELECT CASE WHEN is_own THEN CASE WHEN bool_or(is_volatile) THEN 'P' ELSE 'p' END \
WHEN bool_or(is_volatile) THEN 'F' ELSE 'f' END, proname::text FROM functions GROUP BY is_own, proname \
UNION ALL SELECT 'r', relname::text FROM pg_class c JOIN kept k ON k.oid = c.oid \
UNION ALL SELECT 'r', typname::text FROM pg_type t JOIN pg_constraint n ON n.contypid = t.oid, \
LATERAL regexp_matches(n.conbin::text, ':(?:funcid|opfuncid) (\\d+)', 'g') AS m WHERE m[1] IN (SELECT oid FROM writers) \
UNION ALL (SELECT 'o', '' FROM pg_operator o JOIN functions f ON f.oid = o.oprcode WHERE f.is_volatile LIMIT 1) \
UNION ALL (SELECT 'o', '' FROM pg_cast c JOIN functions f ON f.oid = c.castfunc WHERE f.is_volatile LIMIT 1)";

/// What PostgreSQL itself brings takes a hundred kilobytes.
const NAMES_BYTES_MAX: usize = 16 << 20;
const NAMES_MAX: Duration = Duration::from_secs(15);
