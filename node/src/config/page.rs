//! The settings as text: the commented file, the reference page.

use super::Settings;
use super::table::SETTINGS;
use std::fmt::Write;

/// What `tally config init` writes: every setting, commented out, at its default.
pub fn commented_file() -> String {
    let mut out = String::from(
        "# Settings of a tally node. A flag or an environment variable (TALLY_LISTEN for listen)\n\
         # overrules this file. Remove the # of what you change.\n",
    );
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = writeln!(out, "\n# ---- {section} ----");
        }
        out.push('\n');
        for line in setting.documentation.lines() {
            let _ = writeln!(out, "#{line}");
        }
        let _ = writeln!(out, "#{} = {}", setting.key, default_as_toml(setting.key));
    }
    out
}

#[cfg(test)]
const INTRODUCTION: &str = "\
# Configuration

<!-- Made from node/src/config/table.rs; a test compares. -->

A node has one file, `tally.toml`: the one that `--config` names, else the one in the data folder.
A value comes from the first of these that has it: a flag, the environment, the file, the default.
Any setting can be given as a flag, `--set key=value`, and as a variable, `TALLY_KEY`. An unknown
key is an error.

`tally config init` writes a commented file into the data folder, or where it is told,
`tally config check` validates one, and `tally config show` prints the effective values and where
each came from.
";

/// `docs/configuration.md`. A test writes and compares it; the program has no use for it.
#[cfg(test)]
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = writeln!(out, "\n## {section}");
            if setting.scope == super::table::Scope::Genesis {
                out.push_str("\nRead only when the data folder is created.\n");
            }
        }
        let _ = writeln!(
            out,
            "\n### `{}`\n\n{}, default `{}`, variable `{}`.\n",
            setting.key,
            setting.kind,
            default_as_toml(setting.key),
            setting.environment_name(),
        );
        for line in setting.documentation.lines() {
            let _ = writeln!(out, "{}", line.trim_start());
        }
    }
    out
}

fn default_as_toml(key: &str) -> String {
    let value = Settings::defaults().ok().and_then(|s| s.get(key));
    value.map(|v| v.to_string()).unwrap_or_default()
}
