//! Facts of Kubernetes: manifests, and the values of a chart.
//!
//! Always true: what a manifest leaves out has Kubernetes's documented default; what values leave out is the chart's and unknown. A configuration
//! that a ConfigMap contains is read as a file of its own, with the lines of the manifest.
//! Not here: rendering a chart.

use std::io;
use std::sync::Arc;

use config::{CATALOG, Place};

use super::yaml::{Value, Yaml};
use super::{Facts, Program, read_ini};

/// What runs a pooler.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) at: Place,
    /// Whether it is only the values of a chart.
    pub(crate) is_values: bool,
    pub(crate) replicas: Option<(f64, Place)>,
    /// Seconds between the signal to stop and the end.
    pub(crate) grace: Option<(f64, Place)>,
    /// What runs before the signal, in one line.
    pub(crate) pre_stop: Option<String>,
    /// The version of PgBouncer, if the image's tag says it.
    pub(crate) pgbouncer_version: Option<(u32, u32)>,
    /// Whether its processes are kept apart.
    pub(crate) is_spread: bool,
    /// Whether evictions are limited.
    pub(crate) has_budget: bool,
}

/// Reads manifests or values.
///
/// # Errors
/// It is no YAML; the line and why.
pub(crate) fn read_kubernetes(path: &str, text: &str, facts: &mut Facts) -> Result<(), (u32, String)> {
    let yaml = Yaml::parse(text)?;
    let file: Arc<str> = path.into();
    let at = |value: Value<'_>| Place { file: Arc::clone(&file), line: value.line() };
    let mut found = Vec::new();
    let mut has_budget = false;
    for document in yaml.documents() {
        let kind = document.get("kind").and_then(Value::text).unwrap_or_default();
        let listed: Vec<Value<'_>> = document.get("items").map(|items| items.items().collect()).unwrap_or_default();
        for object in listed.into_iter().chain([document]) {
            let kind = object.get("kind").and_then(Value::text).unwrap_or(kind);
            match kind {
                "PodDisruptionBudget" => has_budget = true,
                "Deployment" | "StatefulSet" | "DaemonSet" => found.push(manifest(object, &at)),
                "" => found.extend(values(object, &at)),
                _ => {}
            }
        }
    }
    // Other workloads of the same file are none of ours, unless there is only one.
    if found.len() > 1 && found.iter().any(is_pooler) {
        found.retain(is_pooler);
    }
    found.iter_mut().for_each(|workload| workload.has_budget |= has_budget);
    facts.workloads.extend(found);
    embedded(path, &yaml, facts);
    settings(path, &yaml, facts);
    Ok(())
}

/// Configurations inside manifests.
fn embedded(path: &str, yaml: &Yaml, facts: &mut Facts) {
    let is_ini = |text: &str| {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        ["[pgbouncer]", "[trunkline]"].iter().any(|section| lines.contains(section))
    };
    for (line, text) in yaml.texts().filter(|(_, text)| is_ini(text)).take(EMBEDDED_MAX) {
        // The line of a block is that of its first text.
        let shifted = "\n".repeat(line.saturating_sub(1) as usize) + text;
        // What it includes is in a container, not here.
        let reader = |name: &str| -> io::Result<Vec<u8>> {
            Ok(if name == path { shifted.clone().into_bytes() } else { Vec::new() })
        };
        let _ = read_ini(path, &reader, None, facts);
    }
}

/// Settings of PgBouncer that a chart or an operator of Kubernetes takes as a mapping: `parameters: {default_pool_size: "20"}`. The databases are
/// elsewhere, so that they are judged for any one (`*`).
fn settings(path: &str, yaml: &Yaml, facts: &mut Facts) {
    let is_setting = |name: &str| CATALOG.iter().any(|entry| entry.name == name && entry.name != "user");
    for map in yaml.maps() {
        let said = |(name, value): (&'static str, Value<'_>)| Some((name, value.text()?.to_owned(), value.line()));
        let known = map.entries().filter(|(name, _)| is_setting(name));
        let known: Vec<_> = known
            .filter_map(|(name, value)| said((CATALOG.iter().find(|entry| entry.name == name)?.name, value)))
            .collect();
        if known.len() < SETTINGS_LEAST || facts.poolers.len() >= EMBEDDED_MAX {
            continue;
        }
        let mut text = "[databases]* =\n".to_owned();
        let mut line = 2;
        for (number, (name, value, at)) in known.into_iter().enumerate() {
            let head = if number == 0 { "[pgbouncer]" } else { "" };
            text.push_str(&"\n".repeat(at.saturating_sub(line) as usize));
            text.push_str(&format!("{head}{name} = {}\n", value.replace('\n', " ")));
            line = line.max(at) + 1;
        }
        let reader = |_: &str| -> io::Result<Vec<u8>> { Ok(text.clone().into_bytes()) };
        let _ = read_ini(path, &reader, Some(Program::Pgbouncer), facts);
    }
}

