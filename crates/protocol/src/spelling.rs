//! PostgreSQL's canonical spelling of values that clients spell in many ways, so that a client is greeted with the values
//! that a server would report.
//!
//! Always true: a value that is not known here stays as it was written, for the server to judge.
//! Not here: which parameters follow a client (`vars`).

/// PostgreSQL's name of an encoding (`pg_enc2name_tbl` in `common/encnames.c`). Only letters and digits count, in any
/// case (`clean_encoding_name`), and some encodings have aliases.
#[must_use]
pub fn encoding(written: &str) -> Option<&'static str> {
    let clean = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let wanted = clean(written);
    let alias = ALIASES.iter().find(|(_, aliases)| aliases.contains(&&*wanted)).map(|(name, _)| *name);
    alias.or_else(|| ENCODINGS.split(' ').find(|name| clean(name) == wanted))
}

/// `on` or `off` for a Boolean value, None for any other.
#[must_use]
pub fn switch(written: &str) -> Option<&'static str> {
    boolean(written).map(|is_on| if is_on { "on" } else { "off" })
}

/// PostgreSQL's spelling of an `IntervalStyle`.
#[must_use]
pub fn interval_style(written: &str) -> Option<&'static str> {
    let all = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
    all.into_iter().find(|known| known.eq_ignore_ascii_case(written))
}

/// PostgreSQL's spelling of a `DateStyle`. What it leaves open is as in `default` (`check_datestyle` in
/// `commands/variable.c`).
#[must_use]
pub fn date_style(written: &str, default: &str) -> Option<String> {
    let (mut style, mut order, mut order_of_style) = (None, None, None);
    for word in written.split(',') {
        let word = word.trim_matches(|letter: char| letter.is_ascii_whitespace()).to_ascii_lowercase();
        let (part, value) = match &*word {
            "iso" => (&mut style, "ISO"),
            "sql" => (&mut style, "SQL"),
            "german" => {
                order_of_style = Some("DMY");
                (&mut style, "German")
            }
            _ if word.starts_with("postgres") => (&mut style, "Postgres"),
            "ymd" => (&mut order, "YMD"),
            "mdy" | "us" => (&mut order, "MDY"),
            _ if word.starts_with("noneuro") => (&mut order, "MDY"),
            "dmy" => (&mut order, "DMY"),
            _ if word.starts_with("euro") => (&mut order, "DMY"),
            _ => return None,
        };
        if part.is_some_and(|other| other != value) {
            return None;
        }
        *part = Some(value);
    }
    let (style_before, order_before) = default.split_once(", ")?;
    Some(format!("{}, {}", style.unwrap_or(style_before), order.or(order_of_style).unwrap_or(order_before)))
}

/// A Boolean value (`parse_bool` in `utils/adt/bool.c`, which accepts every unambiguous prefix).
pub(crate) fn boolean(written: &str) -> Option<bool> {
    let written = written.to_ascii_lowercase();
    let begins = |word: &str, least: usize| written.len() >= least && word.starts_with(&written);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || written == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || written == "0" {
        Some(false)
    } else {
        None
    }
}

/// PostgreSQL's encodings.
const ENCODINGS: &str = "\
    SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3 LATIN4 LATIN5 \
    LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 ISO_8859_5 ISO_8859_6 \
    ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U SJIS BIG5 GBK UHC GB18030 JOHAB \
    SHIFT_JIS_2004";

/// Encodings with their aliases, which are reduced to lower-case letters and digits.
const ALIASES: [(&str, &[&str]); 28] = [
    ("WIN1258", &["abc", "tcvn", "tcvn5712", "vscii", "windows1258"]),
    ("WIN866", &["alt", "windows866"]),
    ("LATIN1", &["iso88591"]),
    ("LATIN6", &["iso885910"]),
    ("LATIN7", &["iso885913"]),
    ("LATIN8", &["iso885914"]),
    ("LATIN9", &["iso885915"]),
    ("LATIN10", &["iso885916"]),
    ("LATIN2", &["iso88592"]),
    ("LATIN3", &["iso88593"]),
    ("LATIN4", &["iso88594"]),
    ("LATIN5", &["iso88599"]),
    ("KOI8R", &["koi8"]),
    ("SJIS", &["mskanji", "shiftjis", "win932", "windows932"]),
    ("UTF8", &["unicode"]),
    ("WIN1251", &["win", "windows1251"]),
    ("GBK", &["win936", "windows936"]),
    ("UHC", &["win949", "windows949"]),
    ("BIG5", &["win950", "windows950"]),
    ("WIN1250", &["windows1250"]),
    ("WIN1252", &["windows1252"]),
    ("WIN1253", &["windows1253"]),
    ("WIN1254", &["windows1254"]),
    ("WIN1255", &["windows1255"]),
    ("WIN1256", &["windows1256"]),
    ("WIN1257", &["windows1257"]),
    ("WIN874", &["windows874"]),
    ("SHIFT_JIS_2004", &["shiftjis2004"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_has_one_name() {
        for (written, name) in [
            ("UTF8", "UTF8"),
            ("utf-8", "UTF8"),
            ("'utf-8'", "UTF8"),
            ("Unicode", "UTF8"),
            ("latin1", "LATIN1"),
            ("ISO-8859-15", "LATIN9"),
            ("euc-jp", "EUC_JP"),
            ("eucjp", "EUC_JP"),
            ("iso_8859_5", "ISO_8859_5"),
            ("windows-1252", "WIN1252"),
            ("sql_ascii", "SQL_ASCII"),
        ] {
            assert_eq!(encoding(written), Some(name), "{written}");
        }
        assert_eq!((encoding("bogus"), encoding(""), encoding("utf16")), (None, None, None));
    }

    #[test]
    fn a_date_style_has_one_spelling_and_is_completed_by_the_default() {
        for (written, spelled) in [
            ("ISO", Some("ISO, YMD")),
            ("iso,dmy", Some("ISO, DMY")),
            ("DMY , sql", Some("SQL, DMY")),
            ("German", Some("German, DMY")),
            ("german, us", Some("German, MDY")),
            ("ymd,german", Some("German, YMD")),
            ("postgresql, European", Some("Postgres, DMY")),
            ("NonEuropean", Some("SQL, MDY")),
            ("iso, iso", Some("ISO, YMD")),
            ("iso, sql", None),
            ("us, dmy", None),
            ("default", None),
            ("", None),
            ("iso,", None),
        ] {
            assert_eq!(date_style(written, "SQL, YMD").as_deref(), spelled, "{written}");
        }
        assert_eq!(date_style("iso", "SQL"), None);
    }

    #[test]
    fn an_interval_style_is_in_lower_case() {
        assert_eq!((interval_style("ISO_8601"), interval_style("iso")), (Some("iso_8601"), None));
    }

    #[test]
    fn a_switch_is_on_or_off() {
        for on in ["on", "ON", "true", "t", "tr", "yes", "y", "1"] {
            assert_eq!(switch(on), Some("on"), "{on}");
        }
        for off in ["off", "of", "false", "f", "no", "n", "0"] {
            assert_eq!(switch(off), Some("off"), "{off}");
        }
        assert_eq!((switch("o"), switch("2"), switch(""), switch("onn")), (None, None, None, None));
    }
}
