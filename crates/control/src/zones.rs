//! Detects by the serials of DNS zones that host names may have new addresses before the cached ones expire
//! (`dns_zone_check_period`).
//!
//! Always true: the zone of a name is the name without its first label, as in PgBouncer; a zone has one query under way
//! at a time. Only a serial that has grown triggers lookups: otherwise a name server that lags behind would cause new
//! lookups of all names each time.
//! Not here: querying (`run`, `resolver`), the lookups under way (`names`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Time, WorkerId};
use config::{Host, Settings};
use reactor::Level;

use crate::hands::Hands;
use crate::names::{LOOKUPS_MAX, Names};

/// The answer of a name server about a zone: its serial number, or why there is none.
pub type Serial = Result<u32, Arc<str>>;

/// The zones of the host names that workers have asked for.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    zones: BTreeMap<Arc<str>, Zone>,
    /// Start of the next round of queries; `None` without a period.
    due: Option<Time>,
    queue: VecDeque<Arc<str>>,
    under_way: usize,
}

#[derive(Debug, Default)]
struct Zone {
    serial: Option<u32>,
    names: BTreeMap<Arc<str>, Known>,
    is_asked: bool,
    /// The last query failed, which has been logged.
    is_silent: bool,
}

/// A host name in a zone.
#[derive(Debug)]
struct Known {
    /// It is a host of the settings in force.
    is_host: bool,
    /// The workers that have asked for it.
    askers: Vec<WorkerId>,
}

/// The consequence of an answer.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Nothing,
    /// The query failed, and the one before it had not.
    FellSilent(Arc<str>),
    /// The names are to be looked up again, each for the workers that use it.
    Grown {
        old: u32,
        new: u32,
        names: Vec<(Arc<str>, Vec<WorkerId>)>,
    },
}

impl Zones {
    /// Records that a worker has asked for the addresses of a name.
    pub(crate) fn know(&mut self, from: WorkerId, name: &Arc<str>) {
        let Some(zone) = zone_of(name) else { return };
        let zone = self.zones.entry(zone).or_default();
        let known = zone.names.entry(Arc::clone(name)).or_insert(Known { is_host: true, askers: Vec::new() });
        known.is_host = true;
        if !known.askers.contains(&from) {
            known.askers.push(from);
        }
    }

    /// Marks which names are hosts of the settings. The others are kept: they may return while workers still cache
    /// their addresses.
    fn heed(&mut self, is_host: impl Fn(&str) -> bool) {
        for (name, known) in self.zones.values_mut().flat_map(|zone| &mut zone.names) {
            known.is_host = is_host(name);
        }
    }

    /// Schedules a round of queries after each period.
    pub(crate) fn ask_every(&mut self, now: Time, period: Option<Duration>) {
        self.due = period.map(|period| now + period);
        if period.is_none() {
            for name in self.queue.drain(..) {
                if let Some(zone) = self.zones.get_mut(&name) {
                    zone.is_asked = false;
                }
            }
        }
    }

