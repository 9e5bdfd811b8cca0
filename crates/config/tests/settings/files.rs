//! The contents of files, and how files are combined.

use std::time::Duration;

use config::Host;
use pool::Mode;

use crate::{Files, lines, settings, told};

#[test]
fn lines_may_be_indented_and_end_in_any_way() {
    let settings = settings("   [pgbouncer]\r\n\t listen_port = 7000 \t\r\n ; note\r\n  [databases]\r\n\tapp =\r\n");
    assert_eq!(settings.listen_port, 7000);
    assert!(settings.databases.contains_key("app"));
}

#[test]
fn there_are_no_comments_at_the_end_of_a_line() {
    assert_eq!(settings("[pgbouncer]\nlogfile = /x ; y\n").logfile.as_deref(), Some("/x ; y"));
}

#[test]
fn sections_come_in_any_order_and_again() {
    let text = "[databases]\na = host=h1\n[pgbouncer]\ndefault_pool_size = 5\n[users]\njoe = pool_mode=statement\n\
                [databases]\nb = host=h2\n[trunkline]\nworkers = 2\n";
    let settings = settings(text);
    assert_eq!(settings.databases.keys().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((settings.default_pool_size, settings.workers), (5, 2));
    assert_eq!(settings.users["joe"].pool_mode, Some(Mode::Statement));
}

#[test]
fn databases_may_follow_the_settings_that_they_inherit() {
    let settings = settings("[pgbouncer]\nunix_socket_dir = /run/p\n[databases]\na =\n");
    assert_eq!(settings.databases["a"].hosts, [Host::Unix("/run/p".into())]);
    let settings = crate::settings("[databases]\na =\n[pgbouncer]\nunix_socket_dir = @p\n");
    assert_eq!(settings.databases["a"].hosts, [Host::Abstract("p".into())]);
}

#[test]
fn the_last_of_equal_keys_wins() {
    let settings = settings("[pgbouncer]\nlisten_port=1\nlisten_port=2\n[databases]\na=host=x\na=port=7 port=8\n");
    assert_eq!(settings.listen_port, 2);
    assert_eq!((settings.databases["a"].port, settings.databases["a"].host_text.clone()), (8, None));
}

#[test]
fn names_with_other_characters_are_quoted_either_way() {
    let settings = settings("[pgbouncer]\n[databases]\n'my db' =\n\"l'app\" =\n[users]\n\"a b\" = pool_size=3\n");
    assert!(settings.databases.contains_key("my db") && settings.databases.contains_key("l'app"));
    assert_eq!(settings.users["a b"].pool_size, Some(3));
}

#[test]
fn trunkline_is_another_name_of_the_main_section() {
    assert_eq!(settings("[trunkline]\nlisten_port = 9\n").listen_port, 9);
    assert_eq!(
        told("[databases]\na =\n"),
        ["t.ini: main section missing from config file; it begins with a line [pgbouncer] or [trunkline]"]
    );
    assert_eq!(told("").len(), 1);
}

#[test]
fn zero_is_off_where_it_is_documented_so() {
    let settings = settings("[pgbouncer]\nquery_wait_timeout=0\nserver_lifetime=0\nserver_reset_query=\nauth_file=\n");
    assert_eq!((settings.query_wait_timeout, settings.server_lifetime), (None, Duration::ZERO));
    assert_eq!((settings.server_reset_query, settings.auth_file), (None, None));
}

#[test]
fn an_included_file_continues_the_section_and_may_change_it() {
    let files = Files::one("[pgbouncer]\n%include a.ini\nb = host=h\n")
        .with("a.ini", "listen_port = 7\n%include sub/b.ini")
        .with("sub/b.ini", "max_client_conn = 9\n[databases]\na =\n");
    let loaded = files.load().expect("good settings");
    assert_eq!((loaded.settings.listen_port, loaded.settings.max_client_conn), (7, 9));
    assert_eq!(loaded.settings.databases.len(), 2);
    assert_eq!(loaded.files.iter().map(|file| &**file).collect::<Vec<_>>(), ["t.ini", "a.ini", "sub/b.ini"]);
}

#[test]
fn a_mistake_in_an_included_file_names_that_file() {
    let files = Files::one("[pgbouncer]\n%include a.ini\nx = 1\n").with("a.ini", "\ny = 1");
    let told = lines(&files.load().expect_err("two mistakes"));
    assert_eq!(told, ["a.ini:2: unknown parameter: pgbouncer/y", "t.ini:3: unknown parameter: pgbouncer/x"]);
}

#[test]
fn a_file_may_be_included_twice_but_not_in_itself() {
    let twice = Files::one("[pgbouncer]\n%include a\n%include a\n").with("a", "listen_port=3");
    assert_eq!(twice.load().expect("good settings").files.len(), 3);

    let circle = Files::one("[pgbouncer]\n%include a\n").with("a", "%include b").with("b", "%include a");
    assert_eq!(lines(&circle.load().expect_err("a circle")), ["b:1: a file includes itself: a -> b -> a"]);
}

#[test]
fn ten_files_may_be_nested_and_not_eleven() {
    let chain = |length: usize| {
        let link = |files: Files, n: usize| files.with(&n.to_string(), format!("%include {}", n + 1));
        (1..length - 1)
            .fold(Files::one("[pgbouncer]\n%include 1"), link)
            .with(&(length - 1).to_string(), "listen_port=3")
    };
    assert_eq!(chain(10).load().expect("ten are allowed").settings.listen_port, 3);
    let told = lines(&chain(11).load().expect_err("eleven are not"));
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("9:1: include nesting level too deep (10), maximum is 10: t.ini -> 1 -> 2"),
        "{}",
        told[0]
    );
}

#[test]
fn files_that_name_each_other_often_are_not_read_for_ever() {
    let wide = |next: usize| format!("%include {next}\n").repeat(20);
    let files = (1..9)
        .fold(Files::one(&format!("[pgbouncer]\n{}", wide(1))), |files, n| files.with(&n.to_string(), wide(n + 1)));
    let mistakes = files.with("9", "listen_port=1").load().expect_err("20^9 files");
    assert!(mistakes[0].text.ends_with("more than 10000 files are included"), "{}", mistakes[0]);
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_of_who_names_it() {
    let told = lines(&Files::default().load().expect_err("no file"));
    assert_eq!(told, ["t.ini: cannot read the configuration file: entity not found"]);
    let told = crate::told("[pgbouncer]\n%include missing.ini\n");
    assert_eq!(told, ["t.ini:2: cannot read the included file \"missing.ini\": entity not found"]);
}
