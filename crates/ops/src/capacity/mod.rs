//! `trunkline capacity`: how much load a system carries within an objective, and what limits it.
//!
//! Always true: nothing is written to the target unless that is asked for by name; a measurement that its generator spoiled, or that was not steady,
//! proves nothing. Nothing is predicted beyond twice what was measured.
//! Not here: load and its histograms (`load`), the laws (`theory`), exit statuses of a wrong command line (crate `trunkline`).

mod evidence;
mod forecast;
mod growth;
mod history;
mod knee;
mod outlook;
mod plan;
mod probe;
mod relations;
mod scaling;
mod search;
#[cfg(test)]
mod search_tests;
mod slo;
mod step;
mod workload;
