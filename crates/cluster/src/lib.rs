//! Which host of a cluster is the primary, whether it may be written to, and the course of a switchover.
//!
//! Always true: nothing here opens a socket or reads a clock; events come with their time, and commands go out. A host is made the
//! primary only after it has said itself, in answer to a query, that it is not in recovery.
//! Not here: asking hosts and Patroni (`control::clusters`), holding clients (`worker`).
//!
//! To read it, begin with `event`, then `cluster`, then `switchover`.

mod agents;
mod changes;
mod cluster;
mod event;
mod identity;
mod intervals;
mod lag;
mod member;
mod planted;
mod replayed;
mod roster;
mod rotation;
mod schedule;
mod store;
mod succession;
mod suspicion;
mod switchover;

pub use agents::{AgentAnswer, AgentMember};
pub use cluster::Cluster;
pub use event::{Command, Event, Gate, News, SlotLag, State, Terms};
pub use lag::{Lag, LagLimit};
pub use member::{Checked, Member, MemberRole, Report};
pub use replayed::{Replayed, log_position};
pub use rotation::{Rotation, Turn};
pub use schedule::PlannedSwitchover;
pub use store::{StoreAnswer, StoreVersion};
pub use succession::Heritage;
pub use switchover::Summary;
