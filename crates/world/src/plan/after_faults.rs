//! The configuration of a world after its faults.
//!
//! Always true: limits of numbers do not change; timers are long or off.
//! Not here: when it comes into force (`phases`).

use crate::plan::{Shape, lengths};

impl Shape {
    /// The configuration after the faults: the same limits, and long timers.
    pub(crate) fn after_faults(&self) -> Self {
        let mut shape = self.clone();
        for (name, value) in [
            ("query_wait_timeout", "80"),
            ("server_login_retry", "1"),
            ("server_idle_timeout", "600"),
            ("server_connect_timeout", "15"),
            ("client_login_timeout", "100"),
        ] {
            shape.set(name, value);
        }
        lengths::heal(&mut shape);
        for name in [
            "query_timeout",
            "client_idle_timeout",
            "idle_transaction_timeout",
            "transaction_timeout",
            "server_lifetime",
            "min_pool_size",
            "max_pinned_servers",
            "pinned_server_timeout",
        ] {
            shape.settings.remove(name);
        }
        shape
    }

    /// The same, but idle servers are closed soon, and the members of a cluster are checked seldom.
    pub(crate) fn last(&self) -> Self {
        let mut last = self.after_faults();
        if let Some(line) = &mut last.cluster {
            let words = line
                .split(' ')
                .map(|word| if word.starts_with("check_interval=") { "check_interval=60" } else { word });
            *line = words.collect::<Vec<_>>().join(" ");
        }
        last.set("server_idle_timeout", 1);
        last
    }
}
