//! Stories: several specs that tell together what happened at Mattermost and at CERN.
//!
//! Always true: every number of a story is of a preset that can be printed, edited and simulated alone.
//! Not here: the presets (`presets`).

use super::SimulateError;
use super::course::{Study, mistaken, read_spec, studies_of, study_of};
use super::options::{SimulateOptions, SpecSource};
use super::presets;
use super::report::{Chapter, Part, Report};
use super::spec::SpecTree;
use super::sweep::Sweep;
use crate::table::{count, short};
use crate::trial::Interrupt;

/// A story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Story {
    Mattermost,
    Cern,
}

/// The story that was asked for, if it was one.
pub(super) fn of(source: &SpecSource) -> Option<Story> {
    match source {
        SpecSource::Preset(name) if name == presets::STORIES[0].0 => Some(Story::Mattermost),
        SpecSource::Preset(name) if name == presets::STORIES[1].0 => Some(Story::Cern),
        _ => None,
    }
}

/// Simulates a story.
pub(super) fn tell(story: Story, options: &SimulateOptions, interrupt: &Interrupt) -> Result<Report, SimulateError> {
    let teller = Teller { options, interrupt };
    match story {
        Story::Mattermost => teller.mattermost(),
        Story::Cern => teller.cern(),
    }
}

/// The cells of a table, row by row.
type Rows = Vec<Vec<String>>;

struct Teller<'a> {
    options: &'a SimulateOptions,
    interrupt: &'a Interrupt,
}

