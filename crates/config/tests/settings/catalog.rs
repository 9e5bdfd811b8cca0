//! The catalog as a whole.

use config::{CATALOG, Reload, Settings, reference};

use crate::{settings, told};

/// The names of PgBouncer's `SHOW CONFIG` in its order.
const PGBOUNCER: &str = "admin_users application_name_add_host auth_dbname auth_file auth_hba_file auth_ident_file \
    auth_ldap_options auth_query auth_type auth_user autodb_idle_timeout cancel_wait_timeout client_idle_timeout \
    client_login_timeout client_tls13_ciphers client_tls_ca_file client_tls_cert_file client_tls_ciphers \
    client_tls_dheparams client_tls_ecdhcurve client_tls_key_file client_tls_protocols client_tls_sslmode conffile \
    default_pool_size disable_pqexec dns_max_ttl dns_nxdomain_ttl dns_zone_check_period idle_transaction_timeout \
    ignore_startup_parameters job_name listen_addr listen_backlog listen_port log_connections log_disconnections \
    log_pooler_errors log_stats logfile login_notify_message max_client_conn max_db_client_connections \
    max_db_connections max_packet_size max_prepared_statements max_user_client_connections max_user_connections \
    min_pool_size peer_id pidfile pkt_buf pool_mode pool_idle_timeout query_timeout query_wait_notify \
    query_wait_timeout reserve_pool_size reserve_pool_timeout resolv_conf sbuf_loopcnt scram_iterations \
    server_check_delay server_check_query server_connect_timeout server_fast_close server_idle_timeout \
    server_lifetime server_login_retry server_reset_query server_reset_query_always server_round_robin \
    server_tls13_ciphers server_tls_ca_file server_tls_cert_file server_tls_ciphers server_tls_key_file \
    server_tls_protocols server_tls_sslmode so_reuseport stats_period stats_users suspend_timeout syslog \
    syslog_facility syslog_ident tcp_defer_accept tcp_keepalive tcp_keepcnt tcp_keepidle tcp_keepintvl \
    tcp_socket_buffer tcp_user_timeout track_extra_parameters transaction_timeout unix_socket_dir unix_socket_group \
    unix_socket_mode user verbose";

/// Those of them that only a restart changes, as in PgBouncer but for `resolv_conf`, which a reload changes here.
const FIXED: &str = "disable_pqexec job_name listen_addr listen_backlog listen_port pidfile pkt_buf \
    so_reuseport track_extra_parameters unix_socket_dir unix_socket_group unix_socket_mode user";

/// Those of them whose default is NULL.
const NULL: &str = "auth_dbname auth_file auth_ident_file auth_ldap_options auth_user client_tls13_ciphers conffile \
    server_tls13_ciphers user verbose";

