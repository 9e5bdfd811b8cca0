//! What the command lines of the commands have in common.
//!
//! Always true: an argument that is not UTF-8 is not repeated, since it may be a connection string.
//! Not here: which options a command has.

use lexopt::{Parser, ValueExt as _};

/// A mistake in a command line, in words.
pub(crate) fn said(why: lexopt::Error) -> String {
    why.to_string()
}

/// The value of an option.
pub(crate) fn text(parser: &mut Parser) -> Result<String, String> {
    parser.value().map_err(said)?.string().map_err(|_| "an argument is not UTF-8".to_owned())
}

/// Tells that there is no such option, and which of these it may be meant for.
pub(crate) fn unknown<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let advice = config::nearest(name, names).map_or(String::new(), |name| format!("; did you mean --{name}?"));
    format!("there is no option --{name}{advice}")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn what_is_not_utf8_is_not_repeated() {
        let mut parser =
            Parser::from_args([OsString::from("--server"), OsString::from_vec(b"password=x\xff".to_vec())]);
        parser.next().expect("an option");
        assert_eq!(text(&mut parser).expect_err("it is no text"), "an argument is not UTF-8");
    }

    #[test]
    fn an_option_that_is_nearly_right_is_named() {
        assert_eq!(unknown("servr", ["server", "host"]), "there is no option --servr; did you mean --server?");
    }
}
