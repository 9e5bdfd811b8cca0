//! What queueing theory says about a pool of servers: the truths that a simulation is tested against, and by which it is explained.
//!
//! Always true: times are in seconds and rates in events per second, whatever the caller's own units are; an impossible input (a load
//! that no number of servers carries, an empty sample) gives `None` or infinity, never a panic.
//! Not here: the simulation itself (`simulate`), and what was observed on a real system.

pub mod estimate;
pub mod heavy_traffic;
pub mod lru;
pub mod mmc;
pub mod replay;
pub mod staffing;
pub mod usl;
mod usl_fit;
