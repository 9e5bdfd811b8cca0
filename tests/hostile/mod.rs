//! Attacks on the real binary, and how they affect an uninvolved client.
//!
//! Each attack has a pooler of its own with one worker, a database of its own that the attacker owns, and a bystander in
//! another database that runs one small query after the other all the time. Reported are whether the pooler is alive, the
//! memory that it took, the bystander's longest wait, and what the attacker was told.
//!
//! Always true: an attack ends within its deadlines, whatever it is told.
//! Not here: correct service (`real`, `talk`).

pub(crate) mod attack;
pub(crate) mod bystander;
pub(crate) mod table;
pub(crate) mod trial;

mod scene;
mod told;

mod advisories;
mod crowds;
mod deep;
mod directories;
mod doors;
mod hashes;
mod lists;
mod messages;
mod objects;
mod owners;
mod servers;
mod wide;