impl Teller<'_> {
    /// Simulates a preset with some values replaced, those of the command line last.
    fn study(&self, name: &str, values: &[(&str, &str)], sweeps: &[Sweep]) -> Result<Study, SimulateError> {
        let tree = self.tree(name, values)?;
        study_of(&tree, read_spec(&tree)?, sweeps, self.options.threads, self.interrupt)
    }

    fn tree(&self, name: &str, values: &[(&str, &str)]) -> Result<SpecTree, SimulateError> {
        let preset = presets::find(name).map_err(SimulateError::Usage)?;
        let mut tree = SpecTree::parse(preset.text).map_err(mistaken)?;
        for (path, value) in values {
            tree.set(path, value).map_err(SimulateError::Usage)?;
        }
        for (path, value) in &self.options.values {
            tree.set(path, value).map_err(|why| SimulateError::Usage(format!("--set: {why}")))?;
        }
        Ok(tree)
    }

    fn mattermost(&self) -> Result<Report, SimulateError> {
        let names = ["2021-broken", "2021-fix1", "2021-tuned", "2022", "2024"];
        let mut compared = self.compared(&names)?;
        let theirs = compared.split_off(names.len());
        let sweeps = match &self.options.sweeps[..] {
            [] => vec![Sweep::parse("conns_per_tenant=0.5..4:0.25").map_err(SimulateError::Usage)?],
            sweeps => sweeps.to_vec(),
        };
        let short_runs = [("replications", "5"), ("duration", "4 min"), ("warm_up", "1 min")];
        let with = |more: &[(&'static str, &'static str)]| [&short_runs[..], more].concat();
        let trunkline = [("behaviour", "trunkline")];
        let chapters = vec![
            chapter(
                "What Mattermost had, year by year",
                "Twelve workspaces share a database, each with a role and so a pool of its own. PgBouncer up to 1.17 closed idle \
                 servers of other pools to reach a minimum.",
                Part::Comparison(theirs),
            ),
            chapter(
                "The same files under Trunkline",
                "No server is closed to reach a minimum, only for a client that waits.",
                Part::Comparison(compared),
            ),
            chapter(
                "How many servers each workspace needs, with the minimum of the broken file",
                "Under PgBouncer 1.17 a database into which the minima do not fit never comes to rest.",
                Part::Study(Box::new(self.study("mattermost-2021-broken", &with(&[]), &sweeps)?)),
            ),
            chapter(
                "How many servers each workspace needs, with the tuned file",
                "The plot that Mattermost drew after it had written a simulator: disconnections against servers for each workspace.",
                Part::Study(Box::new(self.study("mattermost-2021-tuned", &with(&[]), &sweeps)?)),
            ),
            chapter(
                "The same under Trunkline",
                "The knee is a property of this workload, of its peak demand at one moment: measure your own.",
                Part::Study(Box::new(self.study("mattermost-2021-tuned", &with(&trunkline), &sweeps)?)),
            ),
        ];
        Ok(Report { title: "Mattermost: 2.5 connections for each workspace".to_owned(), chapters })
    }

    /// Mattermost's files under Trunkline, and then under the PgBouncer that they were written for, all simulated at once.
    fn compared(&self, names: &[&str]) -> Result<Vec<Study>, SimulateError> {
        let mut specs = Vec::new();
        for (behaviour, suffix) in [(Some("trunkline"), ", Trunkline"), (None, "")] {
            for name in names {
                let values: Vec<(&str, &str)> = behaviour.map(|word| ("behaviour", word)).into_iter().collect();
                let tree = self.tree(&format!("mattermost-{name}"), &values)?;
                let mut spec = read_spec(&tree)?;
                spec.title = format!("{name}{suffix}");
                specs.push((tree, spec));
            }
        }
        Ok(studies_of(specs, self.options.threads, self.interrupt))
    }

    fn cern(&self) -> Result<Report, SimulateError> {
        let both = vec![self.study("cern-before", &[], &[])?, self.study("cern-after", &[], &[])?];
        let rates: Vec<f64> =
            both.iter().filter_map(|study| study.points.first()).map(|p| p.total.throughput()).collect();
        let factor = if let [before, after] = rates[..] { after / before } else { f64::NAN };
        let (rows, effects) = self.factorial()?;
        let chapters = vec![
            chapter(
                "800 clients that connect for each transaction",
                &format!(
                    "Published: 210 and 3,305 transactions a second, a factor of 15.7. Simulated: a factor of {}. The published \
                     latencies are the number of clients divided by the throughput; those here are of each transaction.",
                    short(factor)
                ),
                Part::Comparison(both),
            ),
            chapter(
                "The factor taken apart",
                "The published benchmark changed three things at once: the pooler was on the same host, so the network, TLS and \
                 authentication went together with the connections. Here each is changed alone.",
                Part::Table {
                    heads: ["pooler", "network", "TLS", "SCRAM", "transactions/s", "mean response, ms"]
                        .map(str::to_owned)
                        .to_vec(),
                    rows,
                },
            ),
            chapter(
                "What each factor does",
                "The throughput with the cheaper choice divided by that with the dearer one, in the geometric mean over all others.",
                Part::Table {
                    heads: ["factor", "without a pooler", "with a pooler"].map(str::to_owned).to_vec(),
                    rows: effects,
                },
            ),
        ];
        Ok(Report { title: "CERN: what a pooler did for pgbench -C".to_owned(), chapters })
    }

    /// All combinations of pooler, network, TLS and authentication: the rows of a table, and those of the effects.
    fn factorial(&self) -> Result<(Rows, Rows), SimulateError> {
        let mut rates = [[0.0_f64; 8]; 2];
        let mut rows = Vec::new();
        for (pooled, rates) in rates.iter_mut().enumerate() {
            for (combination, rate) in rates.iter_mut().enumerate() {
                let [network, tls, auth] = [0, 1, 2].map(|bit| combination >> bit & 1 == 1);
                let round_trip: f64 = if network { 0.001 } else { 0.0001 };
                let secrets: f64 = if tls { 0.0017 } else { 0.0 } + if auth { 0.003 } else { 0.0 };
                let login = format!("{} us", ((0.0131 + secrets + 6.0 * round_trip) * 1e6).round());
                let login_cpu = format!("{} us", ((0.0131 + secrets) * 1e6).round());
                // With a pooler, TLS and SCRAM of a client are the pooler's work, of which it can do much at once.
                let client = format!("{} us", ((secrets + 6.0 * round_trip) * 1e6).round());
                let trip = format!("{} us", (round_trip * 1e6).round());
                let mut values: Vec<(&str, &str)> = vec![
                    ("duration", "30 s"),
                    ("warm_up", "10 s"),
                    ("server.login", &login),
                    ("server.login_cpu", &login_cpu),
                ];
                match pooled {
                    0 => values.push(("server.round_trip", &trip)),
                    _ => values.extend([("client.login", client.as_str()), ("client.round_trip", &trip)]),
                }
                let name = if pooled == 0 { "cern-before" } else { "cern-after" };
                let study = self.study(name, &values, &[])?;
                let Some(point) = study.points.first() else { continue };
                *rate = point.total.throughput();
                let response = point.total.counts.in_system as f64 / 1e3 / point.total.counts.done.max(1) as f64;
                let word = |is: bool, yes: &str, no: &str| (if is { yes } else { no }).to_owned();
                rows.push(vec![
                    word(pooled == 1, "yes", "no"),
                    word(network, "1 ms", "0.1 ms"),
                    word(tls, "yes", "no"),
                    word(auth, "yes", "no"),
                    count(*rate),
                    short(response),
                ]);
            }
        }
        let effect = |rates: &[f64; 8], bit: usize| {
            let logs = (0..8).filter(|combination| combination >> bit & 1 == 0);
            let logs: Vec<f64> = logs.map(|low| (rates[low] / rates[low | 1 << bit]).ln()).collect();
            format!("{:.2}", (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        let mut effects: Vec<Vec<String>> = ["network nearby", "no TLS", "no SCRAM"]
            .iter()
            .enumerate()
            .map(|(bit, name)| vec![(*name).to_owned(), effect(&rates[0], bit), effect(&rates[1], bit)])
            .collect();
        let pooling: f64 = (0..8).map(|place| (rates[1][place] / rates[0][place]).ln()).sum::<f64>() / 8.0;
        effects.push(vec!["the pooler itself".to_owned(), format!("{:.1}", pooling.exp()), String::new()]);
        Ok((rows, effects))
    }
}

fn chapter(title: &str, words: &str, part: Part) -> Chapter {
    Chapter { title: title.to_owned(), words: vec![words.to_owned(), String::new()], part }
}
