//! Where the requests of one client go.
//!
//! Always true: a client whose requests are routed belongs to the pool of the primary, and is with that of the replicas only from asking
//! for a server until its loan ends.
//! Not here: which requests go where (`choose`).

use base::Time;
use cluster::{Replayed, log_position};
use pool::PoolKey;

use crate::reads::withheld::Withheld;

/// Where the requests of a client go.
#[derive(Debug)]
pub(crate) struct Routing {
    /// The pool of the primary.
    home: PoolKey,
    /// Its last request at the primary may have written, and has not been dated yet.
    may_have_written: bool,
    /// Its present request at the primary begins a transaction that says that it only reads, which it may take back.
    promises: bool,
    /// When the last such request had been answered.
    wrote_at: Option<Time>,
    /// The next request is one that a replica has refused: if it is a read, it goes to the primary.
    goes_home: bool,
    /// The request that a replica is to answer.
    pub(super) read: Option<Read>,
}

/// A request that a replica is to answer.
#[derive(Debug)]
pub(crate) struct Read {
    /// Its bytes, if it is sent to the primary should the replica refuse it.
    pub(super) request: Option<Box<[u8]>>,
    /// Whether it may be sent to the primary even if the replica is lost.
    pub(super) outlives_server: bool,
    /// What has been answered so far, if the client is not given that yet.
    pub(super) withheld: Option<Withheld>,
}

/// The position in the log that a replica has to have replayed for the reads of a client (`trunkline.min_lsn`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MinLsn {
    /// Any.
    None,
    /// This one.
    At(u64),
    /// What was set is no position: no replica is known to be far enough.
    Unreadable,
}

impl Read {
    /// Whether the client has said itself that it only reads; else that is proven.
    pub(super) fn is_promised(&self) -> bool {
        self.request.is_none()
    }
}

impl MinLsn {
    pub(super) fn of(value: Option<&str>) -> Self {
        match value.map(str::trim) {
            None | Some("") => Self::None,
            Some(text) => log_position(text).map_or(Self::Unreadable, Self::At),
        }
    }
}

impl Routing {
    /// The client may have written until `wrote_at`.
    pub(crate) fn new(home: PoolKey, wrote_at: Option<Time>) -> Self {
        Self { home, may_have_written: false, promises: false, wrote_at, goes_home: false, read: None }
    }

    /// The pool of the primary.
    pub(crate) fn home(&self) -> PoolKey {
        self.home
    }

    /// Whether a replica is to answer the request that the client waits for.
    pub(crate) fn is_reading(&self) -> bool {
        self.read.is_some()
    }

    /// The client asks for a server; all its requests so far had been answered at this time.
    pub(super) fn asks(&mut self, answered: Time) {
        if std::mem::take(&mut self.may_have_written) {
            self.wrote_at = Some(answered);
        }
        self.promises = false;
    }

    /// A read goes to the primary for want of a replica. It may have said itself that it only reads, as does what follows in its transaction.
    pub(super) fn stays(&mut self, promises: bool) {
        self.goes_to_primary(false);
        self.promises = promises;
    }

    /// Whether what the client sends has to be looked at, because it has said that it only reads ([`may_write_after_all`]).
    pub(crate) fn promises(&self) -> bool {
        self.promises && !self.may_have_written
    }

    /// The client may write in a transaction of which it had said that it only reads.
    pub(crate) fn writes_after_all(&mut self) {
        self.may_have_written = true;
    }

    /// The request goes to the primary.
    pub(super) fn goes_to_primary(&mut self, may_write: bool) {
        self.read = None;
        self.may_have_written |= may_write;
    }

    /// Whether a replica has refused the next request, so that the primary is to read for it; asked once.
    pub(super) fn is_sent_home(&mut self) -> bool {
        std::mem::take(&mut self.goes_home)
    }

    /// Takes back the request that a replica has refused: it goes to the primary when it is looked at again.
    pub(super) fn send_home(&mut self) -> Option<Box<[u8]>> {
        let request = self.take_back();
        self.goes_home = request.is_some();
        request
    }

