//! The search for the coefficients of the scalability law: least squares by Levenberg and Marquardt from the linear fit.
//!
//! Always true: a coefficient that would be negative is fixed at 0, and the others are fitted again without it.
//! Not here: what may be concluded from them (`usl`).

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

use super::usl::{Point, Usl};

/// The best coefficients.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Fitted {
    pub(super) usl: Usl,
    /// The standard errors of alpha, beta and gamma; `None` for one that was fixed at 0.
    pub(super) errors: [Option<f64>; 3],
    pub(super) residual_error: f64,
}

/// The coefficients of the least weighted squares; `None` if the search does not end.
pub(super) fn fit(points: &[Point]) -> Option<Fitted> {
    let is_free = [[true, true], [true, false], [false, true], [false, false]];
    let mut best: Option<Fitted> = None;
    for [alpha, beta] in is_free {
        let Some(found) = fit_free(points, [alpha, beta, true]) else { continue };
        if found.usl.alpha < 0.0 || found.usl.beta < 0.0 {
            continue;
        }
        if alpha && beta {
            return Some(found);
        }
        // The residual error counts all three coefficients, so errors of fits with other bounds can be compared.
        if best.as_ref().is_none_or(|best| found.residual_error < best.residual_error) {
            best = Some(found);
        }
    }
    best
}

fn fit_free(points: &[Point], free: [bool; 3]) -> Option<Fitted> {
    let columns: Vec<usize> = (0..3).filter(|column| free[*column]).collect();
    let start = linear_fit(points);
    let chosen = DVector::from_iterator(columns.len(), columns.iter().map(|column| start[*column]));
    let problem = Problem { points, columns: &columns, chosen };
    let (problem, report) = LevenbergMarquardt::new().with_patience(400).minimize(problem);
    if !report.termination.was_successful() {
        return None;
    }
    let residuals = problem.residuals()?;
    let freedom = points.len().checked_sub(3).filter(|freedom| *freedom > 0)? as f64;
    let variance = residuals.norm_squared() / freedom;
    let jacobian = problem.jacobian()?;
    let covariance = (jacobian.transpose() * jacobian).try_inverse()?;
    let mut errors = [None; 3];
    for (row, column) in columns.iter().enumerate() {
        errors[*column] = Some((covariance[(row, row)] * variance).sqrt() * SCALES[*column]);
    }
    Some(Fitted { usl: problem.usl(), errors, residual_error: variance.sqrt() })
}

/// Where the search begins: `N / X` is a polynomial of second degree in `N - 1`, by unweighted squares. In the scaled units.
fn linear_fit(points: &[Point]) -> [f64; 3] {
    let rows = DMatrix::from_fn(points.len(), 3, |row, column| (points[row].n - 1.0).powi(column as i32));
    let right = DVector::from_iterator(points.len(), points.iter().map(|point| point.n / point.x));
    let solved = rows.svd(true, true).solve(&right, 1e-12).ok();
    let largest = points.iter().map(|point| point.x / point.n).fold(f64::MIN_POSITIVE, f64::max);
    let fallback = [0.01, 1e-4, largest];
    let [alpha, beta, gamma] = solved.map_or(fallback, |c| match c[0] > 0.0 {
        // 1/gamma, (alpha + beta)/gamma, beta/gamma.
        true => [(c[1] - c[2]) / c[0], c[2] / c[0], 1.0 / c[0]],
        false => fallback,
    });
    [alpha.max(1e-4) / SCALES[0], beta.max(1e-7) / SCALES[1], gamma / SCALES[2]]
}

struct Problem<'a> {
    points: &'a [Point],
    columns: &'a [usize],
    chosen: DVector<f64>,
}

impl Problem<'_> {
    fn usl(&self) -> Usl {
        let mut all = [0.0; 3];
        for (column, value) in self.columns.iter().zip(self.chosen.iter()) {
            all[*column] = value * SCALES[*column];
        }
        Usl { alpha: all[0], beta: all[1], gamma: all[2] }
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, chosen: &DVector<f64>) {
        self.chosen.copy_from(chosen);
    }

    fn params(&self) -> DVector<f64> {
        self.chosen.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let usl = self.usl();
        let residuals = self.points.iter().map(|point| (usl.at(point.n) - point.x) / point.sigma);
        Some(DVector::from_iterator(self.points.len(), residuals))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let usl = self.usl();
        let slope = |point: &Point, column: usize| {
            let (n, below) = (point.n, usl.slowdown(point.n));
            let slope = match column {
                0 => -usl.gamma * n * (n - 1.0) / below.powi(2),
                1 => -usl.gamma * n * n * (n - 1.0) / below.powi(2),
                _ => n / below,
            };
            slope * SCALES[column] / point.sigma
        };
        Some(DMatrix::from_fn(self.points.len(), self.columns.len(), |row, column| {
            slope(&self.points[row], self.columns[column])
        }))
    }
}

/// Units in which the coefficients are about equally large, so that the matrices are well conditioned.
const SCALES: [f64; 3] = [1e-2, 1e-4, 1e2];
