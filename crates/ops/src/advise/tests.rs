//! Advice against truths: queueing theory, a server of known processors, Mattermost's knee.

use std::ffi::OsString;

use super::candidates::Verdict;
use super::course::{of_spec, present};
use super::options::AdviseOptions;
use super::terms::Terms;
use super::{Advice, formats, page, words};
use crate::facts;
use crate::simulate::{Spec, SpecSource, knee_of, spec_of_text};
use crate::theory::mmc::Mmc;
use crate::trial::Interrupt;

fn terms(words: &[&str]) -> Terms {
    let all = ["--preset", "any"].iter().chain(words).map(OsString::from);
    AdviseOptions::parse(all).expect("options").terms
}

fn advice(spec: &Spec, words: &[&str]) -> Advice {
    of_spec(spec, &terms(words), false, &Interrupt::listen().expect("signals")).expect("it is not ended early")
}

fn spec(text: &str) -> Spec {
    spec_of_text(text).unwrap_or_else(|why| panic!("{why}")).1
}

/// Poisson arrivals, exponential service of 20 ms.
fn queue(load: f64, seconds: u32) -> Spec {
    spec(&format!(
        "duration = {seconds}\nwarm_up = 10\n[server]\nround_trip = 0\n\
         [[databases]]\nname = \"db\"\n[[databases.tenants]]\nname = \"app\"\nroles = \"shared\"\narrivals = {{ poisson = {} }}\n\
         [[databases.tenants.transactions]]\nservice = {{ exponential = \"20 ms\" }}\n",
        load / 0.02
    ))
}

#[test]
fn a_queue_gets_the_servers_that_theory_gives_it() {
    for (load, slo) in [(0.5, 100), (3.2, 400), (3.2, 100), (12.0, 200), (40.0, 100)] {
        let advice = advice(&queue(load, (40_000.0 / (load / 0.02)) as u32), &["--slo", &slo.to_string()]);
        let theory = Mmc::servers_min(load / 0.02, 0.02, 0.99, f64::from(slo) / 1e3 * 0.25).expect("there is one");
        let chosen = advice.sizes.pools[0].verdict.value().expect("a size");
        assert!((chosen - f64::from(theory)).abs() <= 1.0, "load {load}, {slo} ms: {chosen} and {theory}");
        assert!(!advice.is_impossible(), "{}", words::text(&advice));
    }
}

#[test]
fn with_replicas_each_process_gets_the_servers_for_its_share() {
    let advice = advice(&queue(12.0, 60), &["--slo", "200", "--replicas", "3", "--growth", "50"]);
    let theory = Mmc::servers_min(12.0 * 1.5 / 3.0 / 0.02, 0.02, 0.99, 0.05).expect("there is one");
    let chosen = advice.sizes.pools[0].verdict.value().expect("a size");
    assert!((chosen - f64::from(theory)).abs() <= 1.0, "{chosen} and {theory}");
    assert_eq!(advice.sizes.total.verdict.value(), Some(3.0 * chosen));
}

#[test]
fn too_few_transactions_give_no_size_but_what_is_needed() {
    let advice = advice(&queue(0.01, 60), &["--slo", "200"]);
    assert!(advice.is_unknown());
    let Verdict::NotConcluded { needs } = &advice.sizes.pools[0].verdict else { panic!("{advice:?}") };
    assert!(needs.contains("1,000 transactions") && needs.contains("s more"), "{needs}");
}

#[test]
fn a_need_above_a_harm_is_no_size_at_all() {
    let advice = advice(&queue(12.0, 60), &["--slo", "60", "--max-connections", "10"]);
    let Verdict::NoSizeWorks { floor, ceiling, least_bad, remedies, ceiling_by, .. } = &advice.sizes.pools[0].verdict
    else {
        panic!("{}", words::text(&advice));
    };
    assert!(*floor > 12.0 && *ceiling == 7.0 && *least_bad == 7.0 && *ceiling_by == "max_connections", "{advice:?}");
    // Nothing else moves it so far as half of the traffic, or twice the server.
    assert!(["split", "bigger server"].contains(&remedies[0].what), "{remedies:?}");
    assert!(remedies.windows(2).all(|pair| pair[0].closes >= pair[1].closes), "{remedies:?}");
    let text = words::text(&advice);
    assert!(
        text.contains("no size works:") && text.contains("capacity problem") && text.contains("until then: 7"),
        "{text}"
    );
    assert!(advice.is_impossible());
}