    /// Takes back the request that a replica was to answer.
    pub(super) fn take_back(&mut self) -> Option<Box<[u8]>> {
        self.read.take()?.request
    }

    /// Whether a replica has replayed all that the client has written, and what it has asked for besides.
    pub(super) fn may_read(&self, replica: &Replayed, asked: MinLsn) -> bool {
        let has_position = match asked {
            MinLsn::None => true,
            MinLsn::At(position) => replica.position >= position,
            MinLsn::Unreadable => false,
        };
        has_position && self.wrote_at.is_none_or(|wrote_at| replica.since >= wrote_at)
    }
}

/// Whether a text may turn a transaction that only reads into one that writes, which PostgreSQL allows in front of its first query:
/// `SET TRANSACTION READ WRITE`, `SET transaction_read_only = off`.
pub(crate) fn may_write_after_all(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    has(b"write") || has(b"read_only")
}

#[cfg(test)]
mod tests {
    use base::Key;

    use super::*;

    fn replayed(since: u64) -> Replayed {
        Replayed { host: "b:1".into(), since: Time(since), position: 7 }
    }

    #[test]
    fn what_a_client_has_written_it_reads() {
        let mut routing = Routing::new(Key::first(0), None);
        routing.asks(Time(5));
        assert!(routing.may_read(&replayed(0), MinLsn::None), "it has written nothing");
        routing.goes_to_primary(true);
        routing.asks(Time(10));
        assert!(!routing.may_read(&replayed(9), MinLsn::None) && routing.may_read(&replayed(10), MinLsn::None));
        routing.goes_to_primary(false);
        routing.asks(Time(20));
        assert!(routing.may_read(&replayed(10), MinLsn::None), "a read at the primary writes nothing");
    }

    #[test]
    fn who_writes_after_all_reads_that_as_well() {
        let mut routing = Routing::new(Key::first(0), None);
        routing.stays(true);
        assert!(routing.promises());
        routing.asks(Time(10));
        assert!(!routing.promises() && routing.may_read(&replayed(9), MinLsn::None), "it has kept its promise");
        routing.stays(true);
        routing.writes_after_all();
        assert!(!routing.promises());
        routing.asks(Time(20));
        assert!(!routing.may_read(&replayed(19), MinLsn::None) && routing.may_read(&replayed(20), MinLsn::None));
        for text in
            ["set transaction READ WRITE", "set local transaction_read_only to off", "reset Transaction_Read_Only"]
        {
            assert!(may_write_after_all(text.as_bytes()), "{text}");
        }
        for text in ["set transaction isolation level serializable", "select 1", "begin read only", ""] {
            assert!(!may_write_after_all(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_client_reads_from_a_position_on_that_it_was_told() {
        let routing = Routing::new(Key::first(0), None);
        for (value, may_read) in [
            (None, true),
            (Some(""), true),
            (Some("0/7"), true),
            (Some(" 0/7 "), true),
            (Some("0/8"), false),
            (Some("yesterday"), false),
        ] {
            assert_eq!(routing.may_read(&replayed(0), MinLsn::of(value)), may_read, "{value:?}");
        }
    }

    #[test]
    fn a_refused_read_goes_to_the_primary_once() {
        let mut routing = Routing::new(Key::first(0), None);
        routing.read = Some(Read { request: Some(b"Q"[..].into()), outlives_server: true, withheld: None });
        assert_eq!(routing.send_home().as_deref(), Some(&b"Q"[..]));
        assert!(!routing.is_reading() && routing.is_sent_home() && !routing.is_sent_home());
        routing.read = Some(Read { request: None, outlives_server: false, withheld: None });
        assert!(routing.send_home().is_none() && !routing.is_sent_home());
        routing.read = Some(Read { request: Some(b"Q"[..].into()), outlives_server: true, withheld: None });
        assert!(routing.take_back().is_some() && !routing.is_sent_home(), "the primary has been asked already");
    }

    #[test]
    fn what_was_written_before_anybody_looked_is_read_as_well() {
        let routing = Routing::new(Key::first(0), Some(Time(10)));
        assert!(!routing.may_read(&replayed(9), MinLsn::None) && routing.may_read(&replayed(10), MinLsn::None));
    }
}
