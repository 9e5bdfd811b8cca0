//! How commands reach what runs and ask it: connection strings, questions with time limits, the end by Ctrl-C, how far a run is.
//!
//! Always true: a command that is ended before its time still says what it knows.
//! Not here: what is asked (`facts`), load (`load`), a client's view of failures (`hatest`).

mod line;
mod progress;
mod secure;
mod stop;

pub(crate) use line::{Line, address, console_target, in_database, server_target, writing_target};
pub(crate) use progress::Progress;
pub(crate) use secure::{Tls, tls_of};
pub(crate) use stop::Stop;
