//! Which keys are popular.
//!
//! A skew draws a *rank* (0 is the most popular) and spreads the ranks over the keys, so that
//! popular keys are not neighbours. It exists twice: as a generator, and as the text of pgbench
//! meta-commands that compute the same distribution. pgbench has a Zipf generator of its own, but
//! only for exponents above 1, and the studies use 0.99.

use kit::random::Random;
use std::fmt::Write;

/// Popularity of `keys` keys.
#[derive(Clone, Debug)]
pub struct Skew {
    keys: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Zipf(Zipf),
    Hotspot { hot_keys: u64, hot_percent: u32 },
}

impl Skew {
    /// Every key alike. There is at least one key.
    pub fn uniform(keys: u64) -> Skew {
        Skew { keys: keys.max(1), shape: Shape::Uniform }
    }

    /// The key of rank r is drawn in proportion to 1 / (r + 1)^theta, with theta in (0, 1).
    pub fn zipf(keys: u64, theta: f64) -> Skew {
        let keys = keys.max(1);
        Skew { keys, shape: Shape::Zipf(Zipf::new(keys, theta)) }
    }

    /// `hot_percent` of the draws fall on `hot_keys` keys.
    pub fn hotspot(keys: u64, hot_keys: u64, hot_percent: u32) -> Skew {
        let keys = keys.max(1);
        Skew {
            keys,
            shape: Shape::Hotspot {
                hot_keys: hot_keys.clamp(1, keys),
                hot_percent: hot_percent.min(100),
            },
        }
    }

    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// A rank in `0..keys`.
    pub fn rank(&self, random: &mut Random) -> u64 {
        match &self.shape {
            Shape::Uniform => random.below(self.keys),
            Shape::Zipf(zipf) => zipf.rank(random.unit()),
            Shape::Hotspot { hot_keys, hot_percent } => {
                let hot = random.below(100) < u64::from(*hot_percent);
                random.below(if hot { *hot_keys } else { self.keys })
            }
        }
    }

    /// A key in `1..=keys`.
    pub fn key(&self, random: &mut Random) -> u64 {
        spread(self.rank(random), self.keys) + 1
    }

    /// Meta-commands that set the pgbench variable `name` to a key in `1..=keys`.
    pub fn pgbench(&self, name: &str) -> String {
        let keys = self.keys;
        let mut text = String::new();
        match &self.shape {
            Shape::Uniform => {
                let _ = writeln!(text, "\\set {name} random(1, {keys})");
                return text;
            }
            Shape::Zipf(zipf) => zipf.write_pgbench(name, &mut text),
            Shape::Hotspot { hot_keys, hot_percent } => {
                let _ = writeln!(
                    text,
                    "\\set {name}_rank case when random(1, 100) <= {hot_percent} \
                     then random(0, {hot_keys} - 1) else random(0, {keys} - 1) end"
                );
            }
        }
        let _ = writeln!(text, "\\set {name} permute(:{name}_rank, {keys}) + 1");
        text
    }
}