    /// Begins a round if it is due. A zone whose last query is still under way is not queried again.
    pub(crate) fn tick(&mut self, now: Time, period: Option<Duration>) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = period.map(|period| now + period);
        for (name, zone) in &mut self.zones {
            if zone.hosts() > 0 && !std::mem::replace(&mut zone.is_asked, true) {
                self.queue.push_back(Arc::clone(name));
            }
        }
    }

    /// Returns the next zone to be queried now; [`Zones::answered`] must follow.
    pub(crate) fn start(&mut self) -> Option<Arc<str>> {
        if self.under_way == LOOKUPS_MAX {
            return None;
        }
        let zone = self.queue.pop_front()?;
        self.under_way += 1;
        Some(zone)
    }

    /// Ends a query. The first serial counts as grown, because the serial at the time of the lookups is unknown.
    fn answered(&mut self, zone: &str, serial: Serial) -> Outcome {
        self.under_way = self.under_way.saturating_sub(1);
        let Some(zone) = self.zones.get_mut(zone) else { return Outcome::Nothing };
        zone.is_asked = false;
        let was_silent = std::mem::replace(&mut zone.is_silent, serial.is_err());
        match (zone.serial, serial) {
            (_, Err(_)) if was_silent => Outcome::Nothing,
            (_, Err(why)) => Outcome::FellSilent(why),
            (Some(old), Ok(new)) if !has_grown(old, new) => Outcome::Nothing,
            (old, Ok(new)) => {
                zone.serial = Some(new);
                let hosts = zone.names.iter().filter(|(_, known)| known.is_host);
                let names = hosts.map(|(name, known)| (Arc::clone(name), known.askers.clone())).collect();
                Outcome::Grown { old: old.unwrap_or(0), new, names }
            }
        }
    }

    /// Handles the answer about a zone: if its serial has grown, the host names in it are looked up again.
    pub(crate) fn hear<S>(&mut self, zone: &str, serial: Serial, names: &mut Names, hands: &Hands<S>) {
        match self.answered(zone, serial) {
            Outcome::Nothing => {}
            Outcome::FellSilent(why) => hands.log(Level::Warning, format_args!("zone '{zone}' has no serial: {why}")),
            Outcome::Grown { old, new, names: grown } => {
                hands.log(Level::Log, format_args!("zone '{zone}' serial changed: old={old} new={new}"));
                grown.into_iter().for_each(|(name, askers)| names.ask_again(name, askers));
            }
        }
    }

    /// Adapts to new settings.
    pub(crate) fn heed_settings(&mut self, now: Time, old: &Settings, new: &Settings) {
        if new.dns_zone_check_period != old.dns_zone_check_period {
            self.ask_every(now, new.dns_zone_check_period);
        }
        self.heed(|name| has_host(new, name));
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// Returns each zone with hosts: its name, its serial (0 if unknown yet), and the number of its hosts.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Arc<str>, u32, usize)> {
        let rows = self.zones.iter().map(|(name, zone)| (name, zone.serial.unwrap_or(0), zone.hosts()));
        rows.filter(|(_, _, hosts)| *hosts > 0)
    }

    /// Returns the number of queries under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }
}

impl Zone {
    fn hosts(&self) -> usize {
        self.names.values().filter(|known| known.is_host).count()
    }
}

/// Returns the zone of a name: what follows its first dot, in lower case.
fn zone_of(name: &str) -> Option<Arc<str>> {
    let (_, zone) = name.split_once('.').filter(|(_, zone)| !zone.is_empty())?;
    Some(zone.to_ascii_lowercase().into())
}

/// Serial numbers wrap around (RFC 1982).
fn has_grown(old: u32, new: u32) -> bool {
    (1..1 << 31).contains(&new.wrapping_sub(old))
}

