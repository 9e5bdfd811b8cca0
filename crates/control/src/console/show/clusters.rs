//! `SHOW CLUSTERS`: each host of each cluster, what it is, and what the cluster does.
//!
//! Always true: each host of each cluster is shown once, in the order of the configuration; a cluster without a known host has a row, too.
//! Not here: what hosts and clusters are (crate `cluster`).

use cluster::{Cluster, Member, State};

use super::view::{NOTHING, Subject, View};
use crate::console::table::{Cell, Column, number, text};

pub(super) const CLUSTERS: Subject = Subject {
    name: "CLUSTERS",
    doc: "The clusters and their hosts: what the cluster does, which host is its primary, how far the others are behind.",
    parts: NOTHING,
    own_columns: 0,
    columns: &[
        Column::text("cluster"),
        Column::text("state"),
        Column::text("host"),
        Column::text("member"),
        Column::text("role"),
        Column::big("timeline"),
        Column::big("lag"),
        Column::big("delay_us"),
        Column::text("error"),
        Column::text("agents"),
        Column::text("waits_for"),
        Column::text("scheduled"),
    ],
    rows,
};

fn rows(view: &View<'_>) -> Vec<Vec<Cell>> {
    let of = |(name, cluster): (&std::sync::Arc<str>, &Cluster)| {
        let state = state_of(cluster, view);
        let (count, answering, error) = cluster.agents();
        let error_of_agent = error.map_or_else(String::new, |error| format!(": {error}"));
        let agents = (count > 0).then(|| format!("{answering}/{count}{error_of_agent}"));
        let (waits_for, scheduled) = (cluster.waits_for().map(str::to_owned), cluster.scheduled());
        let row = |(place, member): (usize, &Member)| {
            let report = member.report();
            let delay = report.and_then(|report| report.delay).and_then(|delay| number(delay.as_micros()));
            vec![
                text(&**name),
                text(state.word()),
                text(&**member.name()),
                cluster.agents_name_of(member).map(ToString::to_string),
                text(cluster.role_of(place).word()),
                report.and_then(|report| number(report.timeline)),
                cluster.lag_of(member).and_then(number),
                delay,
                error_of(cluster, place, member),
                agents.clone(),
                waits_for.clone(),
                scheduled.clone(),
            ]
        };
        let none = || {
            let known = [text(&**name), text(state.word())].into_iter();
            let unknown = std::iter::repeat_n(None, CLUSTERS.columns.len() - 5);
            known.chain(unknown).chain([agents.clone(), waits_for.clone(), scheduled.clone()]).collect::<Vec<_>>()
        };
        match cluster.members() {
            [] => vec![none()],
            members => members.iter().enumerate().map(row).collect::<Vec<_>>(),
        }
    };
    view.clusters.rows().flat_map(of).collect()
}

/// Why the last check of a member has failed, or that one is late.
fn error_of(cluster: &Cluster, place: usize, member: &Member) -> Option<String> {
    let late = || cluster.is_suspect(place).then(|| "a check is late".to_owned());
    member.error().map(ToString::to_string).or_else(late)
}

/// What a cluster does now.
pub(crate) fn state_of(cluster: &Cluster, view: &View<'_>) -> State {
    cluster.state(view.now)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn each_host_of_a_cluster_is_shown() {
        let heads_told = "cluster s, state s, host s, member s, role s, timeline q, lag q, delay_us q, error s, agents s, waits_for s, scheduled s";
        assert_eq!(heads("CLUSTERS"), heads_told);
        let line = "main = hosts=a,b port=1,2 user=u patroni=http://a:8008";
        let settings = settings(&format!("[clusters]\n{line}\n[pgbouncer]\nauth_type=any\n"));
        let shown = lines(&table_of("CLUSTERS", &settings, "", &[]));
        let row = |host: &str| format!("main|unknown|{host}|NULL|unknown|NULL|NULL|NULL|NULL|0/1|NULL|NULL");
        assert_eq!(shown, [row("a:1"), row("b:2")]);
        let settings = super::super::tests::settings(
            "[clusters]\nmain = patroni=http://a:8008 user=u\n[pgbouncer]\nauth_type=any\n",
        );
        let shown = lines(&table_of("CLUSTERS", &settings, "", &[]));
        assert_eq!(shown, ["main|unknown|NULL|NULL|NULL|NULL|NULL|NULL|NULL|0/1|NULL|NULL"]);
    }
}
