//! The closed-loop probe: how many requests a second can be answered at all, whoever waits.
//!
//! Always true: the number of clients is doubled until more of them do not get more done; the answer is the most that was seen, not the last.
//! Not here: running it (`rig`), the scalability law over such points (`scaling`).

use super::plan::Bound;

/// A closed loop without thinking: so many clients, each with its next request when the last is answered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Closed {
    pub(crate) clients: u32,
    /// Answers a second.
    pub(crate) throughput: f64,
    /// The standard error of the throughput, from its batches.
    pub(crate) error: f64,
    /// The mean response time in seconds.
    pub(crate) response: f64,
    /// The mean time with a server in seconds, if it is known.
    pub(crate) service: Option<f64>,
    /// Requests that failed.
    pub(crate) failed: u64,
}

/// How many clients are tried next; `None` if more would not get more done, or there may not be more than `most`.
pub(crate) fn next_clients(seen: &[Closed], most: u32) -> Option<u32> {
    let Some(last) = seen.last() else { return Some(1) };
    let best_before = seen[..seen.len() - 1].iter().map(|closed| closed.throughput).fold(0.0, f64::max);
    let before_that = seen[..seen.len().saturating_sub(2)].iter().map(|closed| closed.throughput).fold(0.0, f64::max);
    let gains = |now: f64, before: f64| now > before * (1.0 + GAIN_MIN);
    // One doubling without a gain may be chance.
    let is_flat =
        seen.len() > 2 && !gains(last.throughput, best_before) && !gains(seen[seen.len() - 2].throughput, before_that);
    (!is_flat && last.clients < most).then(|| (last.clients * 2).min(most))
}

/// The bound that points show. `None` if nothing was answered.
pub(crate) fn bound_of(seen: &[Closed]) -> Option<Bound> {
    let best = seen.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput))?;
    let alone = seen.iter().min_by_key(|closed| closed.clients)?;
    // Where the pooler tells it, service is what it is at the bound: then as many are served at once as servers are at work.
    let (rate, service) = (best.throughput, best.service.unwrap_or(alone.response));
    (rate > 0.0 && service > 0.0).then_some(Bound { rate, service })
}

/// A doubling that gets less done has reached the bound.
const GAIN_MIN: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(clients: u32, throughput: f64) -> Closed {
        let response = f64::from(clients) / throughput;
        Closed { clients, throughput, error: 0.0, response, service: None, failed: 0 }
    }

    /// What machine repair says of four servers of 20 ms.
    fn probe(most: u32) -> Vec<Closed> {
        let mut seen = Vec::new();
        while let Some(clients) = next_clients(&seen, most) {
            seen.push(closed(clients, (f64::from(clients) / 0.02).min(200.0)));
        }
        seen
    }

    #[test]
    fn the_bound_is_found_where_more_clients_get_no_more_done() {
        let seen = probe(1000);
        assert_eq!(seen.iter().map(|closed| closed.clients).collect::<Vec<_>>(), [1, 2, 4, 8, 16]);
        assert_eq!(bound_of(&seen), Some(Bound { rate: 200.0, service: 0.02 }));
        assert_eq!(probe(3).iter().map(|closed| closed.clients).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(bound_of(&[]), None);
    }

    #[test]
    fn the_bound_is_the_most_and_not_the_last() {
        let seen = [closed(1, 50.0), closed(2, 90.0), closed(4, 120.0), closed(8, 100.0), closed(16, 80.0)];
        assert_eq!(next_clients(&seen, 1000), None);
        assert_eq!(bound_of(&seen).map(|bound| bound.rate), Some(120.0));
        let told = Closed { service: Some(0.03), ..seen[2] };
        assert_eq!(bound_of(&[seen[0], told]).map(|bound| (bound.service, bound.servers())), Some((0.03, 4)));
    }
}
