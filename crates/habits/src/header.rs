//! The header of a script: comments with its title, the drivers that send it, when they do, and the query protocol.

/// A sender of the script, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The driver, ORM or framework, with its version.
    pub who: String,
    /// The file in the package of the sender, and the function.
    pub file: String,
    /// When the sender sends it.
    pub moment: Moment,
}

/// When a script is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// After a connection has been opened.
    Connect,
    /// When a connection is taken out of a pool.
    Checkout,
    /// When a connection is returned to a pool.
    Release,
    /// Before, after or in each transaction.
    Transaction,
    /// Before, after or with each statement.
    Statement,
}

impl Moment {
    const ALL: [Self; 5] = [Self::Connect, Self::Checkout, Self::Release, Self::Transaction, Self::Statement];

    /// The word used in headers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Checkout => "checkout",
            Self::Release => "release",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        }
    }
}

/// The query protocol of a script, as for pgbench's `-M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Query.
    Simple,
    /// Parse of the unnamed statement, Bind, Describe, Execute, Sync.
    Extended,
    /// Parse once, then Bind, Describe, Execute, Sync.
    Prepared,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Simple, Self::Extended, Self::Prepared];

    /// The word used in headers.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

/// A parsed header.
pub(crate) struct Header {
    pub(crate) title: String,
    pub(crate) senders: Vec<Sender>,
    pub(crate) protocol: Protocol,
    pub(crate) startup: Vec<(String, String)>,
    pub(crate) keeps: Option<String>,
    pub(crate) not_beside_pgbouncer: Option<String>,
    pub(crate) not_measured: Option<String>,
}

impl Header {
    /// Parses the header, and returns it with the number of the first line after it.
    pub(crate) fn read(text: &str) -> Result<(Self, usize), (usize, String)> {
        let (mut title, mut protocol) = (String::new(), None);
        let (mut startup, mut not_measured) = (Vec::new(), None);
        let (mut senders, mut keeps, mut not_beside_pgbouncer) = (Vec::new(), None, None);
        let mut end = 1;
        for (line, words) in entries(text) {
            end = line + 1;
            let mistake = |what: &str| (line, what.to_owned());
            match words.split_once(": ").map(|(key, value)| (key, value.trim())) {
                Some(("by", value)) => senders.push(sender(value).ok_or(mistake(BY))?),
                Some(("protocol", value)) => {
                    let named = Protocol::ALL.into_iter().find(|protocol| protocol.word() == value);
                    protocol = Some(named.ok_or(mistake("protocol is simple, extended or prepared"))?);
                }
                Some(("startup", value)) => {
                    let (name, value) = value.split_once('=').ok_or(mistake("`startup: NAME=VALUE`"))?;
                    startup.push((name.to_owned(), value.to_owned()));
                }
                Some(("keeps its server", value)) => keeps = Some(value.to_owned()),
                Some(("not beside PgBouncer", value)) => not_beside_pgbouncer = Some(value.to_owned()),
                Some(("not measured", value)) => not_measured = Some(value.to_owned()),
                _ if senders.is_empty() && title.is_empty() => words.clone_into(&mut title),
                _ if senders.is_empty() => title = format!("{title} {words}"),
                _ => return Err(mistake(KEYS)),
            }
        }
        let missing = |what: &str| (end, format!("the header does not say {what}"));
        match (title.is_empty(), senders.is_empty(), protocol) {
            (true, _, _) => Err(missing("what it is")),
            (_, true, _) => Err(missing("by whom it is sent (`by: `)")),
            (_, _, None) => Err(missing("how it is sent (`protocol: `)")),
            (_, _, Some(protocol)) => {
                Ok((Self { title, senders, protocol, startup, keeps, not_beside_pgbouncer, not_measured }, end))
            }
        }
    }
}

/// The comment lines at the top, with their line numbers.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines.map_while(|(number, line)| Some((number, line.strip_prefix("-- ")?.trim())))
}

fn sender(value: &str) -> Option<Sender> {
    let mut parts = value.split("; ").map(str::trim);
    let (who, file, word) = (parts.next()?, parts.next()?, parts.next()?);
    let moment = Moment::ALL.into_iter().find(|moment| moment.word() == word)?;
    (parts.next().is_none() && !who.is_empty() && !file.is_empty()).then(|| Sender {
        who: who.into(),
        file: file.into(),
        moment,
    })
}

const KEYS: &str =
    "a header has `by`, `protocol`, `startup`, `keeps its server`, `not beside PgBouncer`, `not measured`";

const BY: &str =
    "`by: DRIVER VERSION; FILE, FUNCTION; WHEN`, where WHEN is connect, checkout, release, transaction or statement";

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        Header::read(text).map(|_| ()).expect_err("a mistake").1
    }

    #[test]
    fn a_title_may_take_some_lines_and_senders_may_be_some() {
        let text = "-- One,\n-- two.\n-- by: a 1; f, g; release\n-- by: b 2; h, i; checkout\n-- protocol: extended\n\nSELECT 1;";
        let (header, begin) = Header::read(text).expect("a header");
        assert_eq!((header.title.as_str(), header.protocol, begin), ("One, two.", Protocol::Extended, 6));
        let moments: Vec<Moment> = header.senders.iter().map(|sender| sender.moment).collect();
        assert_eq!(moments, [Moment::Release, Moment::Checkout]);
    }

    #[test]
    fn what_a_header_lacks_is_told() {
        assert_eq!(mistake("SELECT 1;"), "the header does not say what it is");
        assert_eq!(mistake("-- One.\n-- protocol: simple\n"), "the header does not say by whom it is sent (`by: `)");
        assert_eq!(mistake("-- One.\n-- by: a; b; release\n"), "the header does not say how it is sent (`protocol: `)");
        assert_eq!(mistake("-- One.\n-- by: a; b; sometimes\n"), BY);
        assert!(mistake("-- One.\n-- by: a; b; release\n-- else: c\n").starts_with("a header has"));
    }
}
