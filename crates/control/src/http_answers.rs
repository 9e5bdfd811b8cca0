//! The answers to HTTP requests.
//!
//! Always true: all requests of a round are answered from the same survey of the workers, and equal questions share one
//! answer.
//! Not here: connections and access control (`http`); the values shown (`metrics`, `console::show`).

use std::sync::Arc;

use cluster::{Cluster, Member, MemberRole, State};
use worker::letters::{PoolRow, Shutdown, Snapshot};

use crate::console::show::View;
use crate::control::{Control, Purpose};
use crate::http::{HttpAnswer, HttpQuestion, NO_TABLE, Round, gzip, json, overview, table};
use crate::metrics;

impl<S> Control<S> {
    /// Takes an HTTP question; [`Control::next_http_answer`] returns its answer later.
    pub(crate) fn ask_http(&mut self, number: u64, question: HttpQuestion) {
        self.http.ask(number, question);
    }

    /// Returns the next answer and the number of its question.
    pub fn next_http_answer(&mut self) -> Option<(u64, HttpAnswer)> {
        self.http.next_answer()
    }

    /// Begins a survey of the workers if a round of questions is due.
    pub(crate) fn look_for_http(&mut self) {
        if let Some((parts, round)) = self.http.begin(self.hands.now.time) {
            self.surveys.ask(parts, Purpose::Http(round));
        }
    }

    /// Answers a round from the snapshots of the workers.
    pub(crate) fn answer_http(&mut self, round: Round, snapshots: &[Snapshot]) {
        let mut answers: Vec<(HttpQuestion, HttpAnswer)> = Vec::new();
        for (number, question) in round.0 {
            let known = answers.iter().find(|(asked, _)| *asked == question).map(|(_, answer)| answer.clone());
            let answer = known.unwrap_or_else(|| {
                let answer = self.http_answer(&question, snapshots);
                answers.push((question, answer.clone()));
                answer
            });
            self.http.answer(number, answer);
        }
        self.http.end(self.hands.now.time);
    }

    /// Refuses a round that some workers have not answered in time.
    pub(crate) fn refuse_http(&mut self, round: &Round, why: &str) {
        round.0.iter().for_each(|(number, _)| self.http.answer(*number, HttpAnswer::words(503, why)));
        self.http.end(self.hands.now.time);
    }

    fn http_answer(&self, question: &HttpQuestion, snapshots: &[Snapshot]) -> HttpAnswer {
        let view = self.view(snapshots);
        match question {
            HttpQuestion::Metrics { is_open, is_gzip } => {
                let text = metrics::text(&view, *is_open);
                HttpAnswer {
                    status: 200,
                    content_type: if *is_open { metrics::OPEN_METRICS } else { metrics::PROMETHEUS },
                    is_gzip: *is_gzip,
                    body: if *is_gzip { gzip(&text) } else { text.into() },
                }
            }
            HttpQuestion::Overview => {
                let state = self.why_not_ready(None, &view).map_or_else(|| "active".to_owned(), |(_, why)| why);
                HttpAnswer::json(overview::overview(&view, &state))
            }
            HttpQuestion::News { since } => {
                let since = since.unwrap_or_else(|| self.events.changes());
                HttpAnswer::json(overview::news(&self.events, since))
            }
            HttpQuestion::Ready { database } => match self.why_not_ready(database.as_deref(), &view) {
                Some((status, why)) => HttpAnswer::words(status, why),
                None => HttpAnswer::words(200, "ready"),
            },
            HttpQuestion::Primary { cluster } => {
                self.health(cluster.as_deref(), |cluster| match (cluster.state(view.now), cluster.primary()) {
                    (State::Steady, Some(primary)) => Ok(format!("primary: {primary}")),
                    (state, _) => Err(format!("no primary: {state}")),
                })
            }
            HttpQuestion::Replica { cluster, lag_max } => self.health(cluster.as_deref(), |cluster| {
                let members = cluster.members().iter().enumerate();
                let mut replicas = members.filter(|(place, _)| cluster.role_of(*place) == MemberRole::Replica);
                // While there is no primary nobody knows how far a replica is behind.
                let is_near =
                    |member: &Member| lag_max.is_none_or(|most| cluster.lag_of(member).is_some_and(|lag| lag <= most));
                let found = replicas.find(|(_, member)| is_near(member));
                found
                    .map(|(_, member)| format!("replica: {}", member.name()))
                    .ok_or_else(|| "no such replica".to_owned())
            }),
            HttpQuestion::Table { name } => match table(name) {
                Some(subject) => HttpAnswer::json(json::table(&subject.table(&view))),
                None => HttpAnswer::words(404, NO_TABLE),
            },
        }
    }

    /// Answers a health check about a cluster: 200, 503 with the reason, or 404 if there is no such cluster.
    fn health(&self, name: Option<&str>, check: impl Fn(&Cluster) -> Result<String, String>) -> HttpAnswer {
        let found = self.clusters.find(name).map_err(|why| HttpAnswer::words(404, why));
        let checked =
            found.map(|name| self.clusters.rows().find(|(other, _)| **other == name).map(|(_, one)| check(one)));
        match checked {
            Ok(Some(Ok(words))) => HttpAnswer::words(200, words),
            Ok(Some(Err(why))) => HttpAnswer::words(503, why),
            Ok(None) => HttpAnswer::words(404, "no such cluster"),
            Err(answer) => answer,
        }
    }

    /// Returns why clients of a database, or any clients if `None`, are not served.
    fn why_not_ready(&self, database: Option<&str>, view: &View<'_>) -> Option<(u16, String)> {
        let why = match self.shutdown.way() {
            Some(Shutdown::Now) => Some("going down"),
            Some(Shutdown::WaitForServers) => Some("going down when all servers have been given back"),
            Some(Shutdown::WaitForClients) => Some("going down when all clients have gone"),
            None if view.is_suspended => Some("suspended"),
            None if view.standing.is_all_paused() => Some("paused"),
            None => None,
        };
        if let Some(why) = why {
            return Some((503, why.to_owned()));
        }
        let name = database?;
        let Some(entry) = view.settings.database(name) else {
            return Some((404, format!("there is no database \"{name}\"")));
        };
        if view.standing.disabled().contains(name) {
            return Some((503, format!("database \"{name}\" is disabled")));
        }
        if view.standing.pauses(name) {
            return Some((503, format!("database \"{name}\" is paused")));
        }
        if view.standing.holds(&entry) {
            return Some((503, format!("clients of database \"{name}\" are held (SHOW CLUSTERS, HOLD)")));
        }
        let failure = unreachable(name, view)?;
        Some((503, format!("database \"{name}\": its host cannot be reached or refuses us ({failure})")))
    }
}

/// Returns the last login error of a database's hosts, if no pool of the database has a server.
fn unreachable(database: &str, view: &View<'_>) -> Option<Arc<str>> {
    let rows = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    let pools: Vec<&PoolRow> = rows.filter(|pool| *pool.database == *database).collect();
    let has_server = |pool: &&PoolRow| pool.sv_active + pool.sv_idle + pool.sv_used + pool.sv_tested > 0;
    let failed = |pool: &&PoolRow| pool.measures.as_ref()?.failure.clone();
    if pools.iter().any(has_server) { None } else { pools.iter().find_map(failed) }
}
