//! Statements of any length, and timers below, at and above that length and each other.
//!
//! Always true: drawn from a separate stream of chance, so that the worlds of other seeds do not change; such a world
//! has no other faults, so every disconnection is due to a timer. Every setting of the catalog that is a time is drawn
//! or has a reason not to be.
//! Not here: the check of the timers (`overdue`).

use std::time::Duration;

use crate::plan::group::Group;
use crate::plan::streams::Stream;
use crate::plan::{Plan, Shape};
use crate::sim::dice::Dice;

/// How often an application runs a long statement, and how long that is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    /// Of a thousand statements.
    pub(crate) often: u32,
    /// The usual length, milliseconds.
    about: u64,
}

impl Lengths {
    /// The length of one statement, milliseconds.
    pub(crate) fn draw(self, dice: &mut Dice) -> u32 {
        let millis = match dice.among(0..=9) {
            0..=4 => self.about,
            5 => self.about.saturating_sub(dice.among(1..=20)),
            6 => self.about + dice.among(1..=20),
            7 => self.about * LONGER,
            // Powers of two below that length, down to a few milliseconds.
            _ => self.about >> dice.among(0..=12),
        };
        millis.max(1) as u32
    }
}

impl Plan {
    /// In some worlds statements last for up to twenty minutes, and nothing else goes wrong.
    pub(crate) fn draw_lengths(&mut self) {
        let mut dice = Dice::new(self.seed, Stream::Lengths.number());
        // Cancel requests of strangers, external authenticators and `auth_query` have worlds of their own.
        if !dice.chance(OFTEN) || self.auth.is_any() || !self.group.asks.is_empty() || !self.shape.peers.is_empty() {
            return;
        }
        (self.is_calm, self.is_timed) = (false, true);
        self.faults.clear();
        self.shutdowns.clear();
        self.shape.settings.remove("shutdown_timeout");
        self.group = Group::default();
        self.manner.signals_late = 0;
        self.pace.narrow = 0;
        // Each power of two from a millisecond to twenty minutes is equally frequent.
        let about = dice.among(1_000..=1_200_000) >> dice.among(0..=10);
        self.longest = Duration::from_millis(about * LONGER);
        self.heals_at = dice.among(1_000_000..=10_000_000 + 20_000 * about);
        for limit in ["max_user_client_connections", "max_db_client_connections"] {
            self.shape.settings.remove(limit);
        }
        self.shape.set("max_client_conn", 1000);
        self.draw_timers(about, &mut dice);
        let often = dice.pick(&[20, 100, 300]);
        for (_, person, habits) in &mut self.people {
            (habits.deafness, habits.huge, habits.rude, habits.lost) = (0, 0, 0, 0);
            if !person.is_operator() && !habits.replicates && dice.chance(700) {
                habits.lasts = Lengths { often, about };
                // In some worlds most applications think for longer than statements last.
                habits.think.1 = habits.think.1.max(dice.pick(&[0, about / 10, about]) * 1_000);
            }
        }
    }

    fn draw_timers(&mut self, about: u64, dice: &mut Dice) {
        let mut others = vec![about];
        for (name, least) in TIMERS {
            self.shape.settings.remove(name);
            if !dice.chance(400) {
                continue;
            }
            let other = dice.pick(&others);
            let millis = match dice.among(0..=7) {
                0 => other / 4,
                1 => other.saturating_sub(dice.among(1..=1_000)),
                2 => other.saturating_sub(1),
                3 => other,
                4 => other + 1,
                5 => other + dice.among(1..=1_000),
                6 => other * 4,
                _ => dice.among(50..=4_000_000) >> dice.among(0..=12),
            };
            let millis = millis.clamp(least, MILLIS_MAX);
            let millis = if WHOLE.contains(&name) { millis.div_ceil(1000) * 1000 } else { millis };
            others.push(millis);
            self.shape.set(name, text(name, millis));
        }
        if dice.chance(300) {
            self.shape.set("reserve_pool_size", 1);
        }
    }
}

