//! Processor time of other processes, from /proc.

/// Ticks of a second, which Linux has fixed for programs.
const TICKS: f64 = 100.0;

struct Times {
    parent: u32,
    own: f64,
    /// Of children that have ended and were waited for.
    of_ended: f64,
}

fn times(process: u32) -> Option<Times> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // A name may hold anything; what follows it does not.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(Times {
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS,
        of_ended: (ticks(13)? + ticks(14)?) / TICKS,
    })
}

/// Of one process, in seconds.
pub fn of_one(process: u32) -> f64 {
    times(process).map_or(0.0, |times| times.own)
}

/// With its children, those that have ended included.
pub fn of_family(process: u32) -> f64 {
    let Some(first) = times(process) else { return 0.0 };
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = numbers.filter_map(times).filter(|times| times.parent == process);
    first.own + first.of_ended + children.map(|times| times.own + times.of_ended).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_charged_with_what_it_does() {
        let own = std::process::id();
        let before = of_one(own);
        let mut sum = 0_u64;
        while of_one(own) < before + 0.03 {
            sum = (0..1000_u64).fold(sum, |sum, it| sum.wrapping_mul(31).wrapping_add(it));
        }
        assert!(of_family(own) >= before + 0.03 && sum != 1);
        assert_eq!(of_one(0), 0.0);
    }
}
