//! Which keys are popular.
//!
//! A skew draws a *rank* (0 is the most popular) and spreads the ranks over the keys, so that
//! popular keys are not neighbours. It exists twice: as a generator, and as the text of pgbench
//! meta-commands that compute the same distribution. pgbench has a Zipf generator of its own, but
//! only for exponents above 1, and the studies use 0.99.

use std::fmt::Write;

use kit::random::Random;

/// Popularity of `keys` keys.
#[derive(Clone, Debug)]
pub struct Skew {
    keys: u64,
    spread: Spread,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Zipf(Zipf),
    Hotspot { hot_keys: u64, hot_percent: u32 },
}

impl Skew {
    fn new(keys: u64, shape: impl FnOnce(u64) -> Shape) -> Skew {
        let keys = keys.max(1);
        Skew { keys, spread: Spread::new(keys), shape: shape(keys) }
    }

    /// Every key alike. There is at least one key.
    pub fn uniform(keys: u64) -> Skew {
        Skew::new(keys, |_| Shape::Uniform)
    }

    /// The key of rank r is drawn in proportion to 1 / (r + 1)^theta; theta 0 is uniform.
    pub fn zipf(keys: u64, theta: f64) -> Skew {
        match theta > 0.0 {
            true => Skew::new(keys, |keys| Shape::Zipf(Zipf::new(keys, theta))),
            false => Skew::uniform(keys),
        }
    }

    /// `hot_percent` of the draws fall on the first `hot_keys` ranks, the others on the rest.
    pub fn hotspot(keys: u64, hot_keys: u64, hot_percent: u32) -> Skew {
        Skew::new(keys, |keys| Shape::Hotspot {
            hot_keys: hot_keys.clamp(1, keys),
            hot_percent: hot_percent.min(100),
        })
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
                let cold_keys = self.keys - hot_keys;
                match cold_keys == 0 || random.below(100) < u64::from(*hot_percent) {
                    true => random.below(*hot_keys),
                    false => hot_keys + random.below(cold_keys),
                }
            }
        }
    }

    /// A key in `1..=keys`.
    pub fn key(&self, random: &mut Random) -> u64 {
        self.spread.of(self.rank(random)) + 1
    }

    /// `count` different keys (all there are, if those are fewer), in no order.
    pub fn distinct_keys(&self, count: usize, random: &mut Random) -> Vec<u64> {
        let count = count.min(self.keys as usize);
        let mut keys = Vec::with_capacity(count);
        let mut draws_left = DRAWS_OF_A_KEY * count;
        while keys.len() < count {
            let mut key = self.key(random);
            if draws_left == 0 {
                // So few are left that are ever drawn: take the next one in order.
                while keys.contains(&key) {
                    key = key % self.keys + 1;
                }
            }
            draws_left = draws_left.saturating_sub(1);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
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
            Shape::Hotspot { hot_keys, hot_percent } if *hot_keys < keys => {
                let _ = writeln!(
                    text,
                    "\\set {name}_rank case when random(1, 100) <= {hot_percent} \
                     then random(0, {hot_keys} - 1) else random({hot_keys}, {keys} - 1) end"
                );
            }
            Shape::Hotspot { .. } => {
                let _ = writeln!(text, "\\set {name}_rank random(0, {keys} - 1)");
            }
        }
        let _ = writeln!(text, "\\set {name} permute(:{name}_rank, {keys}) + 1");
        text
    }
}

/// How often `distinct_keys` draws for each key before it takes what is left.
const DRAWS_OF_A_KEY: usize = 1000;

/// A bijection of `0..keys` that puts neighbours far apart: multiplication by a number that has no
/// factor in common with `keys`.
#[derive(Clone, Debug)]
pub struct Spread {
    keys: u64,
    factor: u64,
}

impl Spread {
    pub fn new(keys: u64) -> Spread {
        let mut factor = (keys as f64 * 0.618_033_988_749_895) as u64 | 1;
        while greatest_common_divisor(factor, keys) != 1 {
            factor += 2;
        }
        Spread { keys, factor }
    }

