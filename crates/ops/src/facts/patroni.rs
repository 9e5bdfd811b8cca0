//! Facts of Patroni's configuration: a member's file, or the dynamic configuration.
//!
//! Always true: of the dynamic configuration in a member's file only `bootstrap.dcs` is known, which holds until it was changed elsewhere.
//! Not here: a running Patroni.

use std::sync::Arc;

use config::Place;

use super::Facts;
use super::yaml::{Value, Yaml};

/// Patroni's configuration. Times are in seconds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Patroni {
    pub(crate) at: Place,
    pub(crate) ttl: Option<(f64, Place)>,
    pub(crate) loop_wait: Option<(f64, Place)>,
    pub(crate) retry_timeout: Option<(f64, Place)>,
    /// Whether it is a member's file, which alone has a watchdog.
    pub(crate) is_of_member: bool,
    /// `watchdog.mode`, if it is not off.
    pub(crate) watchdog: Option<String>,
}

/// Reads a file.
///
/// # Errors
/// It is no YAML; the line and why.
pub(crate) fn read_patroni(path: &str, text: &str, facts: &mut Facts) -> Result<(), (u32, String)> {
    let yaml = Yaml::parse(text)?;
    let file: Arc<str> = path.into();
    let Some(root) = yaml.documents().next() else { return Ok(()) };
    let said = |key: &str| {
        let value = root.get(key).or_else(|| root.path("bootstrap.dcs")?.get(key))?;
        Some((value.number()?, Place { file: Arc::clone(&file), line: value.line() }))
    };
    let watchdog = root.path("watchdog.mode").filter(|mode| !mode.is_nothing()).and_then(Value::text);
    facts.patronis.push(Patroni {
        ttl: said("ttl"),
        loop_wait: said("loop_wait"),
        retry_timeout: said("retry_timeout"),
        is_of_member: ["scope", "name", "restapi", "bootstrap"].iter().any(|key| root.get(key).is_some()),
        watchdog: watchdog.map(str::to_owned),
        at: super::whole(&file),
    });
    Ok(())
}
