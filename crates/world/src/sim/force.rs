//! What is in force in a world: its configuration, read as the product does it, and what goes with it.
//!
//! Always true: a plan is without mistakes.
//! Not here: when something else comes into force (`world`, `operator`).

use std::sync::Arc;

use config::{Homes, Loaded, Overrides, Settings};
use protocol::vars::Tracked;
use reactor::{LogTarget, TcpTuning};
use worker::letters::{Force, RateLimits, Standing};

use crate::faults::operator::secrets;
use crate::plan::lengths;
use crate::plan::{Plan, Shape};
use crate::sim::fake_tls;
use crate::sim::net::OWN_UID;

/// Reads a configuration as the product does.
pub(crate) fn load(text: &str, previous: Option<&Settings>) -> Result<Loaded, Vec<config::Mistake>> {
    let read = |_: &str| Ok(text.as_bytes().to_vec());
    match previous {
        None => config::load("world.ini", &read, &Overrides::default()),
        Some(previous) => config::load_over(previous, "world.ini", &read, &Overrides::default()),
    }
}

/// What is in force first.
pub(crate) fn first_force(plan: &Plan) -> Force {
    let text = plan.shape.text();
    let settings = match load(&text, None) {
        Ok(loaded) => loaded.settings,
        Err(mistakes) => panic!("the plan has a mistake: {}\n{text}", mistakes[0]),
    };
    let homes = Homes::assign(&settings, plan.workers, None);
    let (hba, idents) = plan.auth.rules();
    let tracked = Tracked::new(settings.track_extra_parameters.iter().map(|name| &**name));
    Force {
        homes,
        users: secrets(plan, None),
        hba,
        idents,
        tracked,
        mock_key: [9; 32],
        tls: fake_tls::terms(plan.tls.is_offered),
        tuning: TcpTuning {
            keepalive: false,
            keepidle_secs: 0,
            keepintvl_secs: 0,
            keepcnt: 0,
            user_timeout_ms: 0,
            socket_buffer: 0,
        },
        log: Arc::new(LogTarget::new(false, None)),
        own_uid: OWN_UID,
        standing: Standing::default(),
        rates: Arc::new(RateLimits::new(&settings, [9; 32])),
        settings,
    }
}

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
