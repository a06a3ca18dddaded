//! What a retention policy says: `every 1000 blocks keep 24, every 1 hour keep 48`.

use std::fmt;
use std::str::FromStr;

/// Snapshots that one rule may keep: each costs a look at every collection, and the versions that
/// only it shows.
const KEEP_MAX: u32 = 10_000;

const SECOND_US: i64 = 1_000_000;
const UNITS_US: [(&str, i64); 4] = [
    ("second", SECOND_US),
    ("minute", 60 * SECOND_US),
    ("hour", 3_600 * SECOND_US),
    ("day", 86_400 * SECOND_US),
];

/// Rules side by side: what any of them keeps stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    pub rules: Vec<Rule>,
}

/// The newest `keep` snapshots, one for each `every`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    pub every: Every,
    pub keep: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Every {
    /// Blocks whose height is a multiple.
    Blocks(u64),
    /// The last block before each multiple of so many microseconds.
    Time(i64),
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        if matches!(text.trim(), "" | "none" | "off") {
            return Ok(Policy::default());
        }
        let rules = text.split(',').map(|rule| {
            let words: Vec<&str> = rule.split_whitespace().collect();
            rule_of(&words).ok_or_else(|| {
                format!(
                    "`{}` is no rule: write `every 1000 blocks keep 24`, or with second, minute, \
                     hour or day in the place of blocks; keep at most {KEEP_MAX}",
                    rule.trim()
                )
            })
        });
        Ok(Policy { rules: rules.collect::<Result<_, _>>()? })
    }
}

fn rule_of(words: &[&str]) -> Option<Rule> {
    let (count, unit, keep) = match words {
        ["every", count, unit, "keep", keep] => (count.parse::<u32>().ok()?, *unit, keep),
        ["every", unit, "keep", keep] => (1, *unit, keep),
        _ => return None,
    };
    let keep = keep.parse().ok().filter(|keep| (1..=KEEP_MAX).contains(keep))?;
    if count == 0 {
        return None;
    }
    let unit = unit.strip_suffix('s').unwrap_or(unit);
    let every = match UNITS_US.iter().find(|(name, _)| *name == unit) {
        Some((_, unit_us)) => Every::Time(unit_us.checked_mul(i64::from(count))?),
        None if unit == "block" => Every::Blocks(u64::from(count)),
        None => return None,
    };
    Some(Rule { every, keep })
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Rule { every, keep }) in self.rules.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let (count, unit) = match every {
                Every::Blocks(count) => (*count as i64, "block"),
                Every::Time(us) => {
                    let fits = |(_, unit_us): &&(&str, i64)| us % unit_us == 0;
                    let (name, unit_us) = UNITS_US.iter().rfind(fits).unwrap_or(&UNITS_US[0]);
                    (us / unit_us, *name)
                }
            };
            let plural = if count == 1 { "" } else { "s" };
            write!(f, "{comma}every {count} {unit}{plural} keep {keep}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_written() {
        for (text, canonical) in [
            ("every 1000 blocks keep 24", "every 1000 blocks keep 24"),
            ("every block keep 1", "every 1 block keep 1"),
            (
                " every 90 minutes keep 3,every day keep 7 ",
                "every 90 minutes keep 3, every 1 day keep 7",
            ),
            ("every 7200 seconds keep 2", "every 2 hours keep 2"),
            ("none", ""),
            ("", ""),
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(policy));
        }
    }

    #[test]
    fn what_is_no_policy_is_an_error_that_shows_one() {
        for wrong in [
            "1000",
            "every 0 blocks keep 3",
            "every 3 weeks keep 3",
            "every 10 blocks keep 0",
            "every 10 blocks keep 10001",
            "every 10 blocks keep 3,",
            "every -1 blocks keep 3",
        ] {
            let error = wrong.parse::<Policy>().unwrap_err();
            assert!(error.contains("every 1000 blocks keep 24"), "{error}");
        }
    }
}
