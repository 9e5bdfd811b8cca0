//! Reads a spec from its tree.
//!
//! Always true: reading goes on after a mistake, so that all are told at once; a spec with a mistake is never returned.
//! Not here: the language (`tree`), single values (`section`, `arrivals`).

use super::arrivals::{arrivals, law};
use super::pooler::Pooler;
use super::section::{Mistakes, Section};
use super::tree::{SpecTree, Value};
use super::{
    Application, Arrivals, ClientSide, Database, Group, Happening, KneeRule, Law, Mistake, PlannedEvent, Roles,
    ServerSide, Spec, Transaction,
};
use crate::theory::lru::zipf_rates;

impl Spec {
    /// Reads a spec. `read_file` reads a recording of arrivals.
    ///
    /// # Errors
    /// All mistakes.
    pub(crate) fn read(
        tree: &SpecTree,
        read_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, Vec<Mistake>> {
        let mistakes = Mistakes::default();
        let spec = read(&Section::new(String::new(), 1, &tree.root, &mistakes), read_file);
        Section::new(String::new(), 1, &tree.root, &mistakes).expect_only(&TOP);
        check(&spec, &mistakes);
        let list = mistakes.into_list();
        if list.is_empty() { Ok(spec) } else { Err(list) }
    }
}

fn read(top: &Section<'_>, read_file: &dyn Fn(&str) -> Result<String, String>) -> Spec {
    let pooler = top.section("pooler").map_or_else(Pooler::default, Pooler::read);
    let mut databases = Vec::new();
    for section in top.sections("databases") {
        let room =
            GROUPS_MAX.saturating_sub(databases.iter().map(|database: &Database| database.groups.len().max(1)).sum());
        databases.extend(database(section, &pooler, room, read_file));
    }
    let duration = top.time("duration", 60_000_000);
    let mut events: Vec<PlannedEvent> =
        top.sections("events").into_iter().filter_map(|section| event(section, &databases)).collect();
    events.sort_by_key(|event| event.at);
    Spec {
        title: top.text("title", "a simulation"),
        seed: top.number("seed", 1.0, 0.0, 9e15) as u64,
        duration,
        warm_up: top.time("warm_up", duration / 10),
        replications: top.count("replications", 1, 1, 1000),
        server: server(top.section("server")),
        client: client(top.section("client")),
        databases,
        events,
        knee: knee(top.section("knee")),
        sweep: top.has("sweep").then(|| top.text("sweep", "")),
    }
}

fn server(section: Option<Section<'_>>) -> ServerSide {
    let mut server = ServerSide {
        login: Law::Constant(0.005),
        login_cpu: 0.005,
        round_trip: 200,
        reset: Law::ZERO,
        connections_max: 0,
        cpu_share: 1.0,
        cores: None,
        contention: None,
    };
    let Some(section) = section else { return server };
    server.login = law(&section, "login", server.login);
    server.login_cpu = section.time("login_cpu", (server.login.mean() * 1e6) as u64) as f64 / 1e6;
    server.round_trip = section.time("round_trip", server.round_trip);
    server.reset = law(&section, "reset", Law::ZERO);
    server.connections_max = section.count("max_connections", 0, 0, 1_000_000);
    server.cpu_share = section.number("cpu_share", 1.0, 0.0, 1.0);
    let cores = section.count("cores", 0, 0, 100_000);
    server.cores = Some(cores).filter(|cores| *cores > 0);
    if let Some(contention) = section.section("contention") {
        server.contention = Some((contention.number("alpha", 0.0, 0.0, 1.0), contention.number("beta", 0.0, 0.0, 1.0)));
        contention.end();
    }
    section.end();
    server
}

fn client(section: Option<Section<'_>>) -> ClientSide {
    let Some(section) = section else { return ClientSide { login: Law::ZERO, round_trip: 0 } };
    let client = ClientSide { login: law(&section, "login", Law::ZERO), round_trip: section.time("round_trip", 0) };
    section.end();
    client
}

fn knee(section: Option<Section<'_>>) -> KneeRule {
    let mut knee = KneeRule { churn_max: 1.0, cpu_within: 0.05, p99_max: None };
    let Some(section) = section else { return knee };
    knee.churn_max = section.number("churn_max", knee.churn_max, 0.0, 1e9);
    knee.cpu_within = section.number("cpu_within", knee.cpu_within, 0.0, 1e3);
    knee.p99_max = section.limit("p99_max", 0);
    section.end();
    knee
}

/// A database as often as it says.
fn database(
    section: Section<'_>,
    pooler: &Pooler,
    room: usize,
    read_file: &dyn Fn(&str) -> Result<String, String>,
) -> Vec<Database> {
    let count = section.count("count", 1, 1, DATABASES_MAX);
    let name = section.text("name", "db");
    let mut pooler = pooler.with(&section);
    pooler.limits.servers_max = section.count("pool_size", pooler.limits.servers_max, 0, 100_000);
    let groups: Vec<Group> =
        section.sections("tenants").into_iter().filter_map(|section| group(section, read_file)).collect();
    if groups.is_empty() && !section.has("tenants") {
        section.wrong("tenants", "at least one [[databases.tenants]] is wanted");
    }
    if count as usize * groups.len().max(1) > room {
        section
            .wrong("count", &format!("at most {GROUPS_MAX} kinds of tenants are simulated, counted in each database"));
        return Vec::new();
    }
    section.end();
    let named = |number: u32| if count == 1 { name.clone() } else { format!("{name}-{number}") };
    (1..=count).map(|number| Database { name: named(number), pooler: pooler.clone(), groups: groups.clone() }).collect()
}

fn group(section: Section<'_>, read_file: &dyn Fn(&str) -> Result<String, String>) -> Option<Group> {
    let tenants = section.count("count", 1, 0, TENANTS_MAX);
    let popularity = popularity(&section, tenants);
    let roles = section.word("roles", &[("each", Roles::Each), ("shared", Roles::Shared)], Roles::Each);
    let name = section.text("name", "tenant");
    let application = application(section.section("application"));
    let transactions: Vec<Transaction> = section.sections("transactions").into_iter().map(transaction).collect();
    if transactions.is_empty() {
        section.wrong("transactions", "at least one [[databases.tenants.transactions]] is wanted");
    } else if transactions.iter().all(|transaction| transaction.weight <= 0.0) {
        section.wrong("transactions", "one of them needs a weight above 0");
    }
    if !section.has("arrivals") {
        section.wrong("arrivals", "a table is wanted, such as { poisson = 100 }");
    }
    let arrivals = arrivals(section.section("arrivals"), tenants, read_file);
    section.end();
    Some(Group { name, tenants, popularity, roles, application, arrivals: arrivals?, transactions })
}

/// How often each tenant is asked.
fn popularity(section: &Section<'_>, tenants: u32) -> Vec<f64> {
    let uniform = || zipf_rates(tenants, 0.0, 1.0);
    match section.node("popularity").map(|node| &node.value) {
        None => uniform(),
        Some(Value::Text(word)) if word == "uniform" => uniform(),
        Some(Value::Table(_)) => {
            let Some(table) = section.section("popularity") else { return uniform() };
            let exponent = table.number("zipf", 0.0, 0.0, 10.0);
            table.end();
            zipf_rates(tenants, exponent, 1.0)
        }
        Some(Value::List(_)) => {
            let weights = section.numbers("popularity").unwrap_or_default();
            let all: f64 = weights.iter().sum();
            if weights.len() != tenants as usize || all <= 0.0 {
                section.wrong("popularity", &format!("{tenants} weights are wanted, one for each tenant"));
                return uniform();
            }
            weights.iter().map(|weight| weight / all).collect()
        }
        Some(_) => {
            section.wrong("popularity", "\"uniform\", { zipf = NUMBER } or a list of weights is wanted");
            uniform()
        }
    }
}

fn application(section: Option<Section<'_>>) -> Application {
    let mut application = Application { processes: 1, client_pool: 0, transactions_max: 0, idle_max: None };
    let Some(section) = section else { return application };
    application.processes = section.count("processes", 1, 1, 100_000);
    application.client_pool = section.count("client_pool", 0, 0, 1_000_000);
    application.transactions_max = section.count("reconnect_after", 0, 0, u32::MAX);
    application.idle_max = section.limit("client_idle", 0);
    section.end();
    application
}

fn transaction(section: Section<'_>) -> Transaction {
    let transaction = Transaction {
        name: section.text("name", "transaction"),
        weight: section.number("weight", 1.0, 0.0, 1e9),
        statements: section.count("statements", 1, 1, 100_000),
        service: law(&section, "service", Law::Constant(0.001)),
        think: law(&section, "think", Law::ZERO),
    };
    section.end();
    transaction
}

fn event(section: Section<'_>, databases: &[Database]) -> Option<PlannedEvent> {
    let kinds = [("deploy", 0), ("storm", 1), ("restart", 2), ("rate", 3), ("long", 4), ("reload", 5)];
    if !section.has("kind") {
        section.wrong("kind", "one of deploy, storm, restart, rate, long, reload is wanted");
    }
    let kind = section.word("kind", &kinds, 0);
    let at = section.time("at", 0);
    let tenants = section.has("tenants").then(|| section.text("tenants", ""));
    let is_known =
        |name: &String| databases.iter().flat_map(|database| &database.groups).any(|group| group.name == *name);
    if let Some(name) = tenants.as_ref().filter(|name| !is_known(name)) {
        let names = databases.iter().flat_map(|database| &database.groups).map(|group| group.name.as_str());
        let near = config::nearest(name, names).map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        section.wrong("tenants", &format!("there are no tenants \"{name}\"{near}"));
    }
    let clients = |default| section.count("clients", default, 1, 1_000_000);
    let what = match kind {
        0 => Happening::Deploy { overlap: section.time("overlap", 30_000_000) },
        1 => Happening::Storm { clients: clients(100), within: section.time("within", 1_000_000) },
        2 => Happening::Restart { down: section.time("down", 5_000_000) },
        3 => Happening::Rate {
            factor: section.number("factor", 2.0, 0.0, 1000.0),
            lasting: section.time("lasting", u64::MAX / 4),
        },
        4 => Happening::Long { clients: clients(1), lasts: section.time("lasts", 60_000_000) },
        _ => {
            let poolers = databases.iter().map(|database| database.pooler.with(&section)).collect();
            Happening::Reload { poolers }
        }
    };
    section.end();
    Some(PlannedEvent { at, tenants, what })
}

/// What no single value shows.
fn check(spec: &Spec, mistakes: &Mistakes) {
    if spec.databases.is_empty() {
        mistakes.add(0, "databases: at least one [[databases]] is wanted".to_owned());
    }
    if spec.duration == 0 || spec.warm_up >= spec.duration {
        mistakes.add(0, "warm_up: it has to be shorter than duration".to_owned());
    }
    let tenants: u64 =
        spec.databases.iter().flat_map(|database| &database.groups).map(|group| u64::from(group.tenants)).sum();
    if tenants > u64::from(TENANTS_MAX) {
        mistakes.add(0, format!("there are {tenants} tenants; at most {TENANTS_MAX} are simulated"));
    }
    let groups = || spec.databases.iter().flat_map(|database| &database.groups);
    let processes: u64 = groups().map(|group| u64::from(group.tenants) * u64::from(group.application.processes)).sum();
    let deploys = spec.events.iter().filter(|event| matches!(event.what, Happening::Deploy { .. })).count() as u64;
    if processes * (deploys + 1) > PROCESSES_MAX {
        mistakes.add(0, format!("more than {PROCESSES_MAX} processes, with those of deployments"));
    }
    let clients = |event: &PlannedEvent| match event.what {
        Happening::Storm { clients, .. } => u64::from(clients) + tenants,
        Happening::Long { clients, .. } => u64::from(clients) * tenants,
        _ => 0,
    };
    if spec.events.iter().map(clients).sum::<u64>() > PROCESSES_MAX {
        mistakes.add(0, format!("events: more than {PROCESSES_MAX} clients of storms and long transactions"));
    }
    let users: u64 =
        groups().map(|group| if let Arrivals::Closed { users, .. } = group.arrivals { users.into() } else { 0 }).sum();
    if users > PROCESSES_MAX {
        mistakes.add(0, format!("arrivals: more than {PROCESSES_MAX} users"));
    }
    let seconds = spec.duration as f64 / 1e6;
    let groups = groups();
    let transactions: f64 = groups.map(|group| expected(group) * seconds * (1.0 + statements(group) / 20.0)).sum();
    if transactions > TRANSACTIONS_MAX {
        let millions = transactions / 1e6;
        mistakes.add(
            0,
            format!(
                "about {millions:.0} million transactions; at most {:.0} million are simulated",
                TRANSACTIONS_MAX / 1e6
            ),
        );
    }
}

/// About how many transactions a group begins in a second.
fn expected(group: &Group) -> f64 {
    match &group.arrivals {
        Arrivals::Poisson { rate } | Arrivals::Constant { rate } => *rate,
        Arrivals::Modulated { states } => {
            let stays: f64 = states.iter().map(|(_, stay)| stay).sum();
            states.iter().map(|(rate, stay)| rate * stay).sum::<f64>() / stays.max(1e-9)
        }
        Arrivals::Recorded(_) => 0.0,
        Arrivals::Closed { users, think } => {
            let quickest =
                group.transactions.iter().map(|t| t.service.mean() * f64::from(t.statements)).fold(1.0, f64::min);
            f64::from(*users) / (think.mean() + quickest).max(1e-5)
        }
    }
}

/// The mean number of statements of a transaction.
fn statements(group: &Group) -> f64 {
    let all: f64 = group.transactions.iter().map(|transaction| transaction.weight).sum();
    let sum: f64 = group.transactions.iter().map(|t| t.weight * f64::from(t.statements)).sum();
    if all > 0.0 { sum / all } else { 0.0 }
}

/// The keys of a spec outside of its tables.
pub(super) const TOP: [&str; 12] = [
    "title",
    "seed",
    "duration",
    "warm_up",
    "replications",
    "pooler",
    "server",
    "client",
    "databases",
    "events",
    "knee",
    "sweep",
];
const DATABASES_MAX: u32 = 10_000;
/// Kinds of tenants, counted in each database.
const GROUPS_MAX: usize = 10_000;
const PROCESSES_MAX: u64 = 1_000_000;
const TENANTS_MAX: u32 = 100_000;
/// What a patient person waits for: some minutes.
const TRANSACTIONS_MAX: f64 = 5e8;