/// A bijection of `0..keys` that puts neighbours far apart: multiplication by a number that has no
/// factor in common with `keys`.
fn spread(rank: u64, keys: u64) -> u64 {
    let mut factor = (keys as f64 * 0.618_033_988_749_895) as u64 | 1;
    while greatest_common_divisor(factor, keys) != 1 {
        factor += 2;
    }
    ((u128::from(rank) * u128::from(factor)) % u128::from(keys)) as u64
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Zipf's distribution by the inversion of Gray et al., "Quickly generating billion-record
/// synthetic databases" (SIGMOD 1994): exact for the two most popular ranks, and a power law fitted
/// to the rest.
#[derive(Clone, Debug)]
struct Zipf {
    keys: u64,
    zeta: f64,
    /// zeta(2): where the second rank ends.
    second: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(keys: u64, theta: f64) -> Zipf {
        let theta = theta.clamp(0.01, 0.999);
        let zeta: f64 = (1..=keys).map(|rank| (rank as f64).powf(-theta)).sum();
        let second = 1.0 + 0.5f64.powf(theta);
        let n = keys as f64;
        // With one or two keys the first two ranks cover everything and eta is not used.
        let eta = if keys > 2 {
            (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - second / zeta)
        } else {
            0.0
        };
        Zipf { keys, zeta, second, alpha: 1.0 / (1.0 - theta), eta }
    }

    /// The rank at `unit`, in `0.0..1.0`, of the cumulated distribution.
    fn rank(&self, unit: f64) -> u64 {
        let at = unit * self.zeta;
        let rank = if at < 1.0 {
            0
        } else if at < self.second {
            1
        } else {
            (self.keys as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
        };
        rank.min(self.keys - 1)
    }

    fn write_pgbench(&self, name: &str, text: &mut String) {
        let Zipf { keys, zeta, second, alpha, eta } = self;
        let _ = writeln!(
            text,
            "\\set {name}_unit random(0, 999999999) / 1000000000.0\n\
             \\set {name}_at :{name}_unit * {zeta:.9}\n\
             \\set {name}_rank case when :{name}_at < 1 then 0 \
             when :{name}_at < {second:.9} then 1 \
             else least({keys} - 1, int({keys} * pow({eta:.9} * :{name}_unit + {:.9}, {alpha:.9}) \
             - 0.5)) end",
            1.0 - eta
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn histogram(skew: &Skew) -> Vec<u64> {
        let mut random = Random::new(7);
        let mut counts = vec![0; skew.keys() as usize];
        (0..DRAWS).for_each(|_| counts[skew.rank(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn zipf_has_the_popularity_that_it_promises() {
        for theta in [0.5, 0.8, 0.99] {
            let keys = 1000;
            let counts = histogram(&Skew::zipf(keys, theta));
            let zeta: f64 = (1..=keys).map(|rank| (rank as f64).powf(-theta)).sum();
            let expected = |from: u64, to: u64| -> f64 {
                let mass: f64 = (from..to).map(|r| ((r + 1) as f64).powf(-theta)).sum();
                mass / zeta * DRAWS as f64
            };
            // Gray's fit is exact for ranks 0 and 1 and within a few percent over a range.
            for (from, to, tolerance) in [(0, 1, 0.03), (1, 2, 0.03), (2, 50, 0.1), (50, 1000, 0.1)]
            {
                let seen: u64 = counts[from as usize..to as usize].iter().sum();
                let wanted = expected(from, to);
                let error = (seen as f64 - wanted).abs() / wanted;
                assert!(error < tolerance, "theta {theta} {from}..{to}: {seen} {wanted}");
            }
        }
    }

    #[test]
    fn a_hotspot_takes_its_share() {
        let counts = histogram(&Skew::hotspot(1000, 10, 90));
        let hot: u64 = counts[..10].iter().sum();
        let share = hot as f64 / DRAWS as f64;
        assert!((0.895..0.907).contains(&share), "{share}");
    }

    #[test]
    fn small_worlds_stay_in_range_and_are_reached() {
        for keys in 1..=9 {
            for skew in [Skew::uniform(keys), Skew::zipf(keys, 0.99), Skew::hotspot(keys, 3, 50)] {
                let counts = histogram(&skew);
                assert!(counts.iter().all(|&count| count > 0), "{skew:?} {counts:?}");
                let mut random = Random::new(1);
                assert!((0..1000).all(|_| (1..=keys).contains(&skew.key(&mut random))));
            }
        }
    }

    #[test]
    fn spreading_is_a_bijection_that_parts_neighbours() {
        for keys in (1..200).chain([1000, 10_000]) {
            let mut seen = vec![false; keys as usize];
            (0..keys).for_each(|rank| seen[spread(rank, keys) as usize] = true);
            assert!(seen.iter().all(|&s| s), "{keys}");
        }
        let distance = spread(0, 10_000).abs_diff(spread(1, 10_000));
        assert!((1000..9000).contains(&distance), "{distance}");
    }
}
