//! The configuration of a world when its faults are over.
//!
//! Always true: limits stay what they are; everybody has time.
//! Not here: when it comes into force (`phases`).

use crate::plan::{Shape, lengths};

impl Shape {
    /// The same limits, and time for everybody: in force when the faults are over.
    pub(crate) fn healed(&self) -> Self {
        let mut healed = self.clone();
        for (name, value) in [
            ("query_wait_timeout", "80"),
            ("server_login_retry", "1"),
            ("server_idle_timeout", "600"),
            ("server_connect_timeout", "15"),
            ("client_login_timeout", "100"),
        ] {
            healed.set(name, value);
        }
        lengths::heal(&mut healed);
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
            healed.settings.remove(name);
        }
        healed
    }

    /// Nobody is kept.
    pub(crate) fn last(&self) -> Self {
        let mut last = self.healed();
        last.set("server_idle_timeout", 1);
        last
    }
}
