//! Runs against what theory says, and books that balance whatever happens.

use super::traffic::weights;
use super::{Outcome, run};
use crate::load::{Dice, Law};
use crate::simulate::spec::{Spec, SpecTree};
use crate::theory::heavy_traffic::ClosedLoop;
use crate::theory::lru;
use crate::theory::mmc::Mmc;
use crate::theory::replay::{Arrival, waits};

fn spec(text: &str) -> Spec {
    let tree = SpecTree::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    Spec::read(&tree, &|_| Err("no files here".to_owned())).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

fn run_all(spec: &Spec, seed: u64) -> Outcome {
    let outcome = run(spec, seed, &mut |_| true);
    for balance in &outcome.balances {
        assert!(balance.holds(), "{balance:?}; {:?}", outcome.broken);
    }
    outcome
}

/// One pool of this many servers, Poisson arrivals, exponential service of 20 ms.
fn queue(servers: u32, utilisation: f64, seconds: u32) -> Spec {
    let rate = utilisation * f64::from(servers) / 0.02;
    spec(&format!(
        "duration = {seconds}\nwarm_up = 10\n\
         [pooler]\ndefault_pool_size = {servers}\nquery_wait_timeout = 0\nserver_lifetime = 31536000\n\
         [server]\nround_trip = 0\n\
         [[databases]]\n[[databases.tenants]]\narrivals = {{ poisson = {rate} }}\n\
         [[databases.tenants.transactions]]\nservice = {{ exponential = \"20 ms\" }}\n"
    ))
}

#[test]
fn waits_are_those_of_theory() {
    for (servers, utilisation) in [(1, 0.5), (2, 0.8), (4, 0.5), (4, 0.8), (8, 0.8)] {
        let seconds = 30_000 / servers;
        let outcome = run_all(&queue(servers, utilisation, seconds), 5);
        let theory = Mmc { servers, rate: utilisation * f64::from(servers) / 0.02, service: 0.02 };
        let mean = outcome.wait_mean.expect("a long run has an interval");
        let slack = 0.5 * (mean.high - mean.low);
        assert!(
            (mean.low - slack..=mean.high + slack).contains(&theory.wait_mean()),
            "{theory:?}: {mean:?} and {}",
            theory.wait_mean()
        );
        assert!((mean.high - mean.low) < 0.12 * mean.value, "{mean:?}");
        let p99 = outcome.response(99.0) / theory.response_quantile(0.99);
        assert!((0.96..1.04).contains(&p99), "{theory:?}: {p99}");
        assert!((outcome.mean.lent / f64::from(servers) / utilisation - 1.0).abs() < 0.02, "{:?}", outcome.mean);
    }
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let spec = queue(3, 0.7, 300);
    let [a, b, c] = [7, 7, 8].map(|seed| run_all(&spec, seed));
    assert_eq!((a.counts, a.servers, a.wait(99.9)), (b.counts, b.servers, b.wait(99.9)));
    assert_ne!(a.counts, c.counts);
}

/// Tenants with one client each under a cap, so rarely asked that no two of them meet.
fn tenants(tenants: u32, zipf: f64, cap: u32) -> Spec {
    spec(&format!(
        "duration = \"600000 s\"\nwarm_up = \"20000 s\"\n\
         [pooler]\ndefault_pool_size = 1\nmax_db_connections = {cap}\nserver_idle_timeout = 0\n\
         server_lifetime = 31536000\nquery_wait_timeout = 0\n\
         [server]\nlogin = \"1 us\"\nround_trip = 0\n\
         [[databases]]\n[[databases.tenants]]\ncount = {tenants}\npopularity = {{ zipf = {zipf} }}\n\
         arrivals = {{ poisson = 0.2 }}\napplication = {{ client_pool = 1 }}\n\
         [[databases.tenants.transactions]]\nservice = \"10 us\"\n"
    ))
}

#[test]
fn tenants_under_a_cap_are_a_cache_of_least_recent_use() {
    let table = [
        (20, 0.0, [0.748, 0.498, 0.253, 0.097]),
        (20, 1.0, [0.520, 0.271, 0.109, 0.037]),
        (50, 1.0, [0.441, 0.218, 0.093, 0.031]),
    ];
    for (count, zipf, expected) in table {
        for (share, miss) in [0.25, 0.5, 0.75, 0.9].into_iter().zip(expected) {
            let cap = (share * f64::from(count)) as u32;
            let outcome = run_all(&tenants(count, zipf, cap), 3);
            let got = outcome.servers.opened as f64 / outcome.counts.done as f64;
            assert!((got - miss).abs() < 0.012, "{count} tenants, Zipf {zipf}, {cap} servers: {got} and {miss}");
        }
    }
}

#[test]
fn an_idle_timeout_makes_it_a_cache_by_time() {
    let mut spec = tenants(20, 1.0, 20);
    spec.databases[0].pooler.limits.idle_max = Some(std::time::Duration::from_secs(100));
    let outcome = run_all(&spec, 4);
    let expected = lru::miss_ratio_of_timeout(&lru::zipf_rates(20, 1.0, 0.2), 100.0);
    let got = outcome.servers.opened as f64 / outcome.counts.done as f64;
    assert!((got - expected).abs() < 0.01, "{got} and {expected}");
}

#[test]
fn no_tenant_and_one_tenant_are_fine() {
    let outcome = run_all(&tenants(0, 0.0, 1), 1);
    assert_eq!((outcome.counts.arrived, outcome.servers.opened, outcome.tenants), (0, 0, 0));
    let outcome = run_all(&tenants(1, 0.0, 1), 1);
    assert_eq!((outcome.counts.refusals(), outcome.servers.opened, outcome.churn()), (0, 0, 0.0));
}

/// A spec in which everything happens: two databases, five groups, every kind of arrival and event.
const BUSY: &str = r#"
duration = 60
warm_up = 5
[pooler]
default_pool_size = 4
min_pool_size = 1
reserve_pool_size = 2
reserve_pool_timeout = "50 ms"
max_db_connections = 9
max_user_connections = 3
max_client_conn = 150
query_wait_timeout = 2
server_idle_timeout = 3
server_lifetime = 11
server_check_delay = 1
[server]
login = { lognormal = "40 ms", scv = 1 }
max_connections = 15
reset = "1 ms"
[client]
login = "2 ms"
round_trip = "300 us"
[[databases]]
name = "a"
[[databases.tenants]]
name = "poisson"
count = 5
popularity = { zipf = 1 }
arrivals = { poisson = 150 }
application = { processes = 2, client_pool = 6, client_idle = 2 }
[[databases.tenants.transactions]]
statements = 2
service = { exponential = "8 ms" }
think = "1 ms"
[[databases.tenants]]
name = "bursts"
count = 2
arrivals = { bursts = 60, on = 1, off = 4 }
application = { reconnect_after = 3 }
[[databases.tenants.transactions]]
service = { quantiles = { min = "1 ms", p50 = "3 ms", max = "90 ms" } }
[[databases.tenants]]
name = "shared"
count = 3
roles = "shared"
arrivals = { mmpp = [5, 100, 20], stays = [2, 1, 3] }
[[databases.tenants.transactions]]
service = { two_point = ["2 ms", "80 ms"], second = 0.1 }
[[databases]]
name = "b"
pool_mode = "session"
[[databases.tenants]]
name = "users"
arrivals = { users = 12, think = { exponential = "50 ms" } }
application = { client_pool = 5, reconnect_after = 7 }
[[databases.tenants.transactions]]
statements = 3
service = "2 ms"
[[databases.tenants]]
name = "recorded"
arrivals = { recorded = [1, 2, "2 s", 9, 40, 70] }
[[databases.tenants.transactions]]
[[events]]
kind = "storm"
at = 8
clients = 200
within = 1
[[events]]
kind = "deploy"
at = 15
overlap = 3
[[events]]
kind = "restart"
at = 25
down = 2
[[events]]
kind = "rate"
at = 30
factor = 3
lasting = 5
tenants = "poisson"
[[events]]
kind = "long"
at = 35
lasts = 4
clients = 2
tenants = "shared"
[[events]]
kind = "reload"
at = 45
max_db_connections = 6
max_user_connections = 2
default_pool_size = 2
"#;

#[test]
fn books_balance_whatever_happens() {
    for seed in 0..2 {
        for change in ["", "cores = 2", "contention = { alpha = 0.05, beta = 0.001 }"] {
            for behaviour in ["trunkline", "pgbouncer", "pgbouncer-1.17"] {
                let text = BUSY
                    .replace("[server]", &format!("[server]\n{change}"))
                    .replace("[pooler]", &format!("[pooler]\nbehaviour = \"{behaviour}\""));
                let outcome = run_all(&spec(&text), seed);
                assert!(outcome.counts.done > 5_000 && outcome.counts.failed > 0 && outcome.counts.refusals() > 0);
                assert!(outcome.servers.closings() > 50, "{:?}", outcome.servers);
            }
        }
    }
}

#[test]
fn a_run_that_is_ended_early_has_books_that_balance_too() {
    let (spec, mut looks) = (queue(4, 0.9, 3000), 0);
    let outcome = run(&spec, 1, &mut |_| {
        looks += 1;
        looks < 5
    });
    assert!(!outcome.is_complete && outcome.balances() && outcome.seconds < 2990.0, "{:?}", outcome.balances);
}

#[test]
fn a_closed_loop_keeps_to_the_machine_repair_model() {
    let text = "duration = 3000\nwarm_up = 50\n[pooler]\ndefault_pool_size = 4\n[server]\nround_trip = 0\n\
         [[databases]]\n[[databases.tenants]]\narrivals = { users = USERS, think = { exponential = \"180 ms\" } }\n\
         [[databases.tenants.transactions]]\nservice = { exponential = \"20 ms\" }\n";
    let theory = ClosedLoop { servers: 4, service: 0.02, think: 0.18 };
    for users in [5, 40, 80] {
        let outcome = run_all(&spec(&text.replace("USERS", &users.to_string())), 9);
        let ratio = outcome.throughput() / theory.rate(users);
        assert!((0.985..1.015).contains(&ratio), "{users} users: {ratio}");
        assert!(outcome.throughput() <= theory.rate_max(users) * 1.01);
    }
}

#[test]
fn the_waits_are_those_of_the_replay_of_its_arrivals() {
    let outcome = run_all(&queue(3, 0.85, 2000), 11);
    // The same arrivals and service times, drawn by the same dice in the order of a queue that is served as it came.
    let (mut arrivals, mut service) = (Dice::new(11, 1), Dice::new(11, 2));
    let (rate, mut at, mut list) = (0.85 * 3.0 / 0.02, 0_u64, Vec::new());
    let law = Law::Exponential { mean: 0.02 };
    let gap = |dice: &mut Dice| (dice.exponential() / rate * 1e6 + 0.5) as u64;
    at += gap(&mut arrivals);
    while at <= 2_000_000_000 {
        // Each arrival draws its tenant before the next one draws its gap, and each transaction its kind before its service.
        arrivals.place(&weights(&[1.0]));
        service.place(&weights(&[1.0]));
        list.push(Arrival { at, service: law.draw(&mut service) });
        at += gap(&mut arrivals);
    }
    let waits = waits(&list, 3);
    let counted = waits.iter().zip(&list).filter(|(_, arrival)| arrival.at >= 10_000_000);
    let (sum, count) = counted.fold((0, 0), |(sum, count), (wait, _)| (sum + wait, count + 1));
    // The first servers have to log in, and the last transactions may wait when the run ends.
    let got = outcome.counts.waited as f64 / outcome.counts.attached as f64;
    let wanted = sum as f64 / f64::from(count);
    assert!((got / wanted - 1.0).abs() < 1e-3, "{got} and {wanted}");
}