#[test]
fn the_hundred_settings_of_pgbouncer_come_first_and_in_its_order() {
    let names: Vec<_> = CATALOG.iter().map(|entry| entry.name).collect();
    let pgbouncer: Vec<_> = PGBOUNCER.split_whitespace().collect();
    assert_eq!(pgbouncer.len(), 100);
    assert_eq!(names[..100], pgbouncer);
    let ours = "workers io_backend server_dials_max replication_pool_size server_mend_timeout shutdown_timeout \
                auth_query_cache_ttl syslog_socket session_state session_policy max_pinned_servers \
                pinned_server_timeout notify_lost notify_lost_channel notify_queue_size max_client_memory max_client_channels max_db_channels
                lock_sweep_interval reuse_unnamed_statements sequence_hold_time session_unseen session_verify
                scram_iterations_max max_unauthenticated_connections track_statements http_listen_addr http_port log_format log_pool_wait
                log_min_duration_transaction trace_values otlp_endpoint otlp_headers otlp_ca_file otlp_sample_ratio otlp_service_name
                otlp_values proxy_protocol_from read_routing listen_port_replica zone";
    assert_eq!(names[100..], ours.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn what_needs_a_restart_and_what_has_no_default_is_as_in_pgbouncer() {
    let names = |is: fn(&config::Entry) -> bool| -> Vec<_> {
        CATALOG[..100].iter().filter(|entry| is(entry)).map(|entry| entry.name).collect()
    };
    assert_eq!(names(|entry| entry.reload == Reload::Restart), FIXED.split_whitespace().collect::<Vec<_>>());
    assert_eq!(names(|entry| entry.default.is_none()), NULL.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn every_default_is_shown_as_it_is_written_and_can_be_written() {
    let shown = Settings::default().show();
    for (entry, shown) in CATALOG.iter().zip(&shown) {
        // PgBouncer shows the mode in decimal and 0 for a verbosity without a default; so do we.
        let expected = match entry.name {
            "unix_socket_mode" => Some("511"),
            "verbose" => Some("0"),
            _ => entry.default,
        };
        assert_eq!(shown.value.as_deref(), expected, "{}", entry.name);
        assert_eq!((shown.key, shown.default), (entry.name, entry.default));

        let default = entry.default.unwrap_or(if entry.name == "verbose" { "0" } else { "" });
        let written = settings(&format!("[pgbouncer]\n{} = {}\n", entry.name, default));
        let again = written.show();
        let position = CATALOG.iter().position(|other| other.name == entry.name).expect("it is in the catalog");
        if entry.name != "conffile" {
            assert_eq!(again[position].value.as_deref(), expected, "{}", entry.name);
        }
    }
}

#[test]
fn every_number_time_and_word_refuses_junk_and_what_is_out_of_its_range() {
    let mut refused = 0;
    for entry in CATALOG {
        if matches!(entry.kind, "text" | "list") {
            continue;
        }
        let mut bad = vec!["banana".to_owned(), "-1 s".to_owned(), String::new()];
        if entry.is_secret || entry.kind == "networks" {
            // An empty text means that it is not set.
            bad.pop();
        }
        if let Some((min, max)) = entry.range {
            bad.extend([(min - 1).to_string(), (max + 1).to_string(), "1.5".to_owned()]);
        }
        for bad in bad {
            let told = told(&format!("[pgbouncer]\n{} = {bad}\n", entry.name));
            let bad = if entry.is_secret { "***" } else { &bad };
            let phrase = format!("invalid value \"{bad}\" for parameter {} in configuration (t.ini:2)", entry.name);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with(&phrase), "{}", told[0]);
            refused += 1;
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn both_ends_of_every_range_are_allowed() {
    for entry in CATALOG {
        for end in entry.range.into_iter().flat_map(|(min, max)| [min, max]) {
            settings(&format!("[pgbouncer]\n{} = {end}\n", entry.name));
        }
    }
}

#[test]
fn values_are_shown_as_pgbouncer_shows_them() {
    let text = "[pgbouncer]\nquery_timeout = 1.50\nserver_lifetime = 12345678.25\nlisten_port = 0x1932\n\
                pool_mode = TRANSACTION\nadmin_users = root , ops\nunix_socket_mode = 0770\nlog_stats = 2\n\
                unix_socket_dir =\nauth_user = u\ntcp_user_timeout = 1500\nquery_wait_notify = 7\n";
    let shown = settings(text).show();
    let value = |key: &str| shown.iter().find(|shown| shown.key == key).and_then(|shown| shown.value.as_deref());
    assert_eq!(value("query_timeout"), Some("1.5"));
    assert_eq!(value("server_lifetime"), Some("1.23457e+07"));
    assert_eq!(value("listen_port"), Some("6450"));
    assert_eq!(value("pool_mode"), Some("transaction"));
    assert_eq!(value("admin_users"), Some("root , ops"));
    assert_eq!(value("unix_socket_mode"), Some("504"));
    assert_eq!(value("log_stats"), Some("1"));
    assert_eq!(value("unix_socket_dir"), Some(""));
    assert_eq!(value("auth_user"), Some("u"));
    assert_eq!(value("auth_dbname"), None);
    assert_eq!(value("tcp_user_timeout"), Some("1500"));
    assert_eq!(value("query_wait_notify"), Some("7"));
    assert_eq!(value("conffile"), Some("t.ini"));
}

#[test]
fn the_reference_page_has_a_row_for_every_setting() {
    let page = reference();
    assert_eq!(page.lines().count(), CATALOG.len() + 2);
    for entry in CATALOG {
        assert!(page.contains(&format!("\n| `{}` |", entry.name)), "{}", entry.name);
        assert!(!entry.doc.trim().is_empty() && !entry.doc.contains('|'), "{}", entry.name);
    }
    assert!(page.contains("| `server_idle_timeout` | time, s | `600` |  | at reload |"), "{page}");
}
