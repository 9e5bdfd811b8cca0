//! Whether the generator was good enough for what it measured.
//!
//! Always true: a run that is void says why, each reason with its figure and its limit.
//! Not here: whether the system under load was steady (`steady`).

/// What a run tells of its generator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fitness {
    /// The 99th percentile of the generator's own delay, in microseconds.
    pub(crate) lag_p99: u64,
    /// The median of the times that are reported, in microseconds.
    pub(crate) reported_p50: u64,
    /// The share of its processor that a generator thread used, from 0 to 1; the largest of all threads.
    pub(crate) cpu_share: f64,
    /// Answers over requests that were due.
    pub(crate) achieved: f64,
    /// Whether the server had processors to spare; `None` if that is not known.
    pub(crate) is_server_idle: Option<bool>,
    /// Requests a second, and how many the generator can do against a responder that answers at once, if that was tried.
    pub(crate) rate: f64,
    pub(crate) rate_max: Option<f64>,
}

/// Why a run is void; empty if it is not.
pub(crate) fn reasons_against(fitness: &Fitness) -> Vec<String> {
    let mut reasons = Vec::new();
    let lag_max = fitness.reported_p50 as f64 * LAG_SHARE_MAX;
    if fitness.lag_p99 as f64 > lag_max && fitness.lag_p99 > LAG_SEEN_MIN {
        reasons.push(format!(
            "requests left the generator up to {:.3} ms late (p99), more than a tenth of the reported median of {:.3} ms",
            fitness.lag_p99 as f64 / 1e3,
            fitness.reported_p50 as f64 / 1e3
        ));
    }
    if fitness.cpu_share > CPU_SHARE_MAX {
        reasons.push(format!(
            "the generator used {:.0} % of its processor, more than {:.0} %",
            fitness.cpu_share * 100.0,
            CPU_SHARE_MAX * 100.0
        ));
    }
    if fitness.achieved < ACHIEVED_MIN && fitness.is_server_idle == Some(true) {
        reasons.push(format!(
            "only {:.2} % of the requests that were due were answered, though the server was idle",
            fitness.achieved * 100.0
        ));
    }
    if let Some(most) = fitness.rate_max.filter(|most| fitness.rate > *most * CPU_SHARE_MAX) {
        reasons.push(format!(
            "{:.0} requests a second are more than {:.0} % of the {most:.0} that the generator can do",
            fitness.rate,
            CPU_SHARE_MAX * 100.0
        ));
    }
    reasons
}

const LAG_SHARE_MAX: f64 = 0.1;
/// No clock of a busy machine wakes a program more exactly than this, in microseconds.
const LAG_SEEN_MIN: u64 = 100;
const CPU_SHARE_MAX: f64 = 0.7;
pub(crate) const ACHIEVED_MIN: f64 = 0.995;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_makes_a_run_void_by_itself() {
        let fit = Fitness {
            lag_p99: 400,
            reported_p50: 5000,
            cpu_share: 0.3,
            achieved: 0.999,
            is_server_idle: Some(true),
            rate: 1000.0,
            rate_max: Some(30_000.0),
        };
        assert!(reasons_against(&fit).is_empty());
        for (unfit, word) in [
            (Fitness { lag_p99: 600, ..fit }, "0.600 ms late"),
            (Fitness { cpu_share: 0.71, ..fit }, "71 % of its processor"),
            (Fitness { achieved: 0.99, ..fit }, "99.00 %"),
            (Fitness { rate: 25_000.0, ..fit }, "more than 70 % of the 30000"),
        ] {
            let reasons = reasons_against(&unfit);
            assert!(reasons.len() == 1 && reasons[0].contains(word), "{reasons:?}");
        }
        // A server that is busy is a result, not a mistake of the generator.
        assert!(reasons_against(&Fitness { achieved: 0.5, is_server_idle: Some(false), ..fit }).is_empty());
        assert!(reasons_against(&Fitness { achieved: 0.5, is_server_idle: None, ..fit }).is_empty());
    }
}
