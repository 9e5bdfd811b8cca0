//! The types of settings: how a text from a file becomes a value, and how `SHOW CONFIG` prints the value.
//!
//! Always true: the rules are PgBouncer's. Whole numbers may be written in decimal, in hexadecimal with `0x`, or in
//! octal with a leading 0; times are decimal seconds and are printed like C's `%g`; words are case-insensitive.
//! Not here: which setting has which type (`entries`).

use std::ops::Deref;
use std::time::Duration;

use protocol::server::reset::ResetQuery;

use super::words::Words;
use crate::mistake::did_you_mean;

/// The type of a setting: of its field in [`Settings`](super::Settings), and of its text in the file.
pub trait Kind {
    /// The type of the field.
    type Value;
    /// The name of the type on the reference page.
    const NAME: &'static str;
    /// The unit of its numbers; empty for a type without a unit.
    const UNIT: &'static str = "";
    /// The smallest and the largest number, unless an entry has a range of its own.
    const RANGE: Option<Range> = None;

    /// Whether its text may contain a secret, which no message may repeat.
    const IS_SECRET: bool = false;

    /// Parses a trimmed text.
    fn parse(text: &str, range: Option<Range>) -> Result<Self::Value, Misfit>;

    /// The value of a setting that was never set and has no default.
    fn absent() -> Self::Value;

    /// The text for `SHOW CONFIG`; `None` is NULL. An absent text is shown as NULL only if NULL is the default.
    fn show(value: &Self::Value, default: Option<&str>) -> Option<String>;

    /// The value before any file is read.
    fn initial(default: Option<&str>, range: Option<Range>) -> Self::Value {
        default.and_then(|text| Self::parse(text, range).ok()).unwrap_or_else(Self::absent)
    }
}

/// The smallest and the largest value, both allowed.
pub(crate) type Range = (i64, i64);

/// Why a text is not a value of its type.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What was expected; continues a message after "expected".
    pub expected: String,
    pub advice: Option<String>,
}

/// A whole number; most of them count something.
pub struct Count;
/// A whole number that stands for yes (anything but 0) or no (0).
pub struct Flag;
/// A TCP port.
pub struct Port;
/// Permission bits of a file, usually written in octal with a leading 0.
pub struct FileMode;
/// Whole seconds.
pub struct Seconds;
/// Whole seconds, 0 is off.
pub struct SecondsOrOff;
/// Whole milliseconds, 0 is off.
pub struct MillisOrOff;
/// Whole milliseconds, -1 is off.
pub struct MillisOrNever;
/// Seconds with fractions.
pub struct Span;
/// Seconds with fractions, 0 is off.
pub struct Timeout;
/// A text that may be empty but not absent.
pub struct Text;
/// A text that may be absent; the empty text is absence.
pub struct TextOrNone;
/// Texts separated by commas.
pub struct Names;
/// A word of a fixed list.
pub struct Word<T>(std::marker::PhantomData<T>);
/// The query that checks whether a server still answers.
pub struct Check;
/// The query that resets a server; the empty text is none.
pub struct Reset;

/// A list of texts separated by commas. Keeps the original text, because `SHOW CONFIG` prints that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct List {
    written: Box<str>,
    items: Vec<Box<str>>,
}

impl List {
    /// Splits a text at its commas; blanks around an item and empty items are ignored.
    #[must_use]
    pub fn new(written: &str) -> Self {
        let items = written.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Box::from).collect();
        Self { written: written.into(), items }
    }

    /// Whether the list contains exactly this text.
    #[must_use]
    pub fn has(&self, item: &str) -> bool {
        self.items.iter().any(|i| **i == *item)
    }
}

impl Deref for List {
    type Target = [Box<str>];

    fn deref(&self) -> &Self::Target {
        &self.items
    }
}

impl<'l> IntoIterator for &'l List {
    type Item = &'l Box<str>;
    type IntoIter = std::slice::Iter<'l, Box<str>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// The query that a server receives that was idle for long, before it is lent again (`server_check_query`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckQuery {
    /// Nothing: servers are not checked.
    Off,
    /// A `Query` message without SQL, written `<empty>`: the cheapest check there is.
    Empty,
    /// This SQL.
    Sql(Box<str>),
}

impl Kind for Count {
    type Value = u32;
    const NAME: &'static str = "int";
    const RANGE: Option<Range> = Some((0, i32::MAX as i64));

    fn parse(text: &str, range: Option<Range>) -> Result<u32, Misfit> {
        let value = whole(text, range.or(Self::RANGE), "")?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    fn absent() -> u32 {
        0
    }

    fn show(value: &u32, _: Option<&str>) -> Option<String> {
        Some(value.to_string())
    }
}

impl Kind for Flag {
    type Value = bool;
    const NAME: &'static str = "0 or 1";

    fn parse(text: &str, _: Option<Range>) -> Result<bool, Misfit> {
        let advice = match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "true" => Some("write 1".to_owned()),
            "no" | "off" | "false" => Some("write 0".to_owned()),
            _ => None,
        };
        let value = strtol(text).ok_or_else(|| Misfit { expected: "0 or 1".to_owned(), advice })?;
        Ok(value != 0)
    }