fn manifest(object: Value<'_>, at: &dyn Fn(Value<'_>) -> Place) -> Workload {
    let said = |path: &str| object.path(path).and_then(|value| Some((value.number()?, at(value))));
    let containers = object.path("spec.template.spec.containers");
    let containers: Vec<Value<'_>> = containers.map(|list| list.items().collect()).unwrap_or_default();
    let images = containers.iter().filter_map(|container| container.get("image")?.text());
    let pod = object.path("spec.template.spec");
    let is_set = |key: &str| pod.and_then(|pod| pod.path(key)).is_some_and(|value| !value.is_nothing());
    Workload {
        name: object.path("metadata.name").and_then(Value::text).unwrap_or("unnamed").to_owned(),
        at: at(object),
        is_values: false,
        replicas: said("spec.replicas").or(Some((1.0, at(object)))),
        grace: said("spec.template.spec.terminationGracePeriodSeconds").or(Some((GRACE_DEFAULT, at(object)))),
        pre_stop: containers.iter().find_map(|container| container.path("lifecycle.preStop")).map(one_line),
        pgbouncer_version: images.filter_map(pgbouncer_version).next(),
        is_spread: is_set("affinity.podAntiAffinity") || is_set("topologySpreadConstraints"),
        has_budget: false,
    }
}

/// The values of a chart: at the top, or under a key that names a pooler.
fn values(root: Value<'_>, at: &dyn Fn(Value<'_>) -> Place) -> Option<Workload> {
    let named = root.entries().filter(|(key, _)| POOLERS.iter().any(|name| key.to_ascii_lowercase().contains(name)));
    let scopes: Vec<Value<'_>> = [root].into_iter().chain(named.map(|(_, value)| value)).collect();
    let find = |paths: &[&str]| scopes.iter().find_map(|scope| paths.iter().find_map(|path| scope.path(path)));
    let said = |paths: &[&str]| find(paths).and_then(|value| Some((value.number()?, at(value))));
    let is_set = |paths: &[&str]| find(paths).is_some_and(|value| !value.is_nothing());
    let replicas = said(&["replicaCount", "replicas", "deployment.replicas"]);
    let grace = said(&["terminationGracePeriodSeconds", "deployment.terminationGracePeriodSeconds"]);
    let tag = find(&["image.tag"]).and_then(Value::text).map(|tag| format!("pgbouncer:{tag}"));
    let is_named =
        find(&["image.repository", "image.name"]).and_then(Value::text).is_some_and(|name| name.contains("pgbouncer"));
    let workload = Workload {
        name: "values".to_owned(),
        at: at(root),
        is_values: true,
        pre_stop: find(&["lifecycle.preStop", "deployment.lifecycle.preStop"]).map(one_line),
        pgbouncer_version: tag.filter(|_| is_named).as_deref().and_then(pgbouncer_version),
        is_spread: is_set(&["affinity.podAntiAffinity", "topologySpreadConstraints", "podAntiAffinity"]),
        has_budget: is_set(&["podDisruptionBudget", "pdb"]),
        replicas,
        grace,
    };
    (workload.replicas.is_some() || workload.grace.is_some()).then_some(workload)
}

fn is_pooler(workload: &Workload) -> bool {
    let name = workload.name.to_ascii_lowercase();
    workload.pgbouncer_version.is_some() || workload.is_values || POOLERS.iter().any(|pooler| name.contains(pooler))
}

/// The version in `registry/pgbouncer:1.22.1-debian`.
fn pgbouncer_version(image: &str) -> Option<(u32, u32)> {
    let (name, tag) = image.rsplit_once(':')?;
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let (major, rest) = tag.trim_start_matches('v').split_once('.')?;
    name.contains("pgbouncer").then_some((digits(major)?, digits(rest)?))
}

/// The words of a hook: `exec: {command: [sleep, "10"]}` is `sleep 10`.
fn one_line(hook: Value<'_>) -> String {
    let command =
        hook.path("exec.command").map(|list| list.items().filter_map(Value::text).collect::<Vec<_>>().join(" "));
    let sleep = || hook.path("sleep.seconds").and_then(Value::text).map(|time| format!("sleep {time}"));
    command.or_else(sleep).unwrap_or_else(|| "a hook".to_owned())
}

const POOLERS: [&str; 5] = ["pgbouncer", "odyssey", "trunkline", "pooler", "bouncer"];
/// Kubernetes's default of `terminationGracePeriodSeconds`.
const GRACE_DEFAULT: f64 = 30.0;
/// One name alone, such as `user`, may mean anything.
const SETTINGS_LEAST: usize = 2;
/// More configurations than a file of manifests has.
const EMBEDDED_MAX: usize = 20;