    pub fn of(&self, rank: u64) -> u64 {
        ((u128::from(rank) * u128::from(self.factor)) % u128::from(self.keys)) as u64
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Zipf's distribution by the inversion of Gray et al., "Quickly generating billion-record
/// synthetic databases" (SIGMOD 1994): exact for the two most popular ranks, and for the rest the
/// inverse of a continuous power law, so that a draw costs one power whatever the number of keys.
///
/// ```text
///   u · zeta(n)     0        1      1 + 2^-theta                              zeta(n)
///                   │ rank 0 │ rank 1 │ H⁻¹ of the share between H(2.5) and H(n + 0.5) │
///
///   H(x) = ∫₁ˣ t^-theta dt = (x^(1 - theta) - 1) / (1 - theta),  at theta = 1: ln x
/// ```
///
/// *At and above 1.* Gray's own formula divides by 1 - theta. Written with `expm1` and `ln_1p`, H
/// and its inverse lose no digits near 1, where they become logarithm and exponential, and above 1
/// they are as good as below: nothing but zeta(n) ever diverges, and n is finite.
///
/// *Departure.* Rank r owns x from r + 0.5 to r + 1.5, which is the midpoint rule. Gray gives it
/// the piece from r to r + 1, which makes the third key a fifth too popular. The test compares
/// every rank with its exact probability.
#[derive(Clone, Debug)]
struct Zipf {
    keys: u64,
    theta: f64,
    zeta: f64,
    /// zeta(2): where the second rank ends.
    second: f64,
    /// H where the third rank begins, and from there to the end.
    tail_from: f64,
    tail: f64,
}

/// Terms of zeta that are summed one by one; the midpoint rule is exact to 1e-10 behind them.
const ZETA_TERMS: u64 = 10_000;

impl Zipf {
    fn new(keys: u64, theta: f64) -> Zipf {
        let end = keys as f64 + 0.5;
        let terms = keys.min(ZETA_TERMS);
        let sum: f64 = (1..=terms).map(|rank| (rank as f64).powf(-theta)).sum();
        let rest = integral(end, theta) - integral(terms as f64 + 0.5, theta);
        let tail_from = integral(2.5, theta);
        Zipf {
            keys,
            theta,
            zeta: sum + rest,
            second: 1.0 + 0.5f64.powf(theta),
            tail_from,
            tail: integral(end, theta) - tail_from,
        }
    }

    /// The rank at `unit`, in `0.0..1.0`, of the cumulated distribution.
    fn rank(&self, unit: f64) -> u64 {
        let at = unit * self.zeta;
        let rank = if at < 1.0 {
            0
        } else if at < self.second {
            1
        } else {
            let share = (at - self.second) / (self.zeta - self.second);
            (inverse_integral(self.tail_from + share * self.tail, self.theta) - 0.5) as u64
        };
        rank.min(self.keys - 1)
    }

    fn write_pgbench(&self, name: &str, text: &mut String) {
        let Zipf { keys, theta, zeta, second, tail_from, tail } = self;
        let exponent = 1.0 - theta;
        // Two keys have no tail.
        let step = if *keys > 2 { tail / (zeta - second) } else { 0.0 };
        let reached = format!("({tail_from:.12} + (:{name}_at - {second:.12}) * {step:.12})");
        // pgbench has no expm1, and does not need the last digits.
        let inverse = match exponent.abs() < 1e-6 {
            true => format!("exp({reached})"),
            false => format!("pow(1 + {exponent:.12} * {reached}, {:.12})", 1.0 / exponent),
        };
        let _ = writeln!(
            text,
            "\\set {name}_at random(0, 999999999) / 1000000000.0 * {zeta:.12}\n\
             \\set {name}_rank case when :{name}_at < 1 then 0 \
             when :{name}_at < {second:.12} then 1 \
             else least({keys} - 1, int({inverse} - 1.0)) end",
        );
    }
}

/// H: the integral of t^-theta from 1 to x.
fn integral(x: f64, theta: f64) -> f64 {
    let exponent = 1.0 - theta;
    match exponent == 0.0 {
        true => x.ln(),
        false => (exponent * x.ln()).exp_m1() / exponent,
    }
}

/// The x up to which the integral is `y`.
fn inverse_integral(y: f64, theta: f64) -> f64 {
    let exponent = 1.0 - theta;
    match exponent == 0.0 {
        true => y.exp(),
        false => ((exponent * y).ln_1p() / exponent).exp(),
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

    fn exact(keys: u64, theta: f64) -> Vec<f64> {
        let powers: Vec<f64> = (1..=keys).map(|rank| (rank as f64).powf(-theta)).collect();
        let zeta: f64 = powers.iter().sum();
        powers.into_iter().map(|power| power / zeta).collect()
    }

    /// Where the generator's rank steps from one to the next tells the probability that it gives
    /// to each, without chance.
    fn given(zipf: &Zipf, rank: u64) -> f64 {
        let start_of = |rank: u64| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let middle = (low + high) / 2.0;
                if zipf.rank(middle) < rank { low = middle } else { high = middle }
            }
            high
        };
        match rank + 1 == zipf.keys {
            true => 1.0 - start_of(rank),
            false => start_of(rank + 1) - start_of(rank),
        }
    }

    #[test]
    fn every_rank_of_zipf_has_its_exact_probability_within_two_percent() {
        for theta in [0.2, 0.6, 0.9, 0.99, 0.999_999, 1.0, 1.000_001, 1.1, 1.2] {
            let keys = 20_000;
            let zipf = Zipf::new(keys, theta);
            let exact = exact(keys, theta);
            for rank in (0..100).chain((100..keys).step_by(997)).chain([keys - 1]) {
                let wanted = exact[rank as usize];
                let error = (given(&zipf, rank) / wanted - 1.0).abs();
                let allowed = if rank < 2 { 1e-6 } else { 0.02 };
                assert!(error < allowed, "theta {theta} rank {rank}: {error}");
            }
        }
    }

    #[test]
    fn zipf_draws_what_it_promises() {
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let counts = histogram(&Skew::zipf(1000, theta));
            let exact = exact(1000, theta);
            // Four standard deviations, for single ranks and for ranges.
            for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 10), (10, 100), (100, 1000)] {
                let seen: u64 = counts[from..to].iter().sum();
                let share: f64 = exact[from..to].iter().sum();
                let wanted = share * DRAWS as f64;
                let error = (seen as f64 - wanted).abs();
                let allowed = 4.0 * (wanted * (1.0 - share)).sqrt() + 0.01 * wanted;
                assert!(error < allowed, "theta {theta} {from}..{to}: {seen} {wanted}");
            }
        }
    }

    #[test]
    fn theta_zero_is_uniform() {
        let counts = histogram(&Skew::zipf(100, 0.0));
        assert!(counts.iter().all(|count| (3700..4300).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_sum_of_a_long_tail_is_exact() {
        for theta in [0.5, 1.0, 1.2] {
            let keys = 300_000;
            let sum: f64 = (1..=keys).map(|rank| (rank as f64).powf(-theta)).sum();
            let error = (Zipf::new(keys, theta).zeta / sum - 1.0).abs();
            assert!(error < 1e-9, "{theta} {error}");
        }
    }

    #[test]
    fn a_hotspot_takes_its_share() {
        let counts = histogram(&Skew::hotspot(1000, 10, 90));
        let hot: u64 = counts[..10].iter().sum();
        let share = hot as f64 / DRAWS as f64;
        assert!((0.897..0.903).contains(&share), "{share}");
    }

    #[test]
    fn small_worlds_stay_in_range_and_are_reached() {
        for keys in 1..=9 {
            for skew in [
                Skew::uniform(keys),
                Skew::zipf(keys, 0.99),
                Skew::zipf(keys, 1.2),
                Skew::hotspot(keys, 3, 50),
            ] {
                let counts = histogram(&skew);
                assert!(counts.iter().all(|&count| count > 0), "{skew:?} {counts:?}");
                let mut random = Random::new(1);
                assert!((0..1000).all(|_| (1..=keys).contains(&skew.key(&mut random))));
            }
        }
    }

    #[test]
    fn distinct_keys_differ_even_where_most_are_hardly_ever_drawn() {
        let mut random = Random::new(5);
        for skew in [Skew::zipf(20, 2.0), Skew::hotspot(20, 5, 100), Skew::uniform(3)] {
            let mut keys = skew.distinct_keys(10, &mut random);
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len() as u64, skew.keys().min(10), "{skew:?}");
        }
    }

    #[test]
    fn spreading_is_a_bijection_that_parts_neighbours() {
        for keys in (1..200).chain([1000, 10_000]) {
            let spread = Spread::new(keys);
            let mut seen = vec![false; keys as usize];
            (0..keys).for_each(|rank| seen[spread.of(rank) as usize] = true);
            assert!(seen.iter().all(|&s| s), "{keys}");
        }
        let spread = Spread::new(10_000);
        let distance = spread.of(0).abs_diff(spread.of(1));
        assert!((1000..9000).contains(&distance), "{distance}");
    }
}
