//! The quickest and most telling attacks; `cargo xtask hostile` makes all of them.

use crate::hostile::attack::{Attack, attacks};
use crate::hostile::table::{self, Row};
use crate::hostile::trial;
use crate::house::House;

// Alone.
pub(crate) fn quick_attacks_hurt_no_bystander(house: &House) {
    let wanted: Vec<Attack> = attacks().into_iter().filter(|attack| QUICK.contains(&attack.name)).collect();
    assert_eq!(wanted.len(), QUICK.len(), "an attack of the quick set is not in the list");
    println!("{}", table::head(false));
    let mut failed = Vec::new();
    for attack in wanted {
        let ours = trial::run(&house.place, &house.postgres, &attack, None);
        failed.extend(ours.complaint().map(|what| format!("{}: {what}", attack.name)));
        println!("{}", table::line(&Row { name: attack.name, ours, theirs: None }));
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Attacks that fail are left out until the problem that they show is fixed.
const QUICK: [&str; 30] = [
    "messages::close_portals",
    "messages::parse_without_name",
    "messages::parse_new_texts",
    "deep::explain_explain",
    "deep::explain_with_options",
    "deep::explain_explain_prepared",
    "deep::explain_prepare_execute",
    "wide::set_config",
    "wide::set_config_words",
    "wide::set_config_opened",
    "messages::close_statements_in_a_batch",
    "messages::length_below_zero",
    "doors::logins_and_a_log_that_stands_still",
    "directories::an_empty_sequence",
    "directories::sequences_in_sequences",
    "directories::a_length_of_four_gigabytes",
    "directories::entries_without_end",
    "hashes::a_server_of_many_iterations",
    "hashes::a_server_of_too_many_iterations",
    "hashes::passwords_in_clear_text",
    "hashes::passwords_of_the_file",
    "advisories::a_second_startup_packet_within_scram",
    "advisories::a_final_scram_message_without_its_parts",
    "advisories::options_without_names",
    "advisories::lengths_from_nothing_to_four_gigabytes",
    "advisories::a_server_with_a_nonce_of_a_megabyte",
    "advisories::an_error_without_sqlstate_at_the_login",
    "advisories::errors_without_sqlstate_instead_of_answers",
    "advisories::orders_of_a_user_who_may_only_look",
    "advisories::a_search_path_for_auth_query",
];
