//! The real binary before a real PostgreSQL.
//!
//! Always true: all tests share one throw-away cluster, and each has a pooler and (where servers are counted) a database
//! of its own, so that they can run side by side.
//! Not here: conversations that need a server which misbehaves byte by byte (`talk`).

mod alike;
mod answers;
mod called_off;
mod cancels;
mod carried;
mod console;
mod crowds;
mod databases;
mod differential;
mod drivers;
mod files;
mod floods;
mod habits;
mod hashing;
mod holes;
mod hostile_quick;
mod house;
mod identity;
mod inis;
mod judges;
mod limits;
mod linger;
mod listen;
mod lock_calls;
mod logins;
mod lookups;
mod losses;
mod meaning;
mod memory;
mod names;
mod orders;
mod peers;
mod pins;
mod postgres17;
mod postgres18;
mod prepared;
mod rates;
mod remembered;
mod replication;
mod rules;
mod secrets;
mod sequences;
mod sessions;
mod signals;
mod smoke;
mod sockets;
mod state;
mod stranded;
mod syslog;
mod takeover;
mod timeouts;
mod tls;
mod told;
mod traffic;

#[path = "../hostile/mod.rs"]
mod hostile;
#[path = "../soak/mod.rs"]
mod soak;

use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tests::runner::{self, Alone, Test, Wish};

use crate::house::House;

