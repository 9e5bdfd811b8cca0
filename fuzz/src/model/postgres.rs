//! PostgreSQL's main loop as far as it concerns answers: what it answers to each message.
//!
//! Written from `tcop/postgres.c` (`PostgresMain`, `SocketBackend`) and `commands/copyfromparse.c` (`CopyGetData`) of
//! version 15. What a message does is not read from its text but chosen by the sender.
//!
//! Always true: it answers a message when it reads it, never before; after a FATAL error it reads nothing.
//! Not here: rows, types, names of statements, or any other content of an answer.

/// What a message does in the server, if it is executed at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Does {
    /// It succeeds and returns rows.
    Rows,
    /// It succeeds without rows.
    Nothing,
    /// It fails.
    Fails,
    /// It begins a transaction block.
    Begins,
    /// It ends a transaction block.
    Ends,
    /// COPY FROM STDIN.
    CopiesIn,
    /// COPY TO STDOUT.
    CopiesOut,
    /// A portal returns some of its rows.
    Suspends,
}

pub(crate) const ALL: [Does; 8] =
    [Does::Rows, Does::Nothing, Does::Fails, Does::Begins, Does::Ends, Does::CopiesIn, Does::CopiesOut, Does::Suspends];

/// A message of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asks {
    pub(crate) kind: u8,
    pub(crate) does: Does,
}

impl Asks {
    /// Returns whether the message may be answered, now or later. Messages of a COPY are answered only while one reads.
    pub(crate) fn may_be_answered(self) -> bool {
        !matches!(self.kind, b'H' | b'd' | b'c' | b'f')
    }
}

/// A message of the server: its type, and the status of a ReadyForQuery.
pub(crate) type Answer = (u8, &'static [u8]);

/// A server process.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// `I`, `T` or `E`.
    status: u8,
    /// `ignore_till_sync`.
    is_skipping: bool,
    /// Messages of the extended protocol have begun an implicit transaction, which the next Sync ends.
    is_in_batch: bool,
    /// The end of that transaction would commit something.
    has_batch_work: bool,
    copy: Option<Copy>,
    /// A cancel request has arrived: whatever runs next fails.
    is_cancelled: bool,
    is_dead: bool,
}

/// The protocol by which the COPY FROM STDIN was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Copy {
    Simple,
    Extended,
}

impl Default for Postgres {
    fn default() -> Self {
        Self {
            status: b'I',
            is_skipping: false,
            is_in_batch: false,
            has_batch_work: false,
            copy: None,
            is_cancelled: false,
            is_dead: false,
        }
    }
}