    fn absent() -> bool {
        false
    }

    fn show(value: &bool, _: Option<&str>) -> Option<String> {
        Some(u8::from(*value).to_string())
    }
}

impl Kind for Port {
    type Value = u16;
    const NAME: &'static str = "int";
    const RANGE: Option<Range> = Some((0, u16::MAX as i64));

    fn parse(text: &str, range: Option<Range>) -> Result<u16, Misfit> {
        let value = whole(text, range.or(Self::RANGE), "")?;
        Ok(u16::try_from(value).unwrap_or(u16::MAX))
    }

    fn absent() -> u16 {
        0
    }

    fn show(value: &u16, _: Option<&str>) -> Option<String> {
        Some(value.to_string())
    }
}

impl Kind for FileMode {
    type Value = u32;
    const NAME: &'static str = "int (octal)";
    const RANGE: Option<Range> = Some((0, 0o777));

    fn parse(text: &str, range: Option<Range>) -> Result<u32, Misfit> {
        let value = whole(text, range.or(Self::RANGE), "").map_err(|_| Misfit {
            expected: "permission bits from 0 to 0777".to_owned(),
            advice: u32::from_str_radix(text, 8).ok().map(|_| format!("octal begins with a 0: 0{text}")),
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn absent() -> u32 {
        0
    }

    fn show(value: &u32, _: Option<&str>) -> Option<String> {
        Some(value.to_string())
    }
}

impl Kind for Seconds {
    type Value = Duration;
    const NAME: &'static str = "int";
    const UNIT: &'static str = "s";
    const RANGE: Option<Range> = Some((0, i32::MAX as i64));

    fn parse(text: &str, range: Option<Range>) -> Result<Duration, Misfit> {
        let value = whole(text, range.or(Self::RANGE), " of seconds")?;
        Ok(Duration::from_secs(value.unsigned_abs()))
    }

    fn absent() -> Duration {
        Duration::ZERO
    }

    fn show(value: &Duration, _: Option<&str>) -> Option<String> {
        Some(value.as_secs().to_string())
    }
}

impl Kind for SecondsOrOff {
    type Value = Option<Duration>;
    const NAME: &'static str = "int";
    const UNIT: &'static str = "s";
    const RANGE: Option<Range> = Seconds::RANGE;

    fn parse(text: &str, range: Option<Range>) -> Result<Option<Duration>, Misfit> {
        Seconds::parse(text, range).map(off_if_zero)
    }

    fn absent() -> Option<Duration> {
        None
    }

    fn show(value: &Option<Duration>, _: Option<&str>) -> Option<String> {
        Some(value.unwrap_or_default().as_secs().to_string())
    }
}

impl Kind for MillisOrOff {
    type Value = Option<Duration>;
    const NAME: &'static str = "int";
    const UNIT: &'static str = "ms";
    const RANGE: Option<Range> = Some((0, i32::MAX as i64));

    fn parse(text: &str, range: Option<Range>) -> Result<Option<Duration>, Misfit> {
        let value = whole(text, range.or(Self::RANGE), " of milliseconds")?;
        Ok(off_if_zero(Duration::from_millis(value.unsigned_abs())))
    }

    fn absent() -> Option<Duration> {
        None
    }

    fn show(value: &Option<Duration>, _: Option<&str>) -> Option<String> {
        Some(value.unwrap_or_default().as_millis().to_string())
    }
}

impl Kind for MillisOrNever {
    type Value = Option<Duration>;
    const NAME: &'static str = "int";
    const UNIT: &'static str = "ms";
    const RANGE: Option<Range> = Some((-1, i32::MAX as i64));

    fn parse(text: &str, range: Option<Range>) -> Result<Option<Duration>, Misfit> {
        let value = whole(text, range.or(Self::RANGE), " of milliseconds")?;
        Ok(u64::try_from(value).ok().map(Duration::from_millis))
    }

    fn absent() -> Option<Duration> {
        None
    }

    fn show(value: &Option<Duration>, _: Option<&str>) -> Option<String> {
        Some(value.map_or_else(|| "-1".to_owned(), |value| value.as_millis().to_string()))
    }
}

impl Kind for Span {
    type Value = Duration;
    const NAME: &'static str = "time";
    const UNIT: &'static str = "s";

    fn parse(text: &str, _: Option<Range>) -> Result<Duration, Misfit> {
        seconds(text)
            .ok_or_else(|| Misfit { expected: "seconds, such as 15 or 0.5".to_owned(), advice: unit_advice(text) })
    }

    fn absent() -> Duration {
        Duration::ZERO
    }

    fn show(value: &Duration, _: Option<&str>) -> Option<String> {
        Some(shortest(value.as_secs_f64()))
    }
}

impl Kind for Timeout {
    type Value = Option<Duration>;
    const NAME: &'static str = "time";
    const UNIT: &'static str = "s";

    fn parse(text: &str, range: Option<Range>) -> Result<Option<Duration>, Misfit> {
        Span::parse(text, range).map(off_if_zero)
    }

    fn absent() -> Option<Duration> {
        None
    }

    fn show(value: &Option<Duration>, _: Option<&str>) -> Option<String> {
        Some(shortest(value.unwrap_or_default().as_secs_f64()))
    }
}

impl Kind for Text {
    type Value = String;
    const NAME: &'static str = "text";

    fn parse(text: &str, _: Option<Range>) -> Result<String, Misfit> {
        Ok(text.to_owned())
    }

    fn absent() -> String {
        String::new()
    }

    fn show(value: &String, _: Option<&str>) -> Option<String> {
        Some(value.clone())
    }
}

impl Kind for TextOrNone {
    type Value = Option<String>;
    const NAME: &'static str = "text";

    fn parse(text: &str, _: Option<Range>) -> Result<Option<String>, Misfit> {
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    fn absent() -> Option<String> {
        None
    }

    fn show(value: &Option<String>, default: Option<&str>) -> Option<String> {
        value.clone().or_else(|| default.map(|_| String::new()))
    }
}

impl Kind for Names {
    type Value = List;
    const NAME: &'static str = "list";

    fn parse(text: &str, _: Option<Range>) -> Result<List, Misfit> {
        Ok(List::new(text))
    }

    fn absent() -> List {
        List::default()
    }

    fn show(value: &List, _: Option<&str>) -> Option<String> {
        Some(value.written.clone().into())
    }
}

impl<T: Words> Kind for Word<T> {
    type Value = T;
    const NAME: &'static str = "word";

    fn parse(text: &str, _: Option<Range>) -> Result<T, Misfit> {
        let found = T::ALL.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value).ok_or_else(|| Misfit {
            expected: format!("one of {}", all_words::<T>()),
            advice: did_you_mean(text, T::ALL.iter().map(|(word, _)| *word)),
        })
    }

    fn absent() -> T {
        T::ALL[0].1
    }

    fn show(value: &T, _: Option<&str>) -> Option<String> {
        T::ALL.iter().find(|(_, v)| v == value).map(|(word, _)| (*word).to_owned())
    }
}

impl Kind for Check {
    type Value = CheckQuery;
    const NAME: &'static str = "text";

    fn parse(text: &str, _: Option<Range>) -> Result<CheckQuery, Misfit> {
        Ok(match text {
            "" => CheckQuery::Off,
            EMPTY_QUERY => CheckQuery::Empty,
            sql => CheckQuery::Sql(sql.into()),
        })
    }

    fn absent() -> CheckQuery {
        CheckQuery::Off
    }

    fn show(value: &CheckQuery, _: Option<&str>) -> Option<String> {
        Some(match value {
            CheckQuery::Off => String::new(),
            CheckQuery::Empty => EMPTY_QUERY.to_owned(),
            CheckQuery::Sql(sql) => sql.to_string(),
        })
    }
}

impl Kind for Reset {
    type Value = Option<ResetQuery>;
    const NAME: &'static str = "text";

    fn parse(text: &str, _: Option<Range>) -> Result<Option<ResetQuery>, Misfit> {
        Ok((!text.is_empty()).then(|| ResetQuery::new(text)))
    }

    fn absent() -> Option<ResetQuery> {
        None
    }

    fn show(value: &Option<ResetQuery>, default: Option<&str>) -> Option<String> {
        value.as_ref().map(|query| query.written().to_owned()).or_else(|| default.map(|_| String::new()))
    }
}

fn all_words<T: Words>() -> String {
    T::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
}

fn off_if_zero(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}

fn whole(text: &str, range: Option<Range>, of: &str) -> Result<i64, Misfit> {
    let (min, max) = range.unwrap_or((0, i64::from(i32::MAX)));
    let value = strtol(text).filter(|value| (min..=max).contains(value));
    value.ok_or_else(|| Misfit { expected: format!("a whole number{of} from {min} to {max}"), advice: None })
}

/// Parses a whole number in the base that its prefix says, like C's `strtol` with base 0; nothing may follow the
/// number.
fn strtol(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    // Rust's parser accepts a sign, which would be a second one here.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let value = i64::from_str_radix(digits, base).ok()?;
    Some(if negative { -value } else { value })
}

/// Decimal seconds, rounded to the microsecond.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    let number = text.strip_prefix('+').unwrap_or(text);
    // Rust's parser accepts a sign and words for infinity.
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value = number.parse().ok().filter(|value| (0.0..=TIME_SECONDS_MAX).contains(value))?;
    Some(Duration::from_micros((value * 1e6).round() as u64))
}

fn unit_advice(text: &str) -> Option<String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    (number.len() < text.len() && seconds(number).is_some())
        .then(|| "times are plain seconds without a unit".to_owned())
}

/// A number as C's `%g` prints it: six digits, no trailing zeros, and an exponent where that is shorter.
pub(crate) fn shortest(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    // `{:e}` always prints a numeric exponent; the fallback is the exponent of 0.
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// How an empty query is written in `server_check_query`.
const EMPTY_QUERY: &str = "<empty>";
/// Longer than a signed 64-bit number of microseconds can hold.
const TIME_SECONDS_MAX: f64 = 9.2e12;

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
