//! Marks: comments before a statement that say in which form its driver sends it.
//!
//! Not here: the messages that follow from them (`speaker`).

/// How a statement is sent, where that differs from the other statements of its script. pgbench ignores all of this and
/// sends a whole script in one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As a Query; so is each statement of a simple script.
    Simple,
    /// Together with the following line, without waiting for the answer.
    Ahead,
    /// Without a Sync, because the Query or the Sync of what is sent behind it ends it, too.
    Unsynced,
    /// The values of variables stand in the text and are not bound.
    Literal,
    /// By the unnamed statement, in a script whose other statements have names.
    Unnamed,
    /// Under a new name each time; the statement of the name before is closed.
    Renewed,
    /// Without a Describe.
    Undescribed,
    /// With a Describe only behind its Parse.
    DescribedOnce,
    /// The Execute asks for one row at most.
    OneRow,
}

impl Mark {
    const ALL: [Self; 9] = [
        Self::Simple,
        Self::Ahead,
        Self::Unsynced,
        Self::Literal,
        Self::Unnamed,
        Self::Renewed,
        Self::Undescribed,
        Self::DescribedOnce,
        Self::OneRow,
    ];

    /// The line of a script that is this mark.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::Simple => "-- simple",
            Self::Ahead => "-- ahead",
            Self::Unsynced => "-- unsynced",
            Self::Literal => "-- literal",
            Self::Unnamed => "-- unnamed",
            Self::Renewed => "-- renewed",
            Self::Undescribed => "-- undescribed",
            Self::DescribedOnce => "-- described once",
            Self::OneRow => "-- one row",
        }
    }

    pub(crate) fn of(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.line() == line)
    }
}