/// Sizes that were tried beside the recommended ones: what is lost at most, of all transactions or of those within the SLO.
fn regret(spec: &Spec, words: &[&str]) -> (f64, String) {
    let advice = of_spec(spec, &terms(words), true, &Interrupt::listen().expect("signals")).expect("not ended early");
    (advice.check.as_ref().expect("it was asked for").regret, words::text(&advice))
}

#[test]
fn a_server_of_known_processors_gets_as_many() {
    for cores in [2.0, 4.0] {
        // A closed loop that always wants more: only processors bound it, and more at once lose a little.
        let spec = spec(&format!(
            "duration = 30\nwarm_up = 5\n[pooler]\nquery_wait_timeout = 0\n[server]\nround_trip = 0\ncores = {cores}\n\
             contention = {{ alpha = 0, beta = 0.0005 }}\n[[databases]]\nname = \"db\"\n[[databases.tenants]]\nroles = \"shared\"\n\
             arrivals = {{ users = 40, think = \"10 ms\" }}\n\
             [[databases.tenants.transactions]]\nservice = {{ exponential = \"10 ms\" }}\n"
        ));
        let advice =
            of_spec(&spec, &terms(&[]), true, &Interrupt::listen().expect("signals")).expect("not ended early");
        let chosen = advice.sizes.pools[0].verdict.value().expect("a size");
        assert!((cores..=2.0 * cores + 1.0).contains(&chosen), "{}", words::text(&advice));
        let regret = advice.check.as_ref().expect("it was asked for").regret;
        assert!(regret <= 0.03, "{}", words::text(&advice));
        assert!(advice.is_impossible(), "more is wanted than processors do");
    }
}

fn preset(name: &str, values: &[(&str, &str)]) -> Spec {
    let values: Vec<_> = values.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    crate::simulate::spec_of(&SpecSource::Preset(name.to_owned()), &values).unwrap_or_else(|why| panic!("{why}")).1
}

#[test]
fn mattermosts_tenants_get_the_servers_of_the_knee() {
    let values = [("duration", "4 min"), ("warm_up", "1 min"), ("behaviour", "trunkline"), ("replications", "2")];
    let advice = advice(&preset("mattermost-2021-tuned", &values), &[]);
    let total = advice.sizes.databases[0].verdict.value().expect("a total");
    let knee = knee_of("mattermost-2021-tuned", &values, "conns_per_tenant=1.5,1.75,2").expect("there is one");
    let (low, high) = (knee.low * 12.0 - 1.0, knee.high * 12.0 + 1.0);
    assert!((low..=high).contains(&total), "{total} and {knee:?}: {}", words::text(&advice));
}

#[test]
fn little_is_lost_by_not_having_the_best_size() {
    let short = [("duration", "30 s"), ("warm_up", "5 s"), ("events", "[]")];
    for (name, slo) in [("gitlab", "100"), ("noisy-neighbour", "100"), ("storm", "200")] {
        let (regret, text) = regret(&preset(name, &short), &["--slo", slo]);
        assert!(regret <= 0.05, "{name}: {text}");
    }
}

#[test]
fn a_program_finds_the_schema_every_bound_and_the_plan() {
    let advice = advice(&queue(3.2, 60), &["--slo", "400"]);
    let json: serde_json::Value = serde_json::from_str(&formats::json(&advice)).expect("JSON");
    assert_eq!((&json["schema"], &json["version"]), (&"trunkline.advice".into(), &1.into()));
    assert_eq!(json["pools"][0]["setting"], "pool_size");
    assert_eq!(json["pools"][0]["verdict"], "chosen");
    assert_eq!(json["plan"]["databases"]["db"]["pool_size"], json["pools"][0]["value"].as_f64().expect("n") as u64);
    let helm = formats::helm(&advice, Some(3.0));
    assert!(helm.contains("replicas: 3\n") && helm.contains("    \"db\":\n      pool_size: "), "{helm}");
}

