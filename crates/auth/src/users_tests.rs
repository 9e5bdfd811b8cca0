//! The grammar of the auth file.

use super::*;

type Users = Vec<(String, String)>;

fn read(text: &str) -> (Users, Vec<(usize, &'static str)>) {
    let (file, problems) = UserFile::parse(text.as_bytes());
    let shown = |secret: &Secret| String::from_utf8(secret.text().into_owned()).expect("text");
    (
        file.iter().map(|(user, secret)| (user.to_owned(), shown(secret))).collect(),
        problems.iter().map(|problem| (problem.line, problem.text)).collect(),
    )
}

#[track_caller]
fn expect(text: &str, users: &[(&str, &str)]) {
    let (read_users, problems) = read(text);
    assert_eq!(read_users.iter().map(|(user, secret)| (&**user, &**secret)).collect::<Vec<_>>(), users);
    assert_eq!(problems, []);
}

#[track_caller]
fn expect_broken(text: &str, users: &[&str], line: usize, problem: &str) {
    let (read_users, problems) = read(text);
    assert_eq!(read_users.iter().map(|(user, _)| &**user).collect::<Vec<_>>(), users);
    assert_eq!(problems, [(line, problem)]);
}

#[test]
fn an_empty_file_has_no_users() {
    for text in ["", "\n", " \t\r\n\x0b\x0c\n", ";", "; \"a\" \"b\""] {
        expect(text, &[]);
    }
    assert!(UserFile::parse(b"").0.is_empty());
}

#[test]
fn a_line_is_a_user_and_a_secret() {
    expect("\"a\" \"1\"\n\"b\" \"2\"", &[("a", "1"), ("b", "2")]);
}

#[test]
fn every_kind_of_secret_is_recognised() {
    let (file, _) = UserFile::parse(b"\"a\" \"\"\n\"b\" \"x\"\n\"c\" \"md50123456789abcdef0123456789abcdef\"\n");
    assert_eq!(**file.secret("a").expect("there"), Secret::None);
    assert!(matches!(**file.secret("b").expect("there"), Secret::Plain(_)));
    assert!(matches!(**file.secret("c").expect("there"), Secret::Md5(_)));
    assert!(file.secret("d").is_none());
}

#[test]
fn what_follows_the_second_string_is_ignored() {
    expect("\"a\" \"1\" \"x\" y ; z\n\"b\" \"2\"junk\n", &[("a", "1"), ("b", "2")]);
}

#[test]
fn what_stands_between_the_strings_is_ignored() {
    expect("\"a\"\t\"1\"\n\"b\" = \"2\"\n\"c\" ; \"3\"", &[("a", "1"), ("b", "2"), ("c", "3")]);
}

#[test]
fn blank_lines_and_comments_may_be_indented() {
    expect("  ; one\n\n   \n\t\"a\" \"1\"\n;\"b\" \"2\"\n", &[("a", "1")]);
}

#[test]
fn lines_may_end_as_on_windows() {
    expect("; one\r\n\"a\" \"1\"\r\n\r\n\"b\" \"2\"\r\n", &[("a", "1"), ("b", "2")]);
}

#[test]
fn two_quotes_are_one_inside_a_string() {
    expect("\"a\"\"b\" \"1\"\"2\"\"\"\n", &[("a\"b", "1\"2\"")]);
    expect("\"\"\"\" \"\"\"\"\"\"\n", &[("\"", "\"\"")]);
}

#[test]
fn an_empty_secret_is_no_secret() {
    expect("\"a\" \"\"\n\"b\" \"\" \"x\"\n", &[("a", ""), ("b", "")]);
}

#[test]
fn a_user_may_have_an_empty_name() {
    expect("\"\" \"1\"\n", &[("", "1")]);
}

#[test]
fn a_comment_inside_a_string_is_none() {
    expect("\"a;b\" \"1;2\"\n", &[("a;b", "1;2")]);
}

#[test]
fn the_later_of_two_lines_for_a_user_counts() {
    expect("\"a\" \"1\"\n\"b\" \"2\"\n\"a\" \"3\"\n", &[("a", "3"), ("b", "2")]);
}

#[test]
fn a_malformed_line_ends_the_reading_and_what_came_before_counts() {
    let malformed = [
        "b \"2\"",
        "# a comment that is none",
        "\"b\"",
        "\"b\" 2",
        "\"b",
        "\"b\" \"2",
        "\"b\" \"2\"\"",
        "\"b\"\"2\"",
        "\u{feff}\"b\" \"2\"",
        "\"b\0\" \"2\"",
        "\"b\" \"2\0\"",
        "\0",
    ];
    for line in malformed {
        expect_broken(&format!("\"a\" \"1\"\n;\n{line}\n\"c\" \"3\"\n"), &["a"], 3, "broken auth file");
    }
}

// PgBouncer takes the name of the next user for a forgotten secret, so that anybody who knows that name could log in.
#[test]
fn a_forgotten_secret_is_not_replaced_by_the_next_line() {
    expect_broken("\"a\"\n\"b\" \"2\"\n", &[], 1, "broken auth file");
    expect_broken("\"a\" \"1\n\"b\" \"2\"\n", &[], 1, "broken auth file");
}

#[test]
fn a_name_of_127_bytes_is_the_longest() {
    let longest = "u".repeat(USER_BYTES_MAX);
    expect(&format!("\"{longest}\" \"1\""), &[(&longest, "1")]);
    let text = format!("\"a\" \"1\"\n\"{longest}u\" \"1\"\n\"b\" \"1\"");
    expect_broken(&text, &["a"], 2, "username too long in auth file");
}

#[test]
fn a_secret_of_65530_bytes_is_the_longest() {
    let longest = "s".repeat(SECRET_BYTES_MAX);
    expect(&format!("\"a\" \"{longest}\""), &[("a", &longest)]);
    let text = format!("\"a\" \"1\"\n\"b\" \"{longest}s\"\n\"c\" \"1\"");
    expect_broken(&text, &["a"], 2, "password too long in auth file");
}

#[test]
fn a_name_that_is_not_text_costs_only_its_line() {
    let (file, problems) = UserFile::parse(b"\"\xff\" \"1\"\n\"b\" \"\xff\"\n");
    assert_eq!(problems, [Problem { line: 1, text: "username is not UTF-8 in auth file" }]);
    assert_eq!(file.len(), 1);
    assert_eq!(file.secret("b").expect("there").text(), &b"\xff"[..]);
}

#[test]
fn a_problem_is_told_with_its_line() {
    let (_, problems) = UserFile::parse(b"\n\nx");
    assert_eq!(problems[0].to_string(), "broken auth file (line 3)");
}

#[test]
fn a_hundred_thousand_users_are_found_again() {
    let text: String = (0..100_000).rev().map(|n| format!("\"user{n}\" \"pass{n}\"\n")).collect();
    let (file, problems) = UserFile::parse(text.as_bytes());
    assert_eq!((file.len(), problems.len()), (100_000, 0));
    assert_eq!(file.secret("user54321").expect("there").text(), &b"pass54321"[..]);
    assert_eq!(file.iter().next().map(|(user, _)| user), Some("user99999"));
}

#[test]
fn the_unknown_are_like_somebody_who_is_known_and_always_like_the_same() {
    let (file, _) = UserFile::parse(b"\"a\" \"one\"\n\"x\" \"\"\n\"b\" \"two\"\n\"c\" \"three\"\n\"y\" \"\"\n");
    let like = |name: &str, key| file.like(name, &[key; 32]).expect("somebody").text().to_vec();
    let names: Vec<String> = (0..100).map(|number| format!("nobody{number}")).collect();
    let found: std::collections::BTreeSet<Vec<u8>> = names.iter().map(|name| like(name, 1)).collect();
    assert_eq!(found.len(), 3);
    assert!(names.iter().all(|name| like(name, 1) == like(name, 1)));
    assert!(names.iter().any(|name| like(name, 1) != like(name, 2)));
    assert!(UserFile::default().like("nobody", &[1; 32]).is_none());
}

#[test]
fn debug_shows_users_and_never_secrets() {
    let (file, _) = UserFile::parse(b"\"alice\" \"wonderland\"\n\"bob\" \"md50123456789abcdef0123456789abcdef\"\n");
    let shown = format!("{file:?} {file:#?}");
    assert!(shown.contains("alice"));
    assert!(!shown.contains("wonderland") && !shown.contains("0123456789abcdef"));
}
