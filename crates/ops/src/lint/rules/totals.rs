//! How many connections a server may get from the poolers of one file.
//!
//! Always true: a total is either exact, or a lower bound that says so: the number of users of a database is in no file, and of databases behind
//! `*` neither.
//! Not here: what is too many.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::Place;

use crate::facts::Pooler;

use super::{Case, plain};

/// The connections of one process to one server.
pub(crate) struct Total {
    /// The server as written.
    pub(crate) server: Arc<str>,
    /// The place of its first database.
    pub(crate) at: Place,
    /// The smallest and the largest number; equal unless the number of users is a range.
    pub(crate) connections: (f64, f64),
    /// How the number comes about.
    pub(crate) terms: String,
    /// Whether more users or databases would make it larger.
    pub(crate) is_lower_bound: bool,
    /// A pool without any limit.
    pub(crate) unlimited: Option<String>,
}

/// The totals by server.
pub(crate) fn totals(case: &Case<'_>, pooler: &Pooler) -> Vec<Total> {
    let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pool in pooler.lent() {
        let total = totals.entry(&pool.server).or_insert_with(|| Total {
            server: Arc::clone(&pool.server),
            at: pool.at.clone(),
            connections: (0.0, 0.0),
            terms: String::new(),
            is_lower_bound: false,
            unlimited: None,
        });
        let cap = pool.servers_max.map_or(f64::INFINITY, f64::from);
        let users = case.users(pool);
        let (low, high) = users.unwrap_or((1.0, 1.0));
        let reach = pool.reach().map_or(f64::INFINITY, |reach| reach as f64);
        let (least, most) = ((low * reach).min(cap), (high * reach).min(cap));
        if !most.is_finite() {
            total.unlimited.get_or_insert_with(|| pool.name());
            continue;
        }
        total.connections.0 += least;
        total.connections.1 += most;
        total.is_lower_bound |= (users.is_none() && most < cap) || &*pool.database == "*";
        *counts.entry(&pool.server).or_default() += 1;
        if total.terms.is_empty() {
            let sum = format!("({} + {})", pool.size, pool.reserve);
            let users =
                if (high - 1.0).abs() < 0.5 { String::new() } else { format!("{} users x ", super::span((low, high))) };
            let capped = if high * reach > cap { format!(", at most {}", plain(cap)) } else { String::new() };
            total.terms = format!("{users}{sum}{capped}");
        }
    }
    for (server, total) in &mut totals {
        let count = counts.get(server).copied().unwrap_or(0);
        if count > 1 {
            total.terms = format!("{} of {count} databases", super::span(total.connections));
        }
        bound_by_user(case, pooler, total);
    }
    totals.into_values().collect()
}

/// If users are not known, one user may have all pools, and has a limit of its own.
fn bound_by_user(case: &Case<'_>, pooler: &Pooler, total: &mut Total) {
    let most = pooler.number("max_user_connections").filter(|most| *most > 0.0);
    if let (Some(most), true) = (most, total.is_lower_bound && case.given.tenants.is_none())
        && most < total.connections.1
    {
        total.connections = (most, most);
        total.terms = format!("max_user_connections {}", plain(most));
    }
}
