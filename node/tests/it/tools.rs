//! Commands that the program `tally-tools` runs, where it lies beside `tally` and where it does
//! not.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// `tally` in a folder of its own, with or without a program for tools that is this script.
struct Installed(tempfile::TempDir);

impl Installed {
    fn with(script: Option<&str>) -> Installed {
        let built = Path::new(env!("CARGO_BIN_EXE_tally"));
        let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        std::fs::hard_link(built, folder.path().join("tally")).unwrap();
        if let Some(script) = script {
            let program = folder.path().join("tally-tools");
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        }
        Installed(folder)
    }

    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(self.0.path().join("tally"));
        let done = command.args(line.split(' ')).stdin(Stdio::null()).output().unwrap();
        let [said, complained] =
            [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (done.status.code(), said, complained)
    }
}

#[test]
fn a_tool_takes_the_process_over_with_the_rest_of_the_line() {
    let installed = Installed::with(Some("echo $# \"$@\"; exit 7"));
    for (line, given) in [
        ("bench", "1 bench"),
        ("demo --keep --seconds 3", "4 demo --keep --seconds 3"),
        ("bench figure -- x --output json", "6 bench figure -- x --output json"),
        ("torture --seconds=3 --help", "3 torture --seconds=3 --help"),
        ("--output json sim --seeds 5", "5 --output json sim --seeds 5"),
        ("soak --output json --keep", "4 --output json soak --keep"),
        ("help fuzz", "2 fuzz --help"),
        ("fuzz --help", "2 fuzz --help"),
    ] {
        let (code, said, complained) = installed.run(line);
        assert_eq!((code, said.trim_end()), (Some(7), given), "{line}: {complained}");
    }
}

#[test]
fn help_tells_of_the_tools_that_are_there() {
    let some = Installed::with(Some("[ \"$*\" = list ] && echo demo && echo unheard-of"));
    let (code, help, _) = some.run("--help");
    assert_eq!(code, Some(0));
    assert!(help.contains("  demo "), "{help}");
    assert!(!help.contains("  bench ") && !help.contains("unheard-of"), "{help}");
    let (code, help, _) = Installed::with(None).run("--help");
    assert_eq!(code, Some(0));
    assert!(help.contains("  serve ") && !help.contains("  demo "), "{help}");
}

#[test]
fn a_tool_that_is_not_there_is_named_with_the_way_to_get_it() {
    let alone = Installed::with(None);
    let (code, said, complained) = alone.run("demo --keep");
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert!(complained.contains("\"demo\" is a command of tally-tools"), "{complained}");
    assert!(complained.contains("HINT: "), "{complained}");
    assert!(complained.contains("cargo build --release --package tools"), "{complained}");
    let (code, _, complained) = alone.run("demos");
    assert_eq!(code, Some(2));
    assert!(complained.contains("unrecognized subcommand 'demos'"), "{complained}");
}
