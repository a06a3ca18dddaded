//! What memory there is, and what of it the process holds, where the operating system tells.

use std::fs::read_to_string;

/// Bytes that tables may hold: as they are set, or, of 0, three quarters of what there is.
pub fn bytes_max(set: u64) -> u64 {
    match set {
        0 => total_bytes().map_or(0, |total| total / 4 * 3),
        set => set,
    }
}

/// Memory of the process that is backed.
pub fn resident_bytes() -> Option<u64> {
    resident_bytes_of(std::process::id())
}

/// The same of another process.
pub fn resident_bytes_of(process: u32) -> Option<u64> {
    kilobytes(&read_to_string(format!("/proc/{process}/status")).ok()?, "VmRSS:")
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
        #[cfg(target_os = "linux")]
        assert!(resident_bytes().is_some_and(|bytes| bytes < total_bytes().unwrap()));
    }
}