impl Postgres {
    /// Returns whether another client could use this server: the truth that the pooler has to find out by counting.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.status == b'I' && !self.is_skipping && !self.is_in_batch && self.copy.is_none() && !self.is_dead
    }

    /// Returns whether a Sync would now commit what its client has not ended itself.
    pub(crate) fn would_commit(&self) -> bool {
        self.has_batch_work && !self.is_skipping && self.status == b'I' && self.copy.is_none()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// A cancel request arrives. Nothing runs between two messages, so it waits for the next statement.
    pub(crate) fn cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// The cancel request has hit nothing.
    pub(crate) fn cancel_is_over(&mut self) {
        self.is_cancelled = false;
    }

    /// Reads a message and answers it.
    pub(crate) fn reads(&mut self, asks: Asks) -> Vec<Answer> {
        let mut out = Vec::new();
        if self.is_dead {
            return out;
        }
        if let Some(copy) = self.copy {
            self.reads_in_copy(copy, asks, &mut out);
            return out;
        }
        if self.is_skipping && asks.kind != b'S' {
            return out;
        }
        match asks.kind {
            b'S' => self.sync(asks, &mut out),
            b'H' | b'd' | b'c' | b'f' => {}
            b'Q' => self.query(asks, &mut out),
            b'F' => self.function(asks, &mut out),
            b'P' | b'B' | b'D' | b'E' | b'C' => self.extended(asks, &mut out),
            // "invalid frontend message type" is FATAL.
            _ => self.dies(&mut out),
        }
        out
    }

    fn sync(&mut self, asks: Asks, out: &mut Vec<Answer>) {
        let was_skipping = std::mem::take(&mut self.is_skipping);
        // The commit of the batch may fail, by a deferred constraint.
        if asks.does == Does::Fails && self.is_in_batch && !was_skipping && self.status == b'I' {
            out.push((b'E', b""));
        }
        self.ready(out);
    }

    fn query(&mut self, asks: Asks, out: &mut Vec<Answer>) {
        if self.fails(asks.does) {
            self.error(out);
            self.ready(out);
            return;
        }
        match asks.does {
            Does::CopiesIn => {
                self.copy = Some(Copy::Simple);
                out.push((b'G', b""));
                return;
            }
            Does::CopiesOut => out.extend([(b'H', &b""[..]), (b'd', b""), (b'd', b""), (b'c', b""), (b'C', b"")]),
            // Several statements in one query.
            Does::Suspends => out.extend([(b'C', &b""[..]), (b'N', b""), (b'T', b""), (b'C', b"")]),
            Does::Nothing => out.push((b'I', b"")),
            Does::Rows | Does::Fails => out.extend([(b'T', &b""[..]), (b'D', b""), (b'D', b""), (b'C', b"")]),
            Does::Begins | Does::Ends => out.push((b'C', b"")),
        }
        self.moves(asks.does);
        self.ready(out);
    }

    fn function(&mut self, asks: Asks, out: &mut Vec<Answer>) {
        if self.fails(asks.does) {
            self.error(out)
        } else {
            out.push((b'V', b""))
        }
        self.ready(out);
    }

    fn extended(&mut self, asks: Asks, out: &mut Vec<Answer>) {
        self.is_in_batch = true;
        // Describe and Close run nothing that a failed transaction would refuse.
        let is_run = matches!(asks.kind, b'P' | b'B' | b'E');
        let fails = if is_run { self.fails(asks.does) } else { asks.does == Does::Fails };
        if fails {
            self.error(out);
            self.is_skipping = true;
            return;
        }
        match (asks.kind, asks.does) {
            (b'P', _) => out.push((b'1', b"")),
            (b'B', _) => out.push((b'2', b"")),
            (b'C', _) => out.push((b'3', b"")),
            // A portal that returns rows, one that does not, a statement of either kind.
            (b'D', Does::Rows) => out.push((b'T', b"")),
            (b'D', Does::Nothing) => out.push((b'n', b"")),
            (b'D', Does::Suspends) => out.extend([(b't', &b""[..]), (b'T', b"")]),
            (b'D', _) => out.extend([(b't', &b""[..]), (b'n', b"")]),
            (_, Does::CopiesIn) => {
                self.copy = Some(Copy::Extended);
                out.push((b'G', b""));
            }
            (_, Does::CopiesOut) => out.extend([(b'H', &b""[..]), (b'd', b""), (b'c', b""), (b'C', b"")]),
            (_, Does::Suspends) => out.extend([(b'D', &b""[..]), (b's', b"")]),
            (_, Does::Nothing) => out.push((b'I', b"")),
            (_, does) => {
                out.extend([(b'D', &b""[..]), (b'C', b"")]);
                self.moves(does);
            }
        }
        self.has_batch_work |= asks.kind == b'E' && self.copy.is_none();
    }

    fn reads_in_copy(&mut self, copy: Copy, asks: Asks, out: &mut Vec<Answer>) {
        match asks.kind {
            b'd' if asks.does == Does::Fails || self.is_cancelled => self.copy_fails(copy, out),
            b'd' | b'S' | b'H' => {}
            b'c' if asks.does != Does::Fails && !self.is_cancelled => {
                self.copy = None;
                out.push((b'C', b""));
                match copy {
                    Copy::Simple => self.ready(out),
                    Copy::Extended => self.has_batch_work = true,
                }
            }
            b'c' | b'f' => self.copy_fails(copy, out),
            // The message is refused before its length is read, so nobody knows where the next one begins.
            _ => self.dies(out),
        }
    }

    fn copy_fails(&mut self, copy: Copy, out: &mut Vec<Answer>) {
        self.copy = None;
        self.error(out);
        match copy {
            Copy::Simple => self.ready(out),
            Copy::Extended => self.is_skipping = true,
        }
    }

    /// Returns whether a statement fails: by itself, by a cancel request, or because its transaction has failed before.
    fn fails(&mut self, does: Does) -> bool {
        let is_cancelled = std::mem::take(&mut self.is_cancelled);
        is_cancelled || does == Does::Fails || self.status == b'E' && does != Does::Ends
    }

    fn moves(&mut self, does: Does) {
        match does {
            Does::Begins => self.status = b'T',
            Does::Ends => self.status = b'I',
            _ => {}
        }
    }

    fn error(&mut self, out: &mut Vec<Answer>) {
        self.is_cancelled = false;
        self.has_batch_work = false;
        out.push((b'E', b""));
        if self.status == b'T' {
            self.status = b'E';
        }
    }

    fn ready(&mut self, out: &mut Vec<Answer>) {
        self.is_in_batch = false;
        self.has_batch_work = false;
        out.push((
            b'Z',
            match self.status {
                b'T' => b"T",
                b'E' => b"E",
                _ => b"I",
            },
        ));
    }

    fn dies(&mut self, out: &mut Vec<Answer>) {
        self.is_dead = true;
        out.push((b'E', b""));
    }
}
