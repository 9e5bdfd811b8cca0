//! Where the requests of one client go.
//!
//! Always true: a client whose requests are routed belongs to the pool of the primary, and is with that of the replicas only from asking
//! for a server until its loan ends.
//! Not here: which requests go where (`choose`).

use base::Time;
use cluster::{Replayed, log_position};
use pool::PoolKey;
use route::{may_end_transaction, may_write_after_all};

use crate::reads::withheld::Withheld;

/// Where the requests of a client go.
#[derive(Debug)]
pub(crate) struct Routing {
    /// The pool of the primary.
    home: PoolKey,
    /// Its last request at the primary may have written, and has not been dated yet.
    may_have_written: bool,
    /// What its request at the primary has said: that it only reads, for its transaction, which it may take back.
    promise: Promise,
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

/// Whether a client whose loan at the primary began with a request that says that it only reads keeps to that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// It has not said so, or has written since.
    None,
    /// It has said so, and that request is to be sent.
    Fresh,
    /// The request was sent. If a later text may have ended the transaction, it says nothing of what is behind that.
    Kept { may_have_ended: bool },
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
        Self { home, may_have_written: false, promise: Promise::None, wrote_at, goes_home: false, read: None }
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
        self.promise = Promise::None;
    }

    /// A read goes to the primary for want of a replica. It may have said itself that it only reads, as does what follows in its transaction.
    pub(super) fn stays(&mut self, promises: bool) {
        self.goes_to_primary(false);
        self.promise = if promises { Promise::Fresh } else { Promise::None };
    }

    /// Whether what the client sends has to be looked at ([`Routing::look_at`]), because it has said that it only reads.
    pub(crate) fn promises(&self) -> bool {
        self.promise != Promise::None
    }

    /// Looks at what the client sends to the primary: `texts` passes each text in it to a function until that returns true, and returns
    /// whether it has, or could not read all. `is_outside` says that the server is outside of transactions and owes nothing.
    ///
    /// What the client has said is true of its transaction alone: what comes behind that, in a loan that goes on or in the same request,
    /// counts as a write, and so does what may turn the transaction into one that writes.
    pub(crate) fn look_at(&mut self, is_outside: bool, texts: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> bool) {
        let mut may_have_ended = match self.promise {
            Promise::None => return,
            Promise::Fresh => false,
            Promise::Kept { may_have_ended } => may_have_ended || is_outside,
        };
        let writes = texts(&mut |text| {
            let is_behind = may_have_ended;
            may_have_ended |= may_end_transaction(text);
            is_behind || may_write_after_all(text)
        });
        self.promise = if writes { Promise::None } else { Promise::Kept { may_have_ended } };
        self.may_have_written |= writes;
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

    /// A client that has said that it only reads sends these requests to the primary, each with the state of its server. Returns
    /// whether its next read waits for what it may have written.
    fn waits_after(requests: &[(bool, &[&str])]) -> bool {
        let mut routing = Routing::new(Key::first(0), None);
        routing.stays(true);
        for (is_outside, texts) in requests {
            routing.look_at(*is_outside, |is| texts.iter().any(|text| is(text.as_bytes())));
        }
        routing.asks(Time(20));
        assert!(!routing.promises() && routing.may_read(&replayed(20), MinLsn::None));
        !routing.may_read(&replayed(19), MinLsn::None)
    }

    #[test]
    fn who_writes_after_all_reads_that_as_well() {
        let begin: (bool, &[&str]) = (true, &["begin read only"]);
        for requests in [
            &[begin][..],
            &[begin, (false, &["select 1"]), (false, &["commit"])],
            &[begin, (false, &["set transaction isolation level serializable"]), (false, &["rollback; "])],
            &[(true, &["begin read only; select 1; select 2"]), (false, &["commit"])],
            &[(true, &["begin read only", "select 1", "commit"])],
        ] {
            assert!(!waits_after(requests), "{requests:?} keeps to it");
        }
        for requests in [
            &[begin, (false, &["set transaction READ WRITE"]), (false, &["commit"])][..],
            &[begin, (false, &["set local transaction_read_only to off"])],
            &[begin, (false, &["reset Transaction_Read_Only"])],
            &[begin, (false, &["commit; insert into t values (1)"])],
            &[(true, &["begin read only; commit; insert into t values (1)"])],
            &[begin, (false, &["Rollback", "update t set a = 1"])],
            &[begin, (false, &["commit"]), (false, &["update t set a = 1"])],
            &[(true, &["select pg_advisory_lock(1)"]), (true, &["insert into t values (1)"])],
        ] {
            assert!(waits_after(requests), "{requests:?} may have written");
        }
    }

    #[test]
    fn what_cannot_be_read_may_have_written() {
        let mut routing = Routing::new(Key::first(0), None);
        routing.stays(true);
        routing.look_at(false, |_| true);
        assert!(!routing.promises(), "there is nothing left to look at");
        routing.asks(Time(20));
        assert!(!routing.may_read(&replayed(19), MinLsn::None));
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
