//! Times and sizes as settings are given and shown.

use std::time::Duration;

const DURATION_UNITS_US: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// A time as settings are given: a number of milliseconds, or a number and a unit. At most what
/// PostgreSQL takes, 2^31 - 1 milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit_us = match unit.trim_start() {
        "" => 1_000,
        unit => DURATION_UNITS_US.iter().find(|(name, _)| *name == unit)?.1,
    };
    let us = number.parse::<u64>().ok()?.checked_mul(unit_us)?;
    // Whole milliseconds, as PostgreSQL rounds.
    let ms = us.checked_add(500)? / 1_000;
    i32::try_from(ms).is_ok().then(|| Duration::from_millis(ms))
}

const MEMORY_UNITS: [(&str, u64); 4] = [("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("", 1)];

pub fn memory(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = MEMORY_UNITS.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    let bytes = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (64 << 10..=64 << 30).contains(&bytes).then_some(bytes)
}

/// In the largest unit that leaves no fraction.
pub fn shown(duration: Duration) -> String {
    let us = duration.as_micros() as u64;
    let unit = DURATION_UNITS_US.iter().find(|(_, unit_us)| us > 0 && us.is_multiple_of(*unit_us));
    unit.map_or_else(|| "0".to_owned(), |(name, unit_us)| format!("{}{name}", us / unit_us))
}
