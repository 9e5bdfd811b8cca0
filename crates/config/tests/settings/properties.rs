//! What holds for any text.

use proptest::prelude::*;

use crate::Files;

/// Pieces of configurations, valid and invalid.
fn piece() -> impl Strategy<Value = String> {
    let names = config::CATALOG.iter().map(|entry| entry.name.to_owned()).collect::<Vec<_>>();
    let marks =
        ["[pgbouncer]", "[databases]", "[users]", "[peers]", "[", "]", "=", " = ", "'", "''", "\"", "\n", "\r\n"];
    let words =
        ["%include ", "t.ini", "a.ini", "host", "port", "password", "*", ";", "#", "\t", "0x", "1", "-1", ",", ":"];
    prop_oneof![
        2 => prop::sample::select(marks.map(str::to_owned).to_vec()),
        2 => prop::sample::select(words.map(str::to_owned).to_vec()),
        1 => prop::sample::select(names),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn any_text_is_settings_or_mistakes_and_each_is_one_line(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        let files = Files::one(&text).with("a.ini", "[databases]\nx = host=a\n");
        match files.load() {
            Ok(loaded) => {
                prop_assert!(loaded.settings.databases.values().all(|database| !database.hosts.is_empty()));
                prop_assert!(loaded.warnings.iter().all(|warning| !warning.to_string().contains('\n')));
            }
            Err(mistakes) => {
                prop_assert!(!mistakes.is_empty());
                let is_one_line = |mistake: &config::Mistake| !mistake.to_string().contains(char::is_control);
                prop_assert!(mistakes.iter().all(is_one_line));
            }
        }
    }

    #[test]
    fn any_bytes_are_settings_or_mistakes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Files::default().with("t.ini", bytes).load();
    }

    #[test]
    fn any_value_survives_its_quotes(value in "[^\n\r\0]{1,40}") {
        let quoted = value.replace('\'', "''");
        let text = format!("[pgbouncer]\n[databases]\na = application_name='{quoted}' port=1\n");
        let settings = Files::one(&text).load().expect("good settings").settings;
        prop_assert_eq!(settings.databases["a"].application_name.as_deref(), Some(&*value));
    }

    #[test]
    fn any_list_of_values_wins_by_its_last(values in prop::collection::vec(0_u32..1_000, 1..8)) {
        let lines = values.iter().map(|value| format!("max_client_conn = {value}\n")).collect::<String>();
        let settings = Files::one(&format!("[pgbouncer]\n{lines}")).load().expect("good settings").settings;
        prop_assert_eq!(Some(&settings.max_client_conn), values.last());
    }
}
