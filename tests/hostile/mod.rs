//! Attacks around the real binary, and what they do to somebody who has nothing to do with them.
//!
//! Each attack has a pooler of its own with one worker, a database of its own that the attacker owns, and a bystander in
//! another database, who makes one small query after the other the whole time. Told are whether the pooler lives, how much
//! memory it took, the bystander's longest wait, and what the attacker was answered.
//!
//! Always true: an attack ends within its deadlines, whatever it is answered.
//! Not here: whether the pooler answers well whom it serves (`real`, `talk`).

pub(crate) mod attack;
pub(crate) mod bystander;
pub(crate) mod table;
pub(crate) mod trial;

mod scene;
mod told;

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
