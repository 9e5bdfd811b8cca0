//! What a line says of its hosts beside their names and ports: their weights and zones.
//!
//! Always true: a list has one element for all hosts, or one for each, in the order of the hosts.
//! Not here: how a host is chosen by them (`pool::HostChoice`).

use std::sync::Arc;

use base::counted;

use crate::mistake::Wrong;

/// The weights and zones of the hosts of a line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostTraits {
    weights: Vec<u32>,
    zones: Vec<Arc<str>>,
}

impl HostTraits {
    /// Takes the value of `weights=`.
    pub(crate) fn set_weights(&mut self, value: &str) -> Result<(), Wrong> {
        self.weights = value.split(',').map(|one| weight(one.trim_matches(' '))).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Takes the value of `zones=`.
    pub(crate) fn set_zones(&mut self, value: &str) -> Result<(), Wrong> {
        self.zones = value.split(',').map(|one| zone(one.trim_matches(' '))).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Whether nothing is said of any host.
    pub(crate) fn is_empty(&self) -> bool {
        self.weights.is_empty() && self.zones.is_empty()
    }

    /// Checks that there is one element of each list for all of so many hosts, or one for each.
    pub(crate) fn match_hosts(&self, hosts: usize) -> Result<(), Wrong> {
        match_hosts("weights", self.weights.len(), hosts)?;
        match_hosts("zones", self.zones.len(), hosts)
    }

    /// The weight of the host at this place, 1 if nothing is said.
    pub(crate) fn weight_at(&self, place: usize) -> u32 {
        at(&self.weights, place).copied().unwrap_or(1)
    }

    /// The zone of the host at this place.
    pub(crate) fn zone_at(&self, place: usize) -> Option<&Arc<str>> {
        at(&self.zones, place)
    }
}

fn at<T>(list: &[T], place: usize) -> Option<&T> {
    match list {
        [one] => Some(one),
        list => list.get(place),
    }
}

fn match_hosts(key: &str, elements: usize, hosts: usize) -> Result<(), Wrong> {
    if elements > 1 && elements != hosts {
        let text = format!("could not match {elements} {key} to {}", counted(hosts, "host"));
        let advice = format!("{key}= names one of them for all hosts, or one for each");
        return Err(Wrong::new(text).advise(Some(advice)));
    }
    Ok(())
}

fn weight(text: &str) -> Result<u32, Wrong> {
    let weight = text.parse().ok().filter(|weight| *weight <= WEIGHT_MAX);
    weight.ok_or_else(|| {
        Wrong::new(format!("invalid weights: {text} (expected whole numbers from 0 to {WEIGHT_MAX}, with commas)"))
    })
}

fn zone(text: &str) -> Result<Arc<str>, Wrong> {
    if text.is_empty() || text.len() > base::NAME_BYTES_MAX {
        let most = base::NAME_BYTES_MAX;
        return Err(Wrong::new(format!(
            "invalid zones: \"{text}\" (expected names of at most {most} bytes, with commas)"
        )));
    }
    Ok(text.into())
}

/// Enough to tell hosts apart.
const WEIGHT_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(weights: &str, zones: &str) -> HostTraits {
        let mut traits = HostTraits::default();
        traits.set_weights(weights).expect("weights");
        traits.set_zones(zones).expect("zones");
        traits
    }

    #[test]
    fn one_element_holds_for_all_hosts_or_each_has_its_own() {
        let each = traits("3, 0,1", "a,b,a");
        assert_eq!([0, 1, 2, 3].map(|place| each.weight_at(place)), [3, 0, 1, 1]);
        assert_eq!([0, 1, 3].map(|place| each.zone_at(place).map(|zone| &**zone)), [Some("a"), Some("b"), None]);
        let one = traits("2", "a");
        assert_eq!((one.weight_at(7), one.zone_at(7).map(|zone| &**zone)), (2, Some("a")));
        assert!(
            each.match_hosts(3).is_ok() && one.match_hosts(3).is_ok() && HostTraits::default().match_hosts(3).is_ok()
        );
        let wrong = each.match_hosts(2).expect_err("three for two");
        assert_eq!(wrong.text, "could not match 3 weights to 2 hosts");
        assert_eq!(
            traits("1", "a,b").match_hosts(1).expect_err("two for one").text,
            "could not match 2 zones to 1 host"
        );
    }

    #[test]
    fn what_is_no_weight_or_zone_is_refused() {
        for text in ["-1", "1001", "x", "", "1,", "1.5"] {
            let wrong = HostTraits::default().set_weights(text).expect_err(text);
            assert!(wrong.text.ends_with("(expected whole numbers from 0 to 1000, with commas)"), "{}", wrong.text);
        }
        assert!(
            HostTraits::default().set_zones("a,,b").is_err()
                && HostTraits::default().set_zones(&"z".repeat(64)).is_err()
        );
    }
}