/// CERN's file as it was first, and after it was tuned.
#[test]
fn cerns_totals_are_336_and_474_and_900_cannot_bind() {
    let folder = std::env::temp_dir().join(format!("trunkline-advise-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("cern.ini");
    for (minimum, size, total, reach) in [(21, 94, 336, 112), (100, 140, 474, 158)] {
        let text = format!(
            "[databases]\ngitlab = host=db.cern.example port=6600\n[pgbouncer]\npool_mode = transaction\nmin_pool_size = {minimum}\n\
             default_pool_size = {size}\nreserve_pool_size = 18\nreserve_pool_timeout = 2\nmax_db_connections = 900\n"
        );
        std::fs::write(&path, text).expect("written");
        let lines = present(path.to_str().expect("UTF-8"), &terms(&["--replicas", "3"])).expect("read").join("\n");
        for part in [
            format!("3 x (pool_size {size} + reserve_pool_size 18) = {total} connections"),
            format!("max_db_connections 900 cannot bind with one user: {size} + 18 = {reach} is the most"),
            format!("all databases, with one user each: {total} connections"),
        ] {
            assert!(lines.contains(&part), "{part} is not in:\n{lines}");
        }
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

/// A history of a pooler in which 160 transactions a second take 20 ms each, as an operator would have written it.
#[test]
fn a_history_of_sums_gives_what_theory_gives_for_them() {
    let mut text = String::new();
    for reading in 0..31 {
        let (at, count) = (reading * 10, reading * 1600);
        text += &format!(
            "# {at}\ndatabase,total_xact_count,total_xact_time\napp,{count},{}\ndatabase,user,cl_active,cl_waiting,sv_active\n\
             app,me,40,0,3\n",
            count * 20_000
        );
    }
    let demand = facts::demand_of_history(&facts::parse_history(&text).expect("a history"), "x").expect("a demand");
    let advice = super::advise(&demand, &terms(&["--slo", "400", "--replicas", "2"]), &super::rehearsal::Never);
    let theory = Mmc::servers_min(160.0, 0.02, 0.99, 0.1).map(f64::from);
    assert_eq!(advice.sizes.pools[0].verdict.value(), theory);
    // Each process has a history of its own, and the server bears both.
    assert_eq!(advice.sizes.total.verdict.value(), theory.map(|one| one * 2.0));
    let both = Mmc::servers_min(320.0, 0.02, 0.99, 0.1).map(f64::from);
    assert_eq!(advice.sizes.at_work.verdict.value(), both);
    let (html, text) = (page::html(&advice), words::text(&advice));
    assert_eq!(html.matches("</b>, binds").count(), text.matches("<- binds").count(), "{html}");
    assert!(!html.contains("<script"), "{html}");
    assert!(
        text.contains("(approximate)") && text.contains("about") && text.contains("approximate: SHOW STATS"),
        "{text}"
    );
}

#[test]
fn counters_beyond_all_sense_give_no_size_and_take_no_time() {
    let text = "# 0\ndatabase,total_xact_count,total_xact_time\napp,0,0\n# 1\ndatabase,total_xact_count,total_xact_time\napp,1e300,1e306\n";
    let demand = facts::demand_of_history(&facts::parse_history(text).expect("a history"), "x").expect("a demand");
    for words in [&["--slo", "400"][..], &[]] {
        let advice = super::advise(&demand, &terms(words), &super::rehearsal::Never);
        assert!(words::text(&advice).contains("pool_size of app"), "it is told");
    }
}

#[test]
fn servers_that_slow_each_other_down_are_lent_for_longer() {
    // n = 6 x (1 + 0.05 x (n - 1)) is 8.14, and each loan takes 1.357 times as long.
    let found = advice(&queue(6.0, 120), &["--slo", "400", "--scalability", "0.05,0"]);
    let theory = Mmc::servers_min(300.0, 0.02 * 1.357, 0.99, 0.1).expect("there is one");
    let chosen = found.sizes.pools[0].verdict.value().expect("a size");
    assert!((chosen - f64::from(theory)).abs() <= 1.0, "{chosen} and {theory}");
    // With much more contention they never settle.
    let none = advice(&queue(12.0, 60), &["--slo", "400", "--scalability", "0.2,0.01"]);
    assert!(none.is_impossible() || none.is_unknown(), "{}", words::text(&none));
}
