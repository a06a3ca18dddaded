//! What memory there is, and what of it the process holds, where the operating system tells.

use std::fs::read_to_string;

/// Bytes that tables may hold: as they are set, or, of 0, three quarters of what there is.
pub fn bytes_max(set: u64) -> u64 {
    match set {
        0 => total_bytes().map_or(0, |total| total / 4 * 3),
        set => set,
    }
}

/// Bytes that sessions may hold: as they are set, or, of 0, an eighth of what tables may.
pub fn session_bytes_max(set: u64, tables_set: u64) -> u64 {
    const LEAST_BYTES: u64 = 64 << 20;
    const UNKNOWN_BYTES: u64 = 1 << 30;
    match (set, bytes_max(tables_set)) {
        (0, 0) => UNKNOWN_BYTES,
        (0, tables) => (tables / 8).max(LEAST_BYTES),
        (set, _) => set,
    }
}

/// Memory of a process that is backed.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// What nothing but the process itself can bring back.
    pub own_bytes: u64,
    /// Files that are mapped, of which the program is most: the kernel reads them again at need.
    pub mapped_bytes: u64,
}

impl Resident {
    pub fn bytes(&self) -> u64 {
        self.own_bytes + self.mapped_bytes
    }
}

/// Of this process.
pub fn resident() -> Option<Resident> {
    resident_of(std::process::id())
}

/// Of another process.
pub fn resident_of(process: u32) -> Option<Resident> {
    let text = read_to_string(format!("/proc/{process}/status")).ok()?;
    let mapped_bytes = kilobytes(&text, "RssFile:")?;
    let own_bytes = kilobytes(&text, "VmRSS:")?.saturating_sub(mapped_bytes);
    Some(Resident { own_bytes, mapped_bytes })
}

/// Memory of the machine, or of the control group of the process if that has less.
fn total_bytes() -> Option<u64> {
    let machine = kilobytes(&read_to_string("/proc/meminfo").ok()?, "MemTotal:");
    let group = read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|bytes| bytes.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

/// Of the line that begins with a name.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_its_unit_is_needed() {
        let text = "VmPeak:\t 10 kB\nVmRSS:\t   24680 kB\nVmOdd:\t 12\n";
        assert_eq!(kilobytes(text, "VmRSS:"), Some(24_680 << 10));
        assert_eq!(kilobytes(text, "VmOdd:"), None);
        assert_eq!(kilobytes(text, "VmNone:"), None);
        assert_eq!(bytes_max(5), 5);
        assert_eq!(session_bytes_max(5, 1 << 40), 5);
        assert_eq!(session_bytes_max(0, 1 << 40), 1 << 37);
        assert_eq!(session_bytes_max(0, 1), 64 << 20);
        #[cfg(target_os = "linux")]
        assert!(resident().is_some_and(|resident| {
            resident.own_bytes > 0
                && resident.mapped_bytes > 0
                && resident.bytes() < total_bytes().unwrap()
        }));
    }
}
