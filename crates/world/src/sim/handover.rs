//! Memory of an online restart: what was packed, and what has not arrived.
//!
//! Always true: for each packed connection the bytes given and read up to then are known.
//! Not here: how an online restart goes (`takeover`).

use std::fmt;
use std::sync::mpsc::Receiver;

use control::Transfer;
use worker::letters::{Import, Parcel};

use crate::sim::io::SimSocket;

/// An online restart in progress.
pub(crate) struct Handover {
    /// Its seed.
    pub(crate) dice: u64,
    /// Whether the new process comes up.
    pub(crate) succeeds: bool,
    pub(crate) transfer: Transfer<SimSocket>,
    /// The worker that packs next, once everything stands still.
    pub(crate) packs: u8,
    pub(crate) parcels: Option<Receiver<Parcel<SimSocket>>>,
    pub(crate) import: Import<SimSocket>,
    /// The ends of packed connections, with the bytes given and read there by then.
    pub(crate) packed: Vec<(u32, (u64, u64))>,
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover").field("packs", &self.packs).finish_non_exhaustive()
    }
}

/// Connections on their way to a worker of the new process.
#[derive(Debug)]
pub(crate) struct Arriving {
    pub(crate) to: u8,
    pub(crate) ends: Vec<u32>,
    pub(crate) is_there: bool,
}
