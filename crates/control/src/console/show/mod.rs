//! The catalog of the subjects of SHOW.
//!
//! To add a subject, add a file with a [`Subject`], name it in [`CATALOG`] and say in `meanings` what each column means; the
//! help and the reference page pick it up.
//!
//! Always true: a table is made from a [`View`] and nothing else; columns have PgBouncer's names, types and order, and
//! our own follow them, which are shown only to those who ask for them (`EXTENDED`).
//! Not here: collecting the snapshots (`control`).

mod applications;
mod churn;
mod clusters;
mod databases;
mod events;
mod fds;
mod histograms;
mod hosts;
mod lists;
pub(crate) mod meanings;
mod memory;
mod peers;
mod pins;
mod pools;
mod rates;
mod settings;
mod sockets;
mod state;
mod statements;
mod stats;
mod users;
mod view;
mod waits;

pub(crate) use clusters::state_of;
pub(crate) use events::event_table;
pub(crate) use hosts::hosts_with_state;
pub(crate) use view::{Breadth, FOR_ADMINS, MEASURES_PART, NOTHING, Showing, Subject, View};

/// All subjects, in the order of the help.
pub(crate) const CATALOG: &[&Subject] = &[
    &settings::CONFIG,
    &databases::DATABASES,
    &pools::POOLS,
    &sockets::CLIENTS,
    &sockets::SERVERS,
    &sockets::SOCKETS,
    &sockets::ACTIVE_SOCKETS,
    &fds::FDS,
    &users::USERS,
    &settings::VERSION,
    &lists::LISTS,
    &memory::MEM,
    &state::STATE,
    &peers::PEERS,
    &peers::PEER_POOLS,
    &pins::PINS,
    &pins::PIN_TOTALS,
    &pins::CHANNELS,
    &pins::LOCKS,
    &clusters::CLUSTERS,
    &hosts::HOSTS,
    &hosts::DNS_HOSTS,
    &hosts::DNS_ZONES,
    &waits::WAITS,
    &applications::APPLICATIONS,
    &statements::STATEMENTS,
    &churn::CHURN,
    &histograms::HISTOGRAMS,
    &rates::RATE_LIMITS,
    &events::EVENTS,
    &stats::STATS,
    &stats::STATS_TOTALS,
    &stats::STATS_AVERAGES,
    &stats::TOTALS,
];