/// Returns whether a database host or a peer has this name.
fn has_host(settings: &Settings, name: &str) -> bool {
    let of_databases = settings.fallback.iter().chain(settings.databases.values()).flat_map(|database| &database.hosts);
    let of_peers = settings.peers.values().map(|peer| &peer.host);
    of_databases.chain(of_peers).any(|host| matches!(host, Host::Name(own) if **own == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Option<Duration> = Some(Duration::from_secs(10));
    const ZONE: &str = "z.example";

    /// Zones with these names, asked for by worker 0, at second 100.
    fn zones(names: &[&str]) -> Zones {
        let mut zones = Zones::default();
        names.iter().for_each(|name| zones.know(WorkerId(0), &Arc::from(*name)));
        zones.ask_every(Time::from_secs(100), PERIOD);
        zones
    }

    fn asked(zones: &mut Zones, secs: u64) -> Vec<Arc<str>> {
        zones.tick(Time::from_secs(secs), PERIOD);
        std::iter::from_fn(|| zones.start()).collect()
    }

    fn grown(old: u32, new: u32, names: &[&str]) -> Outcome {
        let names = names.iter().map(|name| (Arc::from(*name), vec![WorkerId(0)])).collect();
        Outcome::Grown { old, new, names }
    }

    fn rows(zones: &Zones) -> Vec<(String, u32, usize)> {
        zones.rows().map(|(name, serial, count)| (name.to_string(), serial, count)).collect()
    }

    #[test]
    fn a_zone_is_the_name_without_its_first_label() {
        let zones = zones(&["a.z.example", "b.Z.example", "short", "dot.", "c.example"]);
        assert_eq!(rows(&zones), [("example".to_owned(), 0, 1), (ZONE.to_owned(), 0, 2)]);
    }

    #[test]
    fn every_zone_is_asked_about_each_period_and_not_twice_at_once() {
        let mut zones = zones(&["a.z.example", "b.y.example"]);
        assert_eq!(zones.next_deadline(), Some(Time::from_secs(110)));
        assert!(asked(&mut zones, 109).is_empty());
        assert_eq!(asked(&mut zones, 110), ["y.example".into(), ZONE.into()]);
        zones.answered(ZONE, Ok(1));
        assert_eq!((asked(&mut zones, 120), zones.under_way()), (vec![ZONE.into()], 2));
        assert_eq!(zones.next_deadline(), Some(Time::from_secs(130)));
    }

    #[test]
    fn a_serial_that_grows_has_all_names_looked_up_again() {
        let mut zones = zones(&["a.z.example", "b.z.example", "c.y.example"]);
        let both: &[&str] = &["a.z.example", "b.z.example"];
        assert_eq!(zones.answered(ZONE, Ok(7)), grown(0, 7, both));
        assert_eq!(zones.answered(ZONE, Ok(7)), Outcome::Nothing);
        assert_eq!(zones.answered(ZONE, Ok(6)), Outcome::Nothing);
        assert_eq!(zones.answered(ZONE, Ok(9)), grown(7, 9, both));
        assert_eq!(rows(&zones)[1], (ZONE.to_owned(), 9, 2));
    }

    #[test]
    fn the_first_serial_counts_however_large_it_is_and_the_last_is_followed_by_the_first() {
        let mut zones = zones(&["a.z.example"]);
        assert_eq!(zones.answered(ZONE, Ok(u32::MAX)), grown(0, u32::MAX, &["a.z.example"]));
        assert_eq!(zones.answered(ZONE, Ok(3)), grown(u32::MAX, 3, &["a.z.example"]));
    }

    #[test]
    fn silence_is_told_once_until_there_is_an_answer() {
        let mut zones = zones(&["a.z.example"]);
        let silent = || Outcome::FellSilent("no".into());
        assert_eq!(zones.answered(ZONE, Err("no".into())), silent());
        assert_eq!(zones.answered(ZONE, Err("no".into())), Outcome::Nothing);
        zones.answered(ZONE, Ok(1));
        assert_eq!(zones.answered(ZONE, Err("no".into())), silent());
        assert_eq!(zones.answered("unknown", Ok(1)), Outcome::Nothing);
    }

    #[test]
    fn a_name_that_is_no_host_any_more_is_passed_over_until_it_is_one_again() {
        let mut zones = zones(&["a.z.example", "b.z.example"]);
        zones.heed(|name| name == "b.z.example");
        assert_eq!(zones.answered(ZONE, Ok(1)), grown(0, 1, &["b.z.example"]));
        zones.heed(|_| false);
        assert!(asked(&mut zones, 110).is_empty() && rows(&zones).is_empty());
        zones.heed(|_| true);
        assert_eq!(asked(&mut zones, 120), [ZONE.into()]);
    }

    #[test]
    fn without_a_period_nothing_is_asked() {
        let mut zones = zones(&["a.z.example"]);
        zones.tick(Time::from_secs(110), PERIOD);
        zones.ask_every(Time::from_secs(111), None);
        assert_eq!((zones.start(), zones.next_deadline()), (None, None));
        zones.ask_every(Time::from_secs(200), PERIOD);
        assert_eq!(asked(&mut zones, 210), [ZONE.into()]);
    }

    #[test]
    fn beyond_the_limit_zones_wait_for_one_another() {
        let names: Vec<_> = (0..=LOOKUPS_MAX).map(|number| format!("a.z{number}.example")).collect();
        let mut zones = zones(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let first = asked(&mut zones, 110);
        assert_eq!((first.len(), zones.start()), (LOOKUPS_MAX, None));
        zones.answered(&first[0], Ok(1));
        assert!(zones.start().is_some());
    }
}
