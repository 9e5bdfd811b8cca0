//! `trunkline capacity`: how much load a system carries within an objective, and what limits it.
//!
//! Always true: nothing is written to the target unless that is asked for by name; a measurement that its generator spoiled, or that was not steady,
//! proves nothing. Nothing is predicted beyond twice what was measured.
//! Not here: load and its histograms (`load`), the laws (`theory`), exit statuses of a wrong command line (crate `trunkline`).

mod attribution;
mod course;
mod evidence;
mod forecast;
mod formats;
mod growth;
mod history;
mod knee;
mod measure;
mod observe;
mod offered;
mod options;
mod outlook;
mod own_schema;
mod page;
mod plan;
mod probe;
mod relations;
mod rig;
#[cfg(test)]
mod rig_tests;
mod scaling;
mod search;
#[cfg(test)]
mod search_tests;
mod slo;
mod step;
mod words;
mod workload;
mod writing;

pub use course::{CapacityError, run};
pub use options::{CapacityOptions, USAGE};
