//! Letters between threads, on their way.
//!
//! Always true: a letter is first written and later posted; who may read it is decided when it is posted.
//! Not here: how long it takes (`state`), what is recorded of it (`post`).

use worker::letters::{ToControl, ToWorker};

use crate::sim::io::SimSocket;

/// A letter on its way.
#[derive(Debug)]
pub(crate) enum Envelope {
    ToWorker {
        to: u8,
        letter: ToWorker<SimSocket>,
    },
    /// From the control thread.
    FromControl {
        to: u8,
        letter: ToWorker<SimSocket>,
    },
    /// From a worker of the process whose first worker has this place.
    ToControl {
        first: u8,
        letter: ToControl,
    },
}
