//! As many databases as a hosting platform has tenants.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;

use config::{Homes, Overrides, load};

/// Ten thousand databases, each on a line of its own.
fn crowd(extra: &str) -> String {
    (0..10_000).fold(format!("[pgbouncer]\nlisten_port = 1\n{extra}[databases]\n"), |mut text, n| {
        writeln!(text, "tenant_{n} = host=10.0.0.{} port=5432 user=app password=secret pool_size=5", n % 250)
            .expect("a string takes everything");
        text
    })
}

#[test]
fn ten_thousand_databases_are_read_once_and_share_their_texts() {
    let text = crowd("");
    let reads = Cell::new(0);
    let read = |_: &str| {
        reads.set(reads.get() + 1);
        Ok(text.clone().into_bytes())
    };
    let loaded = load("t.ini", &read, &Overrides::default()).expect("good settings");
    assert_eq!((reads.get(), loaded.files.len(), loaded.lines), (1, 1, 10_004));

    let databases = &loaded.settings.databases;
    assert_eq!(databases.len(), 10_000);
    let (first, last) = (&databases["tenant_0"], &databases["tenant_9750"]);
    assert!(Arc::ptr_eq(&first.name, &first.dbname));
    for (one, other) in [(&first.user, &last.user), (&first.host_text, &last.host_text)] {
        let (one, other) = (one.as_ref().expect("it is set"), other.as_ref().expect("it is set"));
        assert!(Arc::ptr_eq(one, other), "{one} is in memory twice");
    }
}

#[test]
fn a_contradiction_of_all_is_not_told_ten_thousand_times() {
    let text = crowd("auth_type = any\nmax_db_connections = 10\nmin_pool_size = 3\nquery_wait_timeout = 1\n");
    let warnings = crate::loaded(&text).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn ten_thousand_databases_are_spread_evenly_over_their_workers() {
    let homes = Homes::assign(&crate::settings(&crowd("")), 8, None);
    let mut counts = [0; 8];
    for n in 0..10_000 {
        counts[usize::from(homes.home_of(&format!("tenant_{n}")).0)] += 1;
    }
    assert_eq!(counts, [1250; 8]);

    let automatic = Homes::assign(&config::Settings::default(), 8, None);
    let mut counts = [0_u32; 8];
    for n in 0..10_000 {
        counts[usize::from(automatic.home_of(&format!("tenant_{n}")).0)] += 1;
    }
    assert!(counts.iter().all(|count| (1_000..1_500).contains(count)), "{counts:?}");
}
