//! Tallies the answer to one request, while requests are observed.
//!
//! Always true: it counts what goes to the client.
//! Not here: which requests are observed, and what the tally is used for (`worker::observe::statements`).

/// The answer to a request so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnswerTally {
    /// Rows that were returned or changed, according to the command tags.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// The SQLSTATE of the first error.
    pub state: Option<[u8; 5]>,
    /// The first error is to be kept as a whole.
    pub keeps_error: bool,
    /// The first `ErrorResponse`, if it is not longer than [`ERROR_BYTES_MAX`].
    pub error: Option<Box<[u8]>>,
}

impl AnswerTally {
    /// Counts a completed command with this tag: `SELECT 3`, `INSERT 0 1`, `BEGIN`.
    pub(super) fn completes(&mut self, tag: &[u8]) {
        let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
        let last = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        let number = std::str::from_utf8(last).ok().and_then(|digits| digits.parse::<u64>().ok());
        self.rows = self.rows.saturating_add(number.unwrap_or(0));
    }

    /// Adds the answer to a later request, except for its error message.
    pub fn add(&mut self, later: &Self) {
        self.rows = self.rows.saturating_add(later.rows);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.state = self.state.or(later.state);
    }

    /// Notes an error.
    pub(super) fn fails(&mut self, body: &[u8]) {
        let fields = body.split(|byte| *byte == 0);
        let state = fields.filter_map(|field| field.strip_prefix(b"C")).find_map(|code| <[u8; 5]>::try_from(code).ok());
        let is_state = |state: &[u8; 5]| state.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        let state = state.filter(is_state);
        if self.keeps_error && self.state.is_none() && state.is_some() && body.len() <= ERROR_BYTES_MAX {
            self.error = Some(body.into());
        }
        self.state = self.state.or(state);
    }
}

/// The longest error that is kept.
const ERROR_BYTES_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_rows_and_errors_tell_their_state() {
        let mut tally = AnswerTally::default();
        for tag in [&b"SELECT 3\0"[..], b"INSERT 0 2\0", b"BEGIN\0", b"CREATE TABLE\0", b"COPY 10\0", b"", b"FETCH x\0"]
        {
            tally.completes(tag);
        }
        assert_eq!((tally.rows, tally.state), (15, None));
        tally.fails(b"SERROR\0VERROR\0Cbad\0\0");
        tally.fails(b"SERROR\0C4000\x1b\0Mx\0\0");
        assert_eq!(tally.state, None);
        tally.fails(b"SERROR\0VERROR\0C40001\0Mserialization\0\0");
        tally.fails(b"SERROR\0C25P02\0\0");
        assert_eq!((tally.state, tally.error), (Some(*b"40001"), None));
    }

    #[test]
    fn the_first_error_is_kept_for_who_wants_to_see_it() {
        let mut tally = AnswerTally { keeps_error: true, ..AnswerTally::default() };
        tally.fails(b"SERROR\0C40001\0Mfirst\0\0");
        tally.fails(b"SERROR\0C25P02\0Msecond\0\0");
        assert_eq!(tally.error.as_deref(), Some(&b"SERROR\0C40001\0Mfirst\0\0"[..]));
        let mut tally = AnswerTally { keeps_error: true, ..AnswerTally::default() };
        tally.fails(&[b"C40001\0M", &b"x".repeat(ERROR_BYTES_MAX)[..], b"\0\0"].concat());
        assert_eq!((tally.state, tally.error), (Some(*b"40001"), None));
    }
}