/// Returns the subject of this name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Subject> {
    CATALOG.iter().find(|subject| subject.name.eq_ignore_ascii_case(name)).copied()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use auth::UserFile;
    use base::{Time, Wall};
    use config::{Database, Overrides, Settings};
    use pool::Mode;
    use worker::letters::{DatabaseRow, PoolRow, RateLimits, Row, Snapshot, Standing, UserRow};

    use super::view::moment;
    use crate::clusters::Clusters;
    use crate::console::table::{Cell, Column, Table};
    use crate::events::{EventKind, EventRecord, Events};
    use crate::hashings::Hashings;
    use crate::history::History;
    use crate::sweeper::Sweeper;
    use crate::timed_pauses::TimedPauses;
    use crate::zones::Zones;

    /// Settings from the text of a file.
    pub(crate) fn settings(text: &str) -> Settings {
        let read = |_: &str| Ok(text.as_bytes().to_vec());
        config::load("test.ini", &read, &Overrides::default()).expect("good settings").settings
    }

    /// Returns a database of these settings.
    pub(crate) fn database(settings: &Settings, name: &str) -> Arc<Database> {
        settings.database(name).expect("a database of this name")
    }

    pub(crate) fn pool_row(database: &str, user: &str) -> PoolRow {
        let measures = Some(Box::default());
        PoolRow { measures, ..PoolRow::empty(database.into(), user.into(), Mode::Transaction) }
    }

    pub(crate) fn database_row(entry: &Arc<Database>, servers: u32, clients: u32) -> DatabaseRow {
        DatabaseRow { name: Arc::clone(&entry.name), entry: Arc::clone(entry), servers, clients, functions: "known" }
    }

    pub(crate) fn user_row(name: &str, servers: u32, clients: u32) -> UserRow {
        UserRow { name: name.into(), servers, clients }
    }

    pub(crate) fn row(id: u64) -> Row {
        Row {
            user: "u".into(),
            database: "d".into(),
            state: "idle",
            state_detail: "",
            addr: "10.0.0.7".to_owned(),
            port: 5000,
            local_addr: "10.0.0.1".to_owned(),
            local_port: 6432,
            connect_time: Wall(0),
            request_time: Wall(1_000_000),
            wait: Duration::ZERO,
            close_needed: false,
            replication: "none",
            id,
            link: None,
            remote_pid: 0,
            tls: "".into(),
            application_name: "".into(),
            held: 0,
            unsent: 0,
            prepared_statements: 0,
            memory: 0,
            at_rest_since: None,
        }
    }

    pub(crate) fn pin(kind: protocol::state::Kind, what: &str) -> worker::letters::PinRow {
        let mode = (kind == protocol::state::Kind::Lock).then(|| "ExclusiveLock".into());
        let hold = protocol::state::Hold { mode, ..protocol::state::Hold::new(kind, what) };
        worker::letters::PinRow {
            database: "d".into(),
            user: "u".into(),
            application_name: "app".into(),
            addr: "10.0.0.7".to_owned(),
            port: 5000,
            client: 18,
            server: 19,
            remote_pid: 77,
            pin: protocol::state::Pin { hold, since: Time(0), statement: "SELECT f(?)".into() },
            age: Duration::from_secs(90),
            since: Wall(0),
        }
    }

    /// Returns the table of a subject made from these snapshots.
    pub(crate) fn table_of(name: &str, settings: &Settings, users: &str, snapshots: &[Snapshot]) -> Table {
        table_under(&Standing::default(), name, settings, users, snapshots)
    }

    /// Does the same with standing orders.
    pub(crate) fn table_under(
        standing: &Standing,
        name: &str,
        settings: &Settings,
        users: &str,
        snapshots: &[Snapshot],
    ) -> Table {
        let subject = find(name).expect("a subject");
        seen(standing, settings, users, snapshots, |view| subject.table(view))
    }

    /// Calls `look` with a view of these snapshots.
    pub(crate) fn with_view<T>(settings: &Settings, snapshots: &[Snapshot], look: impl FnOnce(&View<'_>) -> T) -> T {
        seen(&Standing::default(), settings, "", snapshots, look)
    }

    fn seen<T>(
        standing: &Standing,
        settings: &Settings,
        users: &str,
        snapshots: &[Snapshot],
        look: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        let (users, _) = UserFile::parse(users.as_bytes());
        let history = History::new(Time::from_secs(1));
        let mut clusters = Clusters::default();
        clusters.heed(Time::from_secs(1), settings);
        let mut zones = Zones::default();
        ["db.z.example", "b.z.example"].iter().for_each(|name| zones.know(base::WorkerId(0), &Arc::from(*name)));
        let now = Time::from_secs(11);
        let mut events = Events::default();
        events.add(EventRecord::new(Wall(0), EventKind::Start, "a process"));
        look(&View {
            settings,
            users: &users,
            standing,
            timed_pauses: &TimedPauses::default(),
            clusters: &clusters,
            rotations: &crate::replica_rotation::Rotations::default(),
            is_suspended: false,
            shutdown: None,
            snapshots,
            history: &history,
            zones: &zones,
            sweeper: &Sweeper::default(),
            hashings: &Hashings::default(),
            events: &events,
            spans: crate::otlp::Counts::default(),
            log_lines_lost: 0,
            rates: RateLimits::new(settings, [0; 32]).snapshot(now, Wall(0)),
            now,
            wall: Wall(0),
        })
    }

    /// Formats the rows: cells separated by bars, NULL written as such.
    pub(crate) fn lines(table: &Table) -> Vec<String> {
        let cell = |cell: &Cell| cell.clone().unwrap_or_else(|| "NULL".to_owned());
        table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
    }

    /// Formats the columns as in PgBouncer's source: each name with a letter for its type.
    pub(crate) fn heads(name: &str) -> String {
        let columns = find(name).expect("a subject").columns.iter();
        let letter = |column: &Column| match column.kind {
            super::super::table::ColumnKind::Text => 's',
            super::super::table::ColumnKind::Int => 'i',
            super::super::table::ColumnKind::Big => 'q',
            super::super::table::ColumnKind::Numeric => 'N',
            super::super::table::ColumnKind::Bytes => 'b',
        };
        columns.map(|column| format!("{} {}", column.name, letter(column))).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn every_row_of_every_subject_has_its_columns() {
        let settings = settings(
            "[databases]\nd = host=a,b\n[clusters]\nmain = hosts=a user=u\n[peers]\n1 = host=a\n[rate_limits]\nr = events=logins rate=1\n[pgbouncer]\nauth_type=any\n",
        );
        let entry = database(&settings, "d");
        let mut measured = pool_row("d", "u");
        if let Some(measures) = &mut measured.measures {
            measures.lives.opens(measure::Opened::Client);
            measures.histograms = Some(Box::default());
        }
        let snapshot = Snapshot {
            clients: vec![Row { held: 1, ..row(1) }],
            servers: vec![row(2)],
            hosts: vec![worker::letters::HostRow { name: "a".into(), ttl: Duration::ZERO, addresses: Vec::new() }],
            pools: vec![measured],
            databases: vec![database_row(&entry, 1, 1)],
            users: vec![user_row("u", 1, 1)],
            stats: vec![("d".into(), worker::letters::Totals::default())],
            peers: vec![worker::letters::PeerRow { peer: 1, active: 0, waiting: 0, dialing: 0 }],
            pins: vec![pin(protocol::state::Kind::Lock, "42")],
            channels: vec![worker::letters::ChannelRow {
                database: "d".into(),
                channel: "news".into(),
                clients: 1,
                is_heard: true,
            }],
            pin_totals: vec![worker::letters::PinTotal {
                database: "d".into(),
                kind: protocol::state::Kind::Lock,
                total: 1,
            }],
            statements: vec![worker::letters::StatementsOf {
                database: "d".into(),
                rows: Vec::new(),
                folded: measure::StatementSums::default(),
            }],
            tables: vec![worker::letters::TableRow { name: "client_cache", size: 8, used: 1, free: 1 }],
            ..Snapshot::default()
        };
        for subject in CATALOG {
            let table = table_of(subject.name, &settings, "", std::slice::from_ref(&snapshot));
            assert!(!table.rows.is_empty(), "{}", subject.name);
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", subject.name);
            }
            assert!(find(&subject.name.to_lowercase()).is_some());
        }
    }

    #[test]
    fn a_moment_is_told_to_the_second_with_its_zone() {
        let text = moment(Wall(86_400_000_000 * 365)).expect("text");
        let parts: Vec<_> = text.split(' ').collect();
        assert_eq!((parts.len(), parts[0].len(), parts[1].len()), (3, 10, 8), "{text}");
    }
}