fn main() -> ExitCode {
    let wish = Wish::from_arguments();
    if wish.is_list() {
        list().iter().for_each(|(name, _, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    // Thousands of clients need as many descriptors, here and in the pooler, which inherits the limit.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let house = match House::open() {
        Ok(house) => house,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let house = &house;
    let tests = list()
        .into_iter()
        .map(|(name, alone, body)| Test { name: name.replace(' ', ""), alone, body: Box::new(move || body(house)) })
        .collect();
    match runner::run(tests, &wish) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

type Entry = (&'static str, Alone, fn(&House));

/// Names of functions, as tests.
macro_rules! tests {
    ($alone:ident: $($test:path),+ $(,)?) => {
        [$((stringify!($test), Alone::$alone, $test as fn(&House))),+]
    };
}

fn list() -> Vec<Entry> {
    let together = tests![No:
        inis::what_others_generate_is_accepted_with_exact_warnings,
        inis::a_setting_of_zalandos_own_is_named,
        inis::the_distributions_own_file_is_accepted,
        traffic::psql_gets_its_rows,
        traffic::pgbench_runs_in_each_protocol_mode_that_applies,
        traffic::pgbench_with_prepared_statements_runs_in_session_mode,
        listen::nothing_is_lost_or_told_twice_while_one_server_takes_over,
        listen::who_listens_for_all_takes_no_server_from_the_pool,
        listen::a_thousand_clients_listen_on_one_server,
        listen::many_who_have_lost_something_are_told_in_many_turns,
        listen::a_burst_for_many_is_told_in_many_turns,
        listen::who_listens_to_what_all_listen_to_needs_no_server,
        listen::who_joins_hears_what_is_committed_from_then_on,
        listen::notifications_come_as_on_a_direct_connection,
        listen::who_may_have_missed_something_is_told,
        listen::who_notifies_is_told_before_its_transaction_has_ended,
        listen::who_notifies_does_not_wait_long_for_a_listener_that_hangs,
        listen::a_burst_is_told_whole_to_who_reads,
        listen::who_reads_is_waited_for_as_often_as_it_is_behind,
        listen::who_does_not_read_keeps_nobody_from_hearing,
        listen::a_reload_that_leaves_one_server_ends_the_session_for_all,
        listen::a_reload_that_ends_many_channels_says_so_once,
        listen::where_nobody_may_listen_for_all_each_keeps_its_server,
        databases::what_is_idle_does_not_keep_a_database_in_use,
        databases::servers_of_a_minimum_and_of_nobody_who_listens_leave_too,
        databases::who_uses_a_database_keeps_its_server,
        databases::a_database_that_is_made_again_is_another_one,
        carried::statements_prepared_by_sql_follow_their_client,
        carried::a_server_that_cannot_prepare_what_its_client_had_is_as_good_for_the_next,
        carried::plans_that_are_out_of_date_are_made_anew,
        carried::a_statement_that_is_shared_means_the_same_to_all_who_share_it,
        carried::what_the_protocol_has_prepared_may_be_dropped_by_sql,
        carried::statements_that_cannot_be_carried_keep_their_server,
        carried::a_policy_has_statements_prepared_by_sql_kept_or_refused,
        answers::a_session_of_thousands_of_long_statements_keeps_its_server,
        answers::functions_beyond_what_is_read_may_do_anything,
        answers::a_server_that_answers_without_end_is_closed,
        state::what_is_set_in_any_way_follows_its_client,
        state::what_a_function_does_is_known_before_it_is_first_called,
        state::what_nobody_can_ask_about_keeps_the_server_until_its_client_leaves,
        state::sessions_begin_to_follow_with_a_reload_and_stop_with_another,
        state::a_session_that_cannot_be_read_in_time_is_closed_and_nobody_waits,
        state::an_operator_sees_who_keeps_which_server_and_why,
        identity::a_role_ends_with_the_session_authorization_it_was_taken_in,
        identity::temp_buffers_stay_with_their_server,
        told::a_statement_may_last_longer_than_the_settings_told_before_it,
        told::a_statement_with_settings_before_it_is_ended_by_query_timeout,
        told::nobody_hears_of_a_limit_that_another_has_set,
        told::a_reset_leaves_alone_what_others_have_set,
        told::what_is_told_is_not_read_in_the_encoding_of_another,
        told::nobody_can_take_the_names_of_our_statements,
        identity::a_role_is_whom_its_name_means_now,
        identity::settings_that_few_are_shown_are_followed_too,
        told::an_online_restart_takes_along_a_statement_with_settings_before_it,
        pins::an_online_restart_knows_who_keeps_servers,
        pins::the_statement_that_says_so_is_named,
        pins::servers_are_counted_and_not_what_they_are_kept_for,
        pins::of_what_a_session_holds_a_thousand_of_each_kind_are_listed,
        pins::locks_beyond_those_that_are_listed_are_released_one_by_one,
        pins::statements_beyond_those_that_are_listed_keep_their_server,
        pins::of_very_many_locks_a_thousand_are_warned_of,
        pins::who_holds_something_keeps_it_when_pooling_is_by_session,
        pins::who_holds_something_when_sessions_are_followed_no_more_is_told,
        state::what_functions_change_is_asked_about_kept_or_ignored,
        state::what_a_policy_refuses_fails_like_a_statement_and_what_it_warns_of_is_told,
        state::servers_are_kept_by_as_many_clients_and_for_as_long_as_may_be,
        state::who_leaves_at_once_leaves_what_its_server_told,
        state::what_a_session_begins_with_is_what_it_goes_back_to,
        state::no_tenant_reads_what_is_another_ones,
        state::what_is_set_goes_along_with_the_request,
        postgres17::transaction_timeout_follows_its_client,
        postgres17::what_the_pooler_says_is_not_ended_by_transaction_timeout,
        postgres17::what_a_trigger_raises_at_login_is_told_in_its_words,
        postgres17::what_a_trigger_sets_at_login_is_everybodys,
        postgres17::what_merge_returns_is_known,
        postgres18::a_client_may_ask_for_any_protocol,
        postgres18::settings_of_a_startup_packet_are_in_the_greeting,
        postgres18::cancel_requests_of_any_length_hit_their_own_only,
        postgres18::a_server_that_asks_for_a_token_is_refused_by_name,
        linger::clients_in_a_loop_have_some_transactions_in_a_row,
        state::who_has_never_set_something_prefers_a_server_that_never_had_it,
        state::what_cannot_follow_keeps_the_server_as_long_as_it_is_there,
        state::what_is_known_wrongly_is_told_where_that_is_wanted,
        memory::who_prepares_too_much_is_closed_with_words,
        memory::a_text_that_is_shared_counts_for_each,
        memory::who_sets_very_much_keeps_its_server,
        meaning::what_a_transaction_reads_otherwise_is_not_shared,
        meaning::tenants_by_a_local_path_have_statements_of_their_own,
        meaning::a_literal_means_what_it_meant_when_it_was_prepared,
        sequences::who_asks_for_the_first_time_is_not_told_what_another_has_drawn,
        sequences::who_asks_behind_something_else_is_known_to_ask,
        sequences::who_asks_is_told_what_it_has_drawn,
        sequences::a_server_is_kept_for_numbers_for_a_while_only,
        sequences::numbers_need_not_be_kept,
        sequences::an_online_restart_mixes_no_numbers,
        stranded::locks_that_are_left_behind_are_told,
        stranded::locks_that_nobody_has_seen_taken_are_found,
        habits::each_alone_is_what_it_would_be_on_a_direct_connection,
        habits::all_together_are_what_they_would_be_on_direct_connections,
        alike::random_sessions_are_what_they_would_be_on_a_direct_connection,
        names::what_the_protocol_has_prepared_is_executed_and_explained_by_sql,
        names::names_of_the_protocol_and_of_sql_are_one,
        names::a_name_that_sql_may_have_given_is_for_the_server_to_refuse,
        names::a_text_in_pieces_uses_names_of_the_protocol,
        names::what_a_statement_sets_follows_who_executes_it_by_sql,
        prepared::pgbench_with_prepared_statements_runs_in_each_mode,
        prepared::clients_share_what_they_prepare_and_not_its_names,
        prepared::what_is_read_when_it_is_prepared_is_read_for_each_client,
        prepared::a_statement_survives_discard_all_of_another_and_a_change_of_its_table,
        prepared::names_that_are_not_there_or_in_use_end_the_client,
        prepared::a_name_that_is_not_there_is_for_the_server_to_refuse,
        prepared::a_name_that_is_in_use_is_for_the_server_to_refuse,
        prepared::statements_without_a_name_keep_their_plan_if_that_is_wanted,
        prepared::a_long_pipeline_is_answered_to_its_end,
        traffic::copy_of_200_mb_passes_both_ways,
        traffic::a_cursor_reads_100_000_rows_in_a_transaction,
        traffic::an_error_in_a_pipeline_skips_to_its_sync_and_no_further,
        traffic::copy_in_the_extended_protocol_may_bring_its_sync_early,
        traffic::ten_thousand_queries_in_one_write_are_answered_in_order,
        traffic::python_works_through_it,
        hashing::a_server_that_asks_for_too_many_iterations_is_refused_by_their_number,
        hashing::a_stored_secret_of_too_many_iterations_is_not_tried_in_clear_text,
        hashing::who_leaves_gives_the_place_up_to_others_of_the_same_user,
        lock_calls::a_lock_taken_and_released_alone_is_not_asked_about,
        lock_calls::a_lock_is_held_until_it_is_released_as_often_as_it_was_taken,
        lock_calls::what_becomes_of_a_lock_otherwise_is_asked,
        lock_calls::a_function_that_only_says_that_it_unlocks_is_not_believed,
        lock_calls::what_is_known_of_locks_is_what_the_server_tells,
        logins::any_lets_everybody_in_as_the_forced_user,
        logins::trust_wants_a_known_user,
        logins::plain_takes_each_kind_of_secret,
        logins::md5_takes_plain_md5_and_scram_secrets,
        logins::scram_takes_plain_and_scram_secrets_but_no_md5,
        logins::an_empty_password_or_secret_lets_nobody_in,
        logins::an_unknown_database_is_told_only_to_those_who_know_the_password,
        logins::servers_are_logged_in_to_by_each_method_with_a_forced_user,
        logins::servers_are_logged_in_to_with_the_secret_of_the_auth_file,
        logins::an_md5_secret_serves_an_md5_server_but_no_scram_server,
        logins::scram_keys_of_the_client_open_the_server,
        logins::a_wrong_password_for_the_server_is_told_in_its_words,
        remembered::users_who_were_seen_once_are_forgotten,
        remembered::settings_that_one_user_mentions_keep_no_server_of_another,
        remembered::who_listens_to_too_many_channels_keeps_a_server,
        rates::transactions_go_on_at_their_rate,
        rates::transactions_beyond_the_rate_are_rejected_and_sessions_go_on,
        rates::requests_in_one_packet_are_counted_one_by_one,
        rates::copies_pass_though_requests_go_one_by_one,
        rates::logins_are_counted_by_address_before_and_by_user_after_the_proof,
        rates::logins_that_are_delayed_come_in_at_their_rate,
        rates::whoever_is_delayed_may_leave_in_any_way,
        rates::whoever_is_delayed_goes_on_after_anything,
        rates::whoever_is_delayed_is_delayed_in_the_new_process,
        rates::rules_are_made_and_removed_on_the_console,
        limits::max_client_conn_refuses_the_next_with_words,
        limits::a_place_is_free_again_when_a_client_has_gone,
        limits::max_db_client_connections_counts_by_database,
        limits::of_two_full_limits_the_one_of_the_database_is_told,
        limits::max_user_client_connections_counts_by_user,
        limits::who_only_claims_to_be_a_user_takes_none_of_that_users_places,
        limits::a_user_without_a_line_of_its_own_has_the_limit_of_all,
        limits::a_limit_of_users_that_a_reload_brings_counts_who_is_there,
        limits::default_pool_size_is_never_exceeded,
        limits::a_pool_size_of_a_database_goes_before_the_default,
        limits::max_db_connections_holds_over_all_users,
        limits::max_user_connections_holds_over_all_databases,
        limits::limits_hold_for_the_process_with_two_workers,
        limits::an_idle_server_of_another_user_gives_its_place,
        limits::min_pool_size_is_reached_without_a_queue,
        limits::a_minimum_evicts_nobody,
        limits::clients_wait_in_order,
        limits::a_star_stands_for_databases_without_a_line,
        timeouts::query_wait_timeout_ends_who_waited_too_long,
        timeouts::query_timeout_ends_a_long_query_and_its_server,
        timeouts::idle_transaction_timeout_ends_an_idle_transaction,
        timeouts::transaction_timeout_ends_even_a_busy_transaction,
        timeouts::client_idle_timeout_ends_idle_clients_only,
        timeouts::client_login_timeout_ends_who_says_nothing,
        timeouts::client_login_timeout_counts_from_the_first_moment,
        timeouts::client_login_timeout_holds_while_no_server_can_be_reached,
        timeouts::server_connect_timeout_gives_a_silent_server_up,
        timeouts::query_timeout_ends_a_login_that_waits_for_a_silent_server,
        timeouts::server_idle_timeout_closes_what_nobody_uses,
        timeouts::server_lifetime_replaces_old_servers,
        timeouts::server_login_retry_answers_from_memory_in_between,
        timeouts::a_server_that_has_been_idle_is_checked_before_use,
        timeouts::autodb_idle_timeout_forgets_what_nobody_uses,
        cancels::a_running_query_is_cancelled,
        cancels::a_query_in_a_transaction_is_cancelled_and_the_transaction_fails,
        cancels::an_idle_client_or_transaction_is_left_in_peace,
        cancels::a_waiting_client_is_cancelled_or_served_but_nobody_else_is_hit,
        cancels::a_stale_or_guessed_key_is_dropped,
        cancels::a_long_key_cancels_as_a_whole_only,
        cancels::many_cancels_at_once_hit_only_their_own,
        cancels::control_c_in_psql_works,
        peers::a_cancel_request_reaches_its_client_by_any_process,
        peers::a_long_key_reaches_its_client_by_any_process,
        peers::a_cancel_request_that_nobody_owns_ends_after_three_hops,
        peers::a_peer_that_cannot_be_reached_costs_its_own_requests_only,
        peers::a_peer_has_as_many_connections_as_it_may_and_no_more_time,
        peers::a_peer_that_is_removed_is_forgotten,
        peers::a_rolling_restart_fails_nobody,
        lookups::names_are_asked_of_the_servers_of_resolv_conf,
        lookups::a_zone_whose_serial_grows_is_looked_up_again_at_once,
        lookups::a_name_server_that_is_silent_is_passed_over,
        lookups::a_file_of_name_servers_that_is_wrong_is_refused,
        losses::a_server_that_was_told_a_function_call_in_a_batch_is_nobody_elses,
        losses::a_server_terminated_while_idle_is_not_noticed_by_clients,
        losses::a_server_terminated_in_a_transaction_ends_its_client,
        losses::a_server_terminated_while_running_ends_its_client_with_its_words,
        losses::the_query_of_a_killed_client_is_cancelled_within_a_second,
        losses::the_query_of_a_client_that_leaves_in_the_middle_of_a_message_is_cancelled,
        losses::the_query_of_a_client_whose_server_cannot_be_discarded_is_cancelled,
        losses::the_transaction_of_a_killed_client_is_rolled_back,
        losses::many_killed_clients_leave_no_server_behind,
        losses::too_many_connections_are_told_in_the_servers_words,
        losses::a_missing_database_or_role_is_told_in_the_servers_words,
        losses::a_server_that_hangs_holds_up_only_its_own,
        losses::a_client_that_never_reads_harms_nobody,
        losses::a_postgresql_that_crashes_and_returns_is_used_again,
        sessions::settings_follow_their_client_on_a_shared_server,
        sessions::settings_that_are_taken_over_are_told_at_verbose,
        sessions::the_welcome_tells_what_the_server_said,
        sessions::a_setting_that_the_server_refuses_ends_the_client,
        sessions::a_session_keeps_its_server_and_is_wiped_after,
        sessions::an_empty_server_reset_query_wipes_nothing,
        sessions::server_reset_query_always_wipes_after_each_transaction,
        sessions::the_mode_is_that_of_the_user_then_the_database_then_the_process,
        sessions::a_setting_that_the_server_refuses_costs_nobody_a_server,
        sessions::application_name_add_host_tells_where_a_client_came_from,
        sessions::startup_parameters_are_refused_unless_ignored,
        sessions::connect_query_runs_once_for_each_server,
        sessions::what_connect_query_sets_is_everybodys,
        sockets::clients_come_over_the_unix_socket,
        sockets::clients_come_over_an_abstract_unix_socket,
        sockets::servers_are_reached_over_a_unix_socket,
        sockets::servers_are_reached_by_name_and_over_ipv6,
        sockets::clients_come_over_each_listen_address,
        sockets::the_owner_of_the_process_enters_the_console_without_a_password,
        sockets::both_kernel_interfaces_do_the_same_work,
        orders::a_pause_waits_for_transactions_and_a_resume_serves_who_waited,
        orders::a_pause_of_one_database_leaves_the_others_alone,
        orders::control_c_takes_a_pause_back,
        orders::a_reconnect_replaces_servers_as_they_come_back,
        orders::a_kill_sends_everybody_away_and_keeps_them_out_until_resume,
        orders::a_client_is_killed_by_its_number,
        orders::a_disabled_database_keeps_its_clients_and_lets_nobody_in,
        orders::a_setting_holds_until_the_next_reload,
        orders::the_signals_of_a_pause_are_heard,
        orders::server_fast_close_ends_sessions_outside_of_transactions,
        orders::a_pool_that_nobody_uses_is_forgotten,
        orders::an_operator_may_greet_clients,
        orders::who_only_looks_counts_at_the_console_and_an_admin_does_not,
        rules::the_first_rule_decides_who_is_let_in,
        rules::a_rule_that_asks_for_a_password_gets_one,
        rules::rules_are_read_again_and_a_file_that_is_gone_changes_nothing,
        rules::a_rule_that_cannot_be_read_lets_nobody_in,
        rules::a_peer_is_who_the_system_says,
        holes::cve_2012_4575_names_that_are_too_long,
        holes::cve_2015_4054_a_password_before_everything,
        holes::cve_2015_6817_nobody_comes_in_as_who_asks,
        holes::cve_2025_2291_a_password_that_has_expired,
        holes::cve_2025_12819_a_search_path_for_the_question,
        holes::cve_2026_6664_lengths_in_sasl_messages,
        holes::cve_2026_6665_and_6666_what_a_server_may_say,
        holes::cve_2026_6667_who_may_look_may_not_close,
        secrets::a_server_knows_who_may_come_in,
        secrets::a_question_that_cannot_be_answered_is_the_operators_matter,
        secrets::nobody_sees_the_question,
        secrets::nobody_can_tell_who_is_known,
        secrets::the_owner_of_a_database_is_nobody_in_the_question,
        secrets::the_question_is_asked_as_who_is_to_ask_it,
        secrets::what_is_told_is_believed_for_its_time_and_for_its_user_only,
        secrets::what_a_server_refuses_is_asked_again,
        secrets::a_password_is_changed_behind_clients_that_stay,
        secrets::answers_that_are_no_answer_let_nobody_in,
        judges::a_directory_knows_who_may_come_in,
        judges::a_directory_is_searched_for_who_wants_to_come_in,
        judges::a_directory_may_be_asked_by_tls,
        judges::a_directory_that_does_not_answer_holds_up_its_own_only,
        judges::options_of_a_directory_that_are_wrong_or_missing_are_told,
        judges::the_systems_modules_know_who_may_come_in,
        syslog::syslog_hears_what_the_log_says_and_a_reload_switches_it,
        drivers::a_driver_that_prepares_everything_asks_the_console,
        drivers::a_pipeline_at_the_console_is_answered_in_order,
        replication::a_base_backup_is_taken_with_its_wal,
        replication::wal_is_received_as_it_was_written_also_through_reloads,
        replication::changes_are_decoded,
        replication::a_subscription_is_fed_also_with_a_transaction_in_progress,
        replication::whoever_may_not_replicate_is_told_why,
        replication::streams_count_in_their_pool_or_apart_from_it,
        replication::a_client_that_is_killed_frees_its_slot,
        replication::a_stream_outlives_a_pause_and_ends_with_the_process,
        replication::a_cancel_request_ends_a_stream_and_not_its_connection,
        replication::a_stream_that_nobody_reads_is_held_back,
        replication::a_walsender_that_ends_in_good_order_is_no_crash,
        takeover::what_is_suspended_goes_on_where_it_stood,
        takeover::who_does_not_read_is_closed_after_suspend_timeout,
        takeover::a_suspend_ends_with_the_last_console,
        takeover::everybody_goes_on_in_the_new_process,
        takeover::sessions_go_on_in_the_new_process,
        takeover::a_session_that_is_asked_about_is_known_in_the_new_process,
        takeover::scram_keys_and_statements_go_along,
        takeover::who_waits_for_a_server_or_a_greeting_goes_on_waiting,
        takeover::transactions_on_secured_servers_are_waited_for,
        takeover::secured_clients_are_told_why_they_are_let_go,
        takeover::a_new_process_that_cannot_serve_changes_nothing,
        takeover::a_new_process_that_dies_at_any_step_changes_nothing,
        called_off::a_new_process_that_dies_before_everything_stands_still_changes_nothing,
        called_off::until_the_last_word_it_can_be_called_off,
        takeover::another_user_is_given_nothing,
        takeover::other_settings_hold_for_who_is_taken_over,
        takeover::pgbench_notices_nothing,
        takeover::without_a_process_it_is_a_start,
        takeover::the_service_manager_is_told,
        takeover::sockets_of_the_service_manager_are_used,
        signals::sigterm_waits_for_the_clients,
        signals::a_second_sigterm_ends_it_at_once,
        signals::sigint_waits_for_the_servers,
        signals::sigquit_ends_it_at_once,
        signals::shutdown_ends_it_without_a_word,
        signals::a_shutdown_has_patience_for_its_time,
        signals::sighup_reads_the_configuration_again,
        files::a_bad_file_leaves_the_old_configuration_in_force,
        files::a_bad_file_at_sighup_is_told_in_the_log,
        files::a_database_that_is_removed_ends_its_clients,
        files::a_changed_database_gets_new_servers,
        files::a_changed_auth_file_holds_for_the_next_login,
        files::what_cannot_be_served_is_told_at_start,
        files::a_file_that_cannot_be_read_or_is_empty_is_told,
        files::check_tells_all_mistakes_at_once,
        files::a_setting_without_meaning_is_told_once,
        files::included_files_and_quoted_names_are_read,
        files::the_command_line_is_pgbouncers,
        files::root_is_refused_unless_a_user_is_named,
        floods::silent_connections_from_one_address_keep_nobody_else_out,
        floods::whoever_has_logged_in_or_gone_does_not_count,
        floods::whoever_is_displaced_in_its_login_reads_why,
        floods::a_reload_says_how_many_may_not_have_logged_in,
        floods::addresses_take_turns_with_handshakes_of_tls,
        tls::both_legs_are_secured_and_say_how,
        tls::who_must_speak_tls_and_does_not_is_told_so,
        tls::who_may_speak_tls_may_also_not,
        tls::a_client_of_an_older_tls_is_served,
        tls::clients_go_to_their_home_with_their_tls,
        tls::large_rows_pass_both_ways,
        tls::a_client_that_does_not_read_gets_all_in_the_end,
        tls::tls_may_be_spoken_at_once,
        tls::a_client_that_just_vanishes_is_no_warning,
        tls::clients_are_asked_for_certificates,
        tls::rules_tell_who_speaks_tls,
        tls::logins_are_bound_to_their_channel,
        tls::a_server_without_tls_is_refused_where_it_is_required,
        tls::a_servers_certificate_is_checked_as_far_as_it_is_asked_for,
        tls::servers_see_our_certificate,
        tls::a_query_on_a_secured_server_is_cancelled_in_secret,
        tls::who_says_one_thing_and_leaves_is_heard,
        tls::a_reload_reads_certificates_again,
        tls::a_reload_that_cannot_read_a_certificate_changes_nothing,
        tls::servers_are_replaced_when_tls_towards_them_changes,
        console::show_version_names_the_version,
        console::show_databases_has_its_columns,
        console::show_pools_has_its_columns,
        console::show_databases_tells_what_is_known_of_functions,
        console::show_clients_and_servers_have_their_columns,
        console::a_turn_that_one_client_makes_slow_is_counted_and_told_of,
        console::show_stats_has_its_columns_and_counts,
        console::show_lists_users_and_mem_have_their_columns,
        console::show_config_lists_every_setting,
        console::show_help_is_a_notice,
        console::the_console_knows_who_may_do_what,
        console::the_console_answers_nonsense,
    ];
    let alone = tests![Yes:
        hostile_quick::quick_attacks_hurt_no_bystander,
        crowds::five_thousand_clients_share_ten_servers,
        crowds::a_row_of_64_mb_passes_in_flat_memory,
        crowds::ten_thousand_databases_are_read_in_a_second,
        crowds::without_descriptors_old_clients_go_on_and_new_ones_are_refused,
        crowds::clients_that_take_all_descriptors_leave_some_for_servers,
        crowds::a_full_disk_for_the_log_stops_nothing,
        crowds::clients_that_come_and_go_leave_nothing,
        crowds::nobody_reads_anothers_answer_while_clients_and_servers_die,
        differential::random_programs_are_answered_as_by_postgresql,
        smoke::a_short_soak_shows_nobody_anothers_bytes,
    ];
    let long = tests![OnlyWhenNamed:
        crowds::a_row_of_nearly_1_gib_passes_in_flat_memory,
        differential::as_many_random_programs_as_wanted,
        alike::as_many_random_sessions_as_wanted,
    ];
    together.into_iter().chain(alone).chain(long).collect()
}
