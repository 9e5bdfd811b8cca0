//! A client's first request goes along with what its server is told first, in one packet, where that is safe.
//!
//! Always true: a request that went along is not run if the server does not take what it is told, for it skips everything up to the
//! next Sync then: there is one in the request, its end, or none.
//! Not here: what a server is told (`protocol::state`), when (`loan`).

use protocol::vars::Tracked;
use wire::{backend, frontend};

use crate::client::{Client, Stage};

/// Whether these bytes are one request: a Query, or messages of the extended protocol up to their Sync.
pub(crate) fn is_one_request(bytes: &[u8]) -> bool {
    let mut at = 0;
    loop {
        let Some((&kind, rest)) = bytes.get(at..).and_then(|rest| rest.split_first()) else { return false };
        let Some(length) = rest.first_chunk().map(|length| u32::from_be_bytes(*length) as usize) else { return false };
        let end = at + 1 + length;
        if length < 4 || end > bytes.len() {
            return false;
        }
        match kind {
            frontend::QUERY => return at == 0 && end == bytes.len(),
            frontend::SYNC => return at > 0 && end == bytes.len(),
            frontend::PARSE
            | frontend::BIND
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::CLOSE
            | frontend::FLUSH => {}
            _ => return false,
        }
        at = end;
    }
}

impl Client {
    /// Whether this `ParameterStatus` tells it the `application_name` that it has.
    pub(crate) fn has_name(&self, tracked: &Tracked, status: &[u8]) -> bool {
        let place = tracked.application_name();
        match (backend::parameter_status(status), &self.stage) {
            (Some((name, value)), Stage::Ready(ready)) => {
                tracked.place(name) == Some(place) && ready.vars.get(place) == Some(value)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::write;

    use super::*;

    fn batch(kinds: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        kinds.iter().for_each(|&kind| write::bare(&mut bytes, kind));
        bytes
    }

    #[test]
    fn one_request_goes_along() {
        for kinds in [&b"Q"[..], b"PBDES", b"BEBES", b"PDHS", b"CS"] {
            assert!(is_one_request(&batch(kinds)), "{kinds:?}");
        }
    }

    #[test]
    fn what_would_be_run_behind_a_sync_does_not() {
        for kinds in [&b"BE"[..], b"BESBES", b"BESQ", b"QQ", b"BEQ", b"S", b"BESX", b"FS", b"dS", b""] {
            assert!(!is_one_request(&batch(kinds)), "{kinds:?}");
        }
        let mut query = Vec::new();
        write::query(&mut query, "select 1");
        assert!(!is_one_request(&query[..7]), "it has not come whole");
        assert!(!is_one_request(b"Q\0\0\0\x02"), "no message is that short");
    }
}