/// Removes the timers drawn here, except those with a value of their own after the faults.
pub(crate) fn heal(shape: &mut Shape) {
    for (name, _) in TIMERS.iter().filter(|(name, _)| !HEALED.contains(name)) {
        shape.settings.remove(name);
    }
}

fn text(name: &str, millis: u64) -> String {
    if WHOLE.contains(&name) { (millis / 1000).to_string() } else { format!("{}.{:03}", millis / 1000, millis % 1000) }
}

/// How many of a thousand worlds are of this kind.
const OFTEN: u32 = 150;
/// The longest statements last this many times the usual length.
const LONGER: u64 = 2;
/// The longest timer, an hour.
const MILLIS_MAX: u64 = 3_600_000;
/// The timers with their least milliseconds: with less, clients would be disconnected and servers given up only because
/// the simulated network is slow.
const TIMERS: [(&str, u64); 22] = [
    ("query_timeout", 100),
    ("query_wait_timeout", 100),
    ("query_wait_notify", 1_000),
    ("server_mend_timeout", 2_000),
    ("idle_transaction_timeout", 100),
    ("transaction_timeout", 100),
    ("client_idle_timeout", 100),
    ("client_login_timeout", 1_000),
    ("server_idle_timeout", 50),
    ("server_lifetime", 50),
    ("server_login_retry", 50),
    ("server_connect_timeout", 1_000),
    ("server_check_delay", 0),
    ("cancel_wait_timeout", 500),
    ("pinned_server_timeout", 100),
    ("sequence_hold_time", 0),
    ("reserve_pool_timeout", 0),
    ("pool_idle_timeout", 100),
    ("autodb_idle_timeout", 100),
    ("dns_max_ttl", 50),
    ("dns_nxdomain_ttl", 50),
    ("tcp_user_timeout", 1),
];
/// Timers in whole seconds, or in milliseconds without a fraction.
const WHOLE: [&str; 2] = ["query_wait_notify", "tcp_user_timeout"];
/// Timers with a value of their own after the faults.
const HEALED: [&str; 5] = [
    "query_wait_timeout",
    "server_login_retry",
    "server_idle_timeout",
    "server_connect_timeout",
    "client_login_timeout",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings that are times, with which no worker of a world can end anything.
    const ELSEWHERE: [(&str, &str); 10] = [
        ("auth_query_cache_ttl", "drawn with what is asked of users (`auth_plan`)"),
        ("dns_zone_check_period", "the control thread's"),
        ("lock_sweep_interval", "the control thread's"),
        ("log_min_duration_transaction", "a line of the log"),
        ("log_pool_wait", "a line of the log"),
        ("shutdown_timeout", "the control thread's; `evict` draws the letter that it sends"),
        ("stats_period", "the control thread's"),
        ("suspend_timeout", "the control thread's; `operator` draws it"),
        ("tcp_keepidle", "the kernel's"),
        ("tcp_keepintvl", "the kernel's"),
    ];

    #[test]
    fn every_setting_that_is_a_time_is_drawn_or_has_a_reason_not_to_be() {
        for entry in config::CATALOG.iter().filter(|entry| !entry.unit.is_empty()) {
            let is_drawn = TIMERS.iter().any(|(name, _)| *name == entry.name);
            let is_elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == entry.name);
            assert!(is_drawn != is_elsewhere, "{} (unit {})", entry.name, entry.unit);
        }
    }

    #[test]
    fn lengths_lie_below_at_and_above_what_they_are_about() {
        let lengths = Lengths { often: 1000, about: 5_000 };
        let mut dice = Dice::new(1, Stream::Lengths.number());
        let drawn: Vec<u32> = (0..200).map(|_| lengths.draw(&mut dice)).collect();
        for is_there in [
            drawn.iter().any(|&millis| millis < 10),
            drawn.contains(&4_999) || drawn.iter().any(|millis| (4_980..5_000).contains(millis)),
            drawn.contains(&5_000),
            drawn.contains(&10_000),
        ] {
            assert!(is_there, "{drawn:?}");
        }
    }
}
