//! Ceilings: how many servers PostgreSQL and its machine bear.
//!
//! Always true: a ceiling whose inputs are not known has no value, and says which option gives them. Ceilings of work are about servers at work
//! at once, the others about open connections of one process of the pooler.
//! Not here: floors (`sizing`).

use super::candidates::Candidate;
use super::terms::{BACKEND_BYTES, RESERVED, SYSTEM_BYTES, Terms};
use crate::facts::Demand;
use crate::table::{count, short};

/// Ceilings of open connections, for one process.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ceilings {
    pub(crate) list: Vec<Candidate>,
}

/// Ceilings of servers at work at once.
pub(crate) fn of_work(demand: &Demand, terms: &Terms) -> Vec<Candidate> {
    vec![processors(demand, terms), scalability(terms)]
}

fn processors(demand: &Demand, terms: &Terms) -> Candidate {
    let formula = "cores x (1 + W/C), W/C = time with a server without computing / time computing";
    let computing = terms.computing.or(demand.computing).filter(|share| *share > 0.0);
    let (value, measured) = match (terms.cores, computing) {
        (Some(cores), Some(share)) => {
            let ratio = (1.0 - share).max(0.0) / share;
            (Some(cores * (1.0 + ratio)), format!("{} cores, W/C {}", count(cores), short(ratio)))
        }
        (None, _) => (None, "needs --cores COUNT".to_owned()),
        (_, None) => (None, "needs --computing SHARE: what part of the time with a server is computing".to_owned()),
    };
    Candidate::ceiling("processors", value, formula, measured)
}

fn scalability(terms: &Terms) -> Candidate {
    let formula = "N_max = sqrt((1 - alpha) / beta): more at once do less (Universal Scalability Law)";
    let (value, measured) = match terms.scalability {
        Some((alpha, beta)) if beta > 0.0 => {
            (Some(((1.0 - alpha).max(0.0) / beta).sqrt()), format!("alpha {alpha}, beta {beta}"))
        }
        Some((alpha, _)) => (None, format!("alpha {alpha}, beta 0: throughput never falls")),
        None => (None, "needs --scalability ALPHA,BETA, as trunkline capacity fits them".to_owned()),
    };
    Candidate::ceiling("scalability", value, formula, measured)
}

/// Ceilings of open connections.
pub(crate) fn of_server(_demand: &Demand, terms: &Terms) -> Ceilings {
    Ceilings { list: vec![memory(terms), slots(terms)] }
}

fn memory(terms: &Terms) -> Candidate {
    let formula = "(RAM x 0.9 - shared memory - system) / (backend + page tables + work_mem) / processes";
    let (Some(ram), Some(shared)) = (terms.ram, terms.shared_buffers) else {
        return Candidate::ceiling("memory", None, formula, "needs --ram SIZE and --shared-buffers SIZE".to_owned());
    };
    // One page table entry of 8 bytes for each page of 4 kB that a backend has touched.
    let tables = if terms.has_huge_pages { 0.0 } else { shared / 512.0 };
    let base = terms.backend_memory.unwrap_or(BACKEND_BYTES);
    let sorts = terms.work_mem.unwrap_or(4.0 * MIB);
    let each = base + tables + sorts;
    let room = (ram * 0.9 - shared - SYSTEM_BYTES).max(0.0);
    let measured = format!(
        "({} - {} - {} MB) / ({} + {} + {} MB)",
        mib(ram * 0.9),
        mib(shared),
        mib(SYSTEM_BYTES),
        mib(base),
        mib(tables),
        mib(sorts)
    );
    Candidate::ceiling("memory", Some(room / each / terms.replicas()), formula, measured)
}

fn slots(terms: &Terms) -> Candidate {
    let formula = "(max_connections - reserved - direct) / processes";
    let Some(most) = terms.max_connections else {
        return Candidate::ceiling("max_connections", None, formula, "needs --max-connections COUNT".to_owned());
    };
    let (reserved, direct) = (terms.reserved.unwrap_or(RESERVED), terms.direct.unwrap_or(0.0));
    let measured = format!("({} - {} - {}) / {}", count(most), count(reserved), count(direct), count(terms.replicas()));
    let value = ((most - reserved - direct).max(0.0) / terms.replicas()).floor();
    Candidate::ceiling("max_connections", Some(value), formula, measured)
}

fn mib(bytes: f64) -> String {
    short(bytes / MIB)
}

const MIB: f64 = 1024.0 * 1024.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percona_s_huge_pages_make_room_for_more_backends() {
        const GIB: f64 = 1024.0 * MIB;
        let terms = |has_huge_pages| Terms {
            ram: Some(192.0 * GIB),
            shared_buffers: Some(138.0 * GIB),
            has_huge_pages,
            ..Terms::default()
        };
        // 138 GiB / 512 = 276 MiB of page tables for each backend.
        let small = memory(&terms(false)).value.expect("known");
        let huge = memory(&terms(true)).value.expect("known");
        assert!((small - (172.8 - 138.0 - 0.5) * 1024.0 / 285.0).abs() < 0.1, "{small}");
        assert!(huge / small > 30.0, "{huge}");
    }

    #[test]
    fn slots_are_divided_over_processes() {
        let terms = Terms { max_connections: Some(500.0), direct: Some(20.0), replicas: Some(3.0), ..Terms::default() };
        assert_eq!(slots(&terms).value, Some(159.0));
        assert_eq!(slots(&Terms::default()).value, None);
    }
}
