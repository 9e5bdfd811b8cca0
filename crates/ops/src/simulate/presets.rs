//! Specs that are built in.
//!
//! Always true: a preset is a text that `--print-spec` prints and that can be edited; each is simulated in a test.
//! Not here: stories that are made of several presets (`story`).

/// A spec that is built in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// What it shows, in one line.
    pub(super) about: &'static str,
    pub(super) text: &'static str,
}

/// The preset of a name.
///
/// # Errors
/// There is none; the text tells which is near.
pub(super) fn find(name: &str) -> Result<&'static Preset, String> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let names = PRESETS.iter().map(|preset| preset.name).chain(STORIES.iter().map(|(name, _)| *name));
        match config::nearest(name, names) {
            Some(near) => format!("there is no preset \"{name}\"; did you mean \"{near}\"?"),
            None => format!("there is no preset \"{name}\"; --presets lists all"),
        }
    })
}

/// All presets with what they show, for a terminal.
pub(super) fn list() -> String {
    let lines = STORIES.iter().map(|(name, about)| format!("{name:<24}{about}\n"));
    lines.chain(PRESETS.iter().map(|preset| format!("{:<24}{}\n", preset.name, preset.about))).collect()
}

/// The names of stories, which are presets that simulate several others.
pub(super) const STORIES: [(&str, &str); 2] = [
    ("mattermost", "the whole story: five configurations side by side, the plot of disconnections, the knee"),
    ("cern", "both benchmarks, with the gain taken apart: network, TLS, authentication, pooling"),
];

macro_rules! mattermost {
    ($name:literal) => {
        concat!(
            include_str!(concat!("presets/mattermost-", $name, ".toml")),
            include_str!("presets/mattermost-workload.toml")
        )
    };
}

pub(super) const PRESETS: [Preset; 13] = [
    Preset {
        name: "mattermost-2021-broken",
        about: "minima of 12 tenants above max_db_connections, under PgBouncer 1.17",
        text: mattermost!("2021-broken"),
    },
    Preset {
        name: "mattermost-2021-fix1",
        about: "smaller minima and a larger database",
        text: mattermost!("2021-fix1"),
    },
    Preset {
        name: "mattermost-2021-tuned",
        about: "a small pool and a large reserve after a short wait",
        text: mattermost!("2021-tuned"),
    },
    Preset { name: "mattermost-2022", about: "short idle times and lifetimes", text: mattermost!("2022") },
    Preset {
        name: "mattermost-2024",
        about: "two servers for each workspace, under PgBouncer 1.18",
        text: mattermost!("2024"),
    },
    Preset {
        name: "cern-before",
        about: "800 clients that connect for each transaction, without a pooler",
        text: include_str!("presets/cern-before.toml"),
    },
    Preset { name: "cern-after", about: "the same with a pooler", text: include_str!("presets/cern-after.toml") },
    Preset {
        name: "gitlab",
        about: "web and background pools, a migration and a deployment",
        text: include_str!("presets/gitlab.toml"),
    },
    Preset {
        name: "percona-keepwarm",
        about: "80 connections that live for days",
        text: include_str!("presets/percona-keepwarm.toml"),
    },
    Preset {
        name: "storm",
        about: "hundreds of clients more within a minute, and a restart of the server",
        text: include_str!("presets/storm.toml"),
    },
    Preset {
        name: "slow-reader",
        about: "large answers that clients read slowly",
        text: include_str!("presets/slow-reader.toml"),
    },
    Preset {
        name: "noisy-neighbour",
        about: "a tenant with ten times the load, and more for a while",
        text: include_str!("presets/noisy-neighbour.toml"),
    },
    Preset {
        name: "one-each",
        about: "tenants of one connection: a sweep whose knee is known to be 1",
        text: include_str!("presets/one-each.toml"),
    },
];
