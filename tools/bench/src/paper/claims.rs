//! What a paper says, and whether it is so here.

use std::fmt::Display;

use serde::Serialize;

/// Something that the paper says, and whether it is so here.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    pub claim: String,
    pub paper: String,
    pub ours: String,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our number is [near](near) the paper's, within its own spread, or the shape is the same.
    Holds,
    /// More where the paper has more, less where it has less, and not as much.
    DirectionOnly,
    Fails,
    /// Something else was measured.
    NotMeasured,
}

impl Verdict {
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "yes",
            Verdict::DirectionOnly => "direction",
            Verdict::Fails => "NO",
            Verdict::NotMeasured => "-",
        }
    }

    /// `holds` is not asked for more than `direction`.
    pub(super) fn of(holds: bool, direction: bool) -> Verdict {
        match (holds, direction) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::DirectionOnly,
            (false, false) => Verdict::Fails,
        }
    }
}

/// A number counts as the paper's within these times it.
const BAND: std::ops::RangeInclusive<f64> = 0.7..=1.5;

/// Whether our number is about the paper's.
pub(super) fn near(paper: f64, ours: f64) -> bool {
    BAND.contains(&(ours / paper))
}

/// What a paper says of a ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Expected {
    About(f64),
    Between(f64, f64),
    AtLeast(f64),
}

impl From<f64> for Expected {
    fn from(about: f64) -> Expected {
        Expected::About(about)
    }
}

impl From<(f64, f64)> for Expected {
    fn from((low, high): (f64, f64)) -> Expected {
        Expected::Between(low, high)
    }
}

impl Expected {
    pub(super) fn judge(self, ours: f64) -> Verdict {
        let same_side = |paper: f64| (paper > 1.0 && ours > 1.0) || (paper < 1.0 && ours < 1.0);
        let holds = match self {
            Expected::About(paper) => near(paper, ours),
            Expected::Between(low, high) => (low..=high).contains(&ours),
            Expected::AtLeast(paper) => ours >= BAND.start() * paper,
        };
        let direction = match self {
            Expected::About(paper) | Expected::AtLeast(paper) => same_side(paper),
            Expected::Between(low, high) => same_side(low) && same_side(high),
        };
        Verdict::of(holds, direction)
    }
}

impl Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expected::About(ratio) => write!(f, "{ratio:.2}x"),
            Expected::Between(low, high) => write!(f, "{low:.2}x to {high:.2}x"),
            Expected::AtLeast(ratio) => write!(f, "over {ratio:.0}x"),
        }
    }
}

/// How many claims had which verdict.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    pub hold: usize,
    pub direction_only: usize,
    pub fail: usize,
    pub not_measured: usize,
}

impl Tally {
    pub fn of<'c>(claims: impl IntoIterator<Item = &'c Claim>) -> Tally {
        let mut tally = Tally::default();
        for claim in claims {
            *match claim.verdict {
                Verdict::Holds => &mut tally.hold,
                Verdict::DirectionOnly => &mut tally.direction_only,
                Verdict::Fails => &mut tally.fail,
                Verdict::NotMeasured => &mut tally.not_measured,
            } += 1;
        }
        tally
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { hold, direction_only, fail, not_measured } = self;
        let all = hold + direction_only + fail + not_measured;
        write!(f, "Of {all} claims {hold} hold, {direction_only} only in direction, {fail} fail")?;
        match not_measured {
            0 => f.write_str("."),
            _ => write!(f, ", {not_measured} were not measured."),
        }
    }
}

pub(super) fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}
