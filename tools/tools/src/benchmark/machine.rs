//! Describes the machine that figures were measured on: processor, memory, kernel, build.

use std::fs;
use std::path::PathBuf;

use bench::Plan;

/// In pairs of a name and a value, for people.
pub fn facts(plan: &Plan) -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let profile = if cfg!(debug_assertions) { "debug: figures mean nothing" } else { "release" };
    let version = env!("CARGO_PKG_VERSION");
    let synced = |folder: &PathBuf| format!("synced before each result, in {}", folder.display());
    let off = || "off: nothing is written to disk".to_owned();
    let durability = plan.durability.iter().map(|folder| folder.as_ref().map_or_else(off, synced));
    let durability = durability.collect::<Vec<_>>().join("; ");
    vec![
        ("processor", processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned())),
        ("cores", cores.to_string()),
        ("memory", memory().unwrap_or_else(|| "unknown".to_owned())),
        ("system", system()),
        ("build", format!("tally {version}, {profile}, {}", std::env::consts::ARCH)),
        ("durability", durability),
        ("sealing", sealing(&plan.sealing).to_owned()),
        ("command", std::env::args().skip(1).fold("tally".to_owned(), |all, a| all + " " + &a)),
    ]
}

fn sealing(switches: &[bool]) -> &'static str {
    match (switches.contains(&true), switches.contains(&false)) {
        (true, true) => "on and off, compared",
        (true, false) => "on: blocks are hashed into a chain",
        _ => "off: the protocol alone",
    }
}

fn processor() -> Option<String> {
    after_colon(&fs::read_to_string("/proc/cpuinfo").ok()?, "model name")
}

fn memory() -> Option<String> {
    let total = after_colon(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} GiB", kib.div_ceil(1 << 20)))
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim())
}

/// The rest of the first line that begins with `name` and a colon.
fn after_colon(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::after_colon;

    #[test]
    fn the_value_of_a_line_is_what_follows_its_colon() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2: GHz\nmodel name\t: other\n";
        assert_eq!(after_colon(text, "model name").as_deref(), Some("Some CPU @ 2: GHz"));
        assert_eq!(after_colon(text, "flags"), None);
    }
}
