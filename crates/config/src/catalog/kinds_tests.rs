//! The types of settings.

use super::*;
use crate::catalog::AuthType;

#[test]
fn whole_numbers_are_decimal_hexadecimal_or_octal_and_nothing_else() {
    for (text, value) in [("0", 0), ("20", 20), ("0x1F", 31), ("0777", 511), ("-1", -1), ("+7", 7), ("00", 0)] {
        assert_eq!(strtol(text), Some(value), "{text}");
    }
    for text in ["", "-", "+", "0x", "08", "1 2", "20s", "yes", "--1", "0x-1", "1.5", "9223372036854775808"] {
        assert_eq!(strtol(text), None, "{text}");
    }
}

#[test]
fn times_are_decimal_seconds() {
    for (text, micros) in [("0", 0), ("15", 15_000_000), ("0.5", 500_000), (".25", 250_000), ("1.0000004", 1_000_000)] {
        assert_eq!(seconds(text), Some(Duration::from_micros(micros)), "{text}");
    }
    for text in ["", "-1", "inf", "nan", "15s", "1 5", "yes", "1e300", "++1", "."] {
        assert_eq!(seconds(text), None, "{text}");
    }
}

#[test]
fn times_are_shown_with_six_digits_like_printf_does() {
    let shown = [(0.0, "0"), (3600.0, "3600"), (1.5, "1.5"), (0.000_012, "1.2e-05"), (12_345_678.25, "1.23457e+07")];
    for (value, text) in shown {
        assert_eq!(shortest(value), text);
    }
    assert_eq!(shortest(999_999.6), "1e+06");
    assert_eq!(shortest(0.000_15), "0.00015");
}

#[test]
fn a_list_keeps_its_items_and_its_writing() {
    let list = List::new("root, ops ,,");
    assert_eq!(list.iter().map(|item| &**item).collect::<Vec<_>>(), ["root", "ops"]);
    assert_eq!(Names::show(&list, None).as_deref(), Some("root, ops ,,"));
    assert!(list.has("ops") && !list.has("op"));
}

#[test]
fn a_flag_takes_numbers_and_tells_who_writes_words_which() {
    assert_eq!(Flag::parse("2", None), Ok(true));
    let misfit = Flag::parse("off", None).expect_err("no words");
    assert_eq!(misfit.advice.as_deref(), Some("write 0"));
}

#[test]
fn a_mode_without_its_zero_is_not_taken_for_another_number() {
    assert_eq!(FileMode::parse("0770", None), Ok(0o770));
    let misfit = FileMode::parse("770", None).expect_err("770 is 01402");
    assert_eq!(misfit.advice.as_deref(), Some("octal begins with a 0: 0770"));
}

#[test]
fn a_word_has_no_case_and_a_mistyped_one_has_a_neighbour() {
    assert_eq!(Word::<AuthType>::parse("SCRAM-sha-256", None), Ok(AuthType::ScramSha256));
    let misfit = Word::<AuthType>::parse("scram-sha256", None).expect_err("mistyped");
    assert_eq!(misfit.advice.as_deref(), Some("did you mean \"scram-sha-256\"?"));
}

#[test]
fn the_check_query_can_be_nothing_an_empty_query_or_sql() {
    for text in ["", "<empty>", "select 1"] {
        let value = Check::parse(text, None).expect("any text is one");
        assert_eq!(Check::show(&value, None).as_deref(), Some(text));
    }
    assert_eq!(Check::parse("", None), Ok(CheckQuery::Off));
    assert_eq!(Check::parse("<empty>", None), Ok(CheckQuery::Empty));
}
