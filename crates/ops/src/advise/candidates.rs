//! Candidates for a value: floors, which are needs, and ceilings, above which there is harm; and the value that follows from them.
//!
//! Always true: every candidate is shown, with what it was computed from, whether it binds or not. A candidate that is not counted, or whose
//! measurement is missing, never binds.
//! Not here: which candidates there are (`sizing`, `times`), how they are shown (`words`).

use serde::Serialize;

/// What a candidate is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// Less is too little.
    Floor,
    /// More does harm.
    Ceiling,
    /// A rule of thumb from elsewhere, to compare with.
    Reference,
}

/// A bound of a value.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    /// `None` if it is not known.
    pub(crate) value: Option<f64>,
    /// What it was computed from; or what would be needed, if it is not known.
    pub(crate) measured: String,
    pub(crate) formula: String,
    /// Whether it may bind.
    pub(crate) is_counted: bool,
}

impl Candidate {
    pub(crate) fn floor(name: &'static str, value: Option<f64>, formula: &str, measured: String) -> Self {
        Self { name, side: Side::Floor, value, measured, formula: formula.to_owned(), is_counted: true }
    }

    pub(crate) fn ceiling(name: &'static str, value: Option<f64>, formula: &str, measured: String) -> Self {
        Self { side: Side::Ceiling, ..Self::floor(name, value, formula, measured) }
    }

    pub(crate) fn reference(name: &'static str, value: Option<f64>, formula: &str, measured: String) -> Self {
        Self { side: Side::Reference, is_counted: false, ..Self::floor(name, value, formula, measured) }
    }

    /// The same, to compare with only.
    pub(crate) fn shown_only(self) -> Self {
        Self { is_counted: false, ..self }
    }
}

/// Something that moves a floor below its ceiling.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Remedy {
    pub(crate) what: &'static str,
    /// The step that was tried, in words.
    pub(crate) step: String,
    /// How much of the distance between floor and ceiling the step closes; 1 is all of it.
    pub(crate) closes: f64,
    /// How much of it would be enough, in words.
    pub(crate) enough: Option<String>,
}

/// What follows from candidates.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub(crate) enum Verdict {
    Chosen {
        value: f64,
        binding: &'static str,
    },
    /// A floor is above a ceiling.
    NoSizeWorks {
        floor: f64,
        floor_by: &'static str,
        ceiling: f64,
        ceiling_by: &'static str,
        /// The largest value that does no harm, until the cause is removed.
        least_bad: f64,
        /// The best first.
        remedies: Vec<Remedy>,
    },
    /// Something is not known.
    NotConcluded {
        needs: String,
    },
}

impl Verdict {
    /// The value to set, if there is one.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Chosen { value, .. } => Some(*value),
            Self::NoSizeWorks { least_bad, .. } => Some(*least_bad),
            Self::NotConcluded { .. } => None,
        }
    }

    pub(crate) fn is_impossible(&self) -> bool {
        matches!(self, Self::NoSizeWorks { .. })
    }
}

/// A value with all that led to it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Decision {
    /// The setting, by PgBouncer's name, or what else it is.
    pub(crate) setting: &'static str,
    /// Of which pool, database or server.
    pub(crate) subject: String,
    pub(crate) unit: Unit,
    pub(crate) candidates: Vec<Candidate>,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
}

/// What a value counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Connections,
    Seconds,
}

/// The highest floor that counts.
pub(crate) fn highest_floor(candidates: &[Candidate]) -> Option<(&'static str, f64)> {
    counted(candidates, Side::Floor).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The lowest ceiling that counts.
pub(crate) fn lowest_ceiling(candidates: &[Candidate]) -> Option<(&'static str, f64)> {
    counted(candidates, Side::Ceiling).min_by(|a, b| a.1.total_cmp(&b.1))
}

fn counted(candidates: &[Candidate], side: Side) -> impl Iterator<Item = (&'static str, f64)> {
    let of_side = candidates.iter().filter(move |candidate| candidate.side == side && candidate.is_counted);
    of_side.filter_map(|candidate| Some((candidate.name, candidate.value.filter(|value| !value.is_nan())?)))
}

/// The smallest whole number of connections that all floors allow, if no ceiling forbids it. `remedies` is asked if one does.
pub(crate) fn connections(
    candidates: &[Candidate],
    needs: &str,
    remedies: impl FnOnce(f64, f64) -> Vec<Remedy>,
) -> Verdict {
    let Some((floor_by, floor)) = highest_floor(candidates) else {
        return Verdict::NotConcluded { needs: needs.to_owned() };
    };
    let floor = floor.ceil().max(1.0);
    match lowest_ceiling(candidates) {
        Some((ceiling_by, ceiling)) if ceiling < floor => Verdict::NoSizeWorks {
            floor,
            floor_by,
            ceiling,
            ceiling_by,
            least_bad: ceiling.floor().max(1.0),
            remedies: remedies(floor, ceiling),
        },
        _ => Verdict::Chosen { value: floor, binding: floor_by },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(value: f64) -> Candidate {
        Candidate::floor("need", Some(value), "", String::new())
    }

    fn ceiling(value: f64) -> Candidate {
        Candidate::ceiling("harm", Some(value), "", String::new())
    }

    #[test]
    fn the_highest_floor_binds_unless_a_ceiling_is_below_it() {
        let decide = |candidates: &[Candidate]| connections(candidates, "loans", |_, _| Vec::new());
        let chosen = decide(&[floor(3.2), Candidate { name: "more", ..floor(4.1) }, ceiling(9.0)]);
        assert_eq!(chosen, Verdict::Chosen { value: 5.0, binding: "more" });
        assert_eq!(decide(&[floor(3.2), floor(40.0).shown_only()]).value(), Some(4.0));
        let none = decide(&[floor(7.0), ceiling(6.5)]);
        assert!(none.is_impossible() && none.value() == Some(6.0), "{none:?}");
        assert_eq!(decide(&[ceiling(9.0)]), Verdict::NotConcluded { needs: "loans".to_owned() });
        let unknown = Candidate { value: None, ..floor(0.0) };
        assert_eq!(decide(&[unknown, floor(2.0)]).value(), Some(2.0));
    }
}
