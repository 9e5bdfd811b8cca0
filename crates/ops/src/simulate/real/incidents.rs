//! What happens during a real run to the server and to the pooler: a restart of the one, other settings of the other.
//!
//! Always true: nothing here blocks, because the load goes on meanwhile; a server that was stopped is started again, also if the run was ended early.
//! What cannot be done is told after the run, which fails then.
//! Not here: events of applications (`engine::asking`).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::stage::told;
use crate::simulate::spec::{Happening, Spec};
use crate::trial::{Cluster, Pooler, Trial};

/// What is to happen, and how far it is.
pub(super) struct Incidents<'a> {
    trial: Rc<Trial>,
    cluster: Option<&'a mut Cluster>,
    pooler: Option<&'a Pooler>,
    /// The process of the server, for whoever watches it.
    server_pid: Arc<AtomicU32>,
    /// By time.
    planned: Vec<(u64, Incident)>,
    /// When the server is to be started again.
    down_until: Option<u64>,
    failed: Option<String>,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Incident {
    /// The server ends all connections, and refuses logins for so many microseconds.
    Restart { down: u64 },
    /// The pooler gets this configuration.
    Reload { configuration: String },
}

/// The events of a spec that are not of applications. `configuration` is the pooler's for a spec; `None` if there is no pooler.
pub(super) fn incidents_of(spec: &Spec, configuration: impl Fn(&Spec) -> Option<String>) -> Vec<(u64, Incident)> {
    let mut found = Vec::new();
    for event in &spec.events {
        match &event.what {
            Happening::Restart { down } => found.push((event.at, Incident::Restart { down: *down })),
            Happening::Reload { poolers } => {
                let mut changed = spec.clone();
                changed
                    .databases
                    .iter_mut()
                    .zip(poolers)
                    .for_each(|(database, pooler)| database.pooler = pooler.clone());
                let configuration = configuration(&changed);
                found.extend(configuration.map(|configuration| (event.at, Incident::Reload { configuration })));
            }
            _ => {}
        }
    }
    found
}

impl<'a> Incidents<'a> {
    pub(super) fn new(
        trial: Rc<Trial>,
        cluster: Option<&'a mut Cluster>,
        pooler: Option<&'a Pooler>,
        server_pid: Arc<AtomicU32>,
        mut planned: Vec<(u64, Incident)>,
    ) -> Self {
        planned.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self { trial, cluster, pooler, server_pid, planned, down_until: None, failed: None }
    }

    /// How often the server is restarted.
    pub(super) fn restarts(planned: &[(u64, Incident)]) -> u64 {
        planned.iter().filter(|(_, incident)| matches!(incident, Incident::Restart { .. })).count() as u64
    }

    /// Does what is due.
    pub(super) fn pass(&mut self, now: u64) {
        if self.down_until.is_some_and(|until| now >= until) && self.start_again() {
            self.down_until = None;
        }
        // A restart is over before the next event begins.
        while self.down_until.is_none() && self.planned.last().is_some_and(|(at, _)| *at <= now) {
            let Some((_, incident)) = self.planned.pop() else { return };
            match (incident, &self.cluster, self.pooler) {
                (Incident::Restart { down }, Some(cluster), _) => {
                    cluster.stop();
                    self.down_until = Some(now + down);
                }
                (Incident::Reload { configuration }, _, Some(pooler)) => {
                    if let Err(why) = pooler.reload(&self.trial, &configuration) {
                        self.failed = Some(told(why));
                    }
                }
                // Nothing is there that it could happen to.
                _ => {}
            }
        }
    }

    /// Starts the server again, if it has ended.
    fn start_again(&mut self) -> bool {
        let Some(cluster) = &mut self.cluster else { return true };
        match cluster.start_again(&self.trial) {
            Ok(true) => {
                self.server_pid.store(cluster.pid(), Ordering::Relaxed);
                true
            }
            Ok(false) => false,
            Err(why) => {
                self.failed = Some(told(why));
                true
            }
        }
    }

    /// Ends what is under way: a server that is down comes back.
    ///
    /// # Errors
    /// What could not be done.
    pub(super) fn end(mut self) -> Result<(), String> {
        if self.down_until.is_some() {
            if let Some(cluster) = &mut self.cluster {
                cluster.await_stop();
            }
            self.start_again();
        }
        self.failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::demand::spec_of_text;

    #[test]
    fn a_reload_has_the_settings_that_its_event_names_and_keeps_the_others() {
        let (_, spec) = spec_of_text(
            "duration = 60\n[pooler]\ndefault_pool_size = 7\nserver_idle_timeout = 9\n[[databases]]\n[[databases.tenants]]\n\
             arrivals = { poisson = 1 }\n[[databases.tenants.transactions]]\nservice = '1 ms'\n\
             [[events]]\nat = 5\nkind = 'restart'\ndown = 2\n[[events]]\nat = 3\nkind = 'reload'\ndefault_pool_size = 2\n\
             [[events]]\nat = 4\nkind = 'storm'\nclients = 1\nwithin = 1\n",
        )
        .expect("a spec");
        let limits = |spec: &Spec| spec.databases[0].pooler.limits;
        let text = |spec: &Spec| Some(format!("{} {:?}", limits(spec).servers_max, limits(spec).idle_max));
        let mut found = incidents_of(&spec, text);
        found.sort_by_key(|(at, _)| *at);
        let configuration = "2 Some(9s)".to_owned();
        let wanted =
            [(3_000_000, Incident::Reload { configuration }), (5_000_000, Incident::Restart { down: 2_000_000 })];
        assert_eq!(found, wanted);
        assert_eq!((Incidents::restarts(&found), incidents_of(&spec, |_| None).len()), (1, 1));
    }
}
