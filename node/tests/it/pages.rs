//! Pages that readers follow with their fingers: every `sh` and `sql` block of them is run.
//!
//! The blocks of a page are one script, in their order, in a folder of its own. Ports are others
//! than the page's. A block that cannot be run here has a comment in front, `<!-- not run: why
//! -->`, and is counted.

use std::fs;

use super::clusters::free_ports;
use super::*;

const README: &str = include_str!("../../../README.md");
const CLUSTER: &str = include_str!("../../../docs/cluster.md");

/// A page whose blocks need something that it does not speak of.
struct Page {
    name: &'static str,
    text: &'static str,
    /// Run in front of its blocks.
    before: &'static str,
    /// Words of it that stand for the reader's own.
    replaced: &'static [(&'static str, &'static str)],
    /// Blocks that are run, and those that are not.
    blocks: (usize, usize),
    expected: &'static [&'static str],
}

/// A node with some accounts, in a dozen blocks.
macro_rules! with_a_node {
    () => {
        r#"
export TALLY_HTTP_LISTEN=127.0.0.1:5461 TALLY_SNAPSHOT_RETENTION='every 1 blocks keep 100'
tally serve > node.log 2>&1 &
opened 5460
export PGHOST=127.0.0.1 PGPORT=5460 PGUSER=tally PGDATABASE=tally
psql -c "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)" \
    -c "CREATE TABLE history (id bigint)" -c "GRANT SELECT, UPDATE ON accounts TO PUBLIC"
for id in $(seq 12); do psql -qc "INSERT INTO accounts VALUES ($id, 1000)"; done
psql -c "CREATE PROCEDURE transfer(a bigint, b bigint, amount bigint) LANGUAGE SQL AS \$\$
    UPDATE accounts SET balance = balance - amount WHERE id = a;
    UPDATE accounts SET balance = balance + amount WHERE id = b;
\$\$"
"#
    };
}
const WITH_AN_EMPTY_NODE: &str = r#"
export TALLY_HTTP_LISTEN=127.0.0.1:5461
tally serve > node.log 2>&1 &
opened 5460
export PGHOST=127.0.0.1 PGPORT=5460 PGUSER=tally PGDATABASE=tally
"#;
const WITH_A_NODE: &str = with_a_node!();

/// A certificate for this machine, which is its own authority.
const WITH_A_CERTIFICATE: &str = r#"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout key.pem -out cert.pem 2> openssl.log
cp cert.pem ca.pem
chmod 600 key.pem
export PGPASSWORD="a long password"
opened() {
    for _ in $(seq 600); do
        pg_isready -q -h 127.0.0.1 -p "$1" && return
        sleep 0.1
    done
    echo "nothing answers on port $1"; exit 1
}
"#;

const PAGES: &[Page] = &[
    Page {
        name: "sql",
        text: include_str!("../../../docs/sql.md"),
        before: WITH_AN_EMPTY_NODE,
        replaced: &[],
        blocks: (8, 0),
        expected: &["ada  |  107", "committed", "before the raise"],
    },
    Page {
        name: "upgrade",
        text: include_str!("../../../docs/upgrade.md"),
        before: WITH_A_NODE,
        replaced: &[],
        blocks: (1, 0),
        expected: &["sound: every hash", "(1 row)"],
    },
    Page {
        name: "roles",
        text: include_str!("../../../docs/roles.md"),
        before: WITH_A_NODE,
        replaced: &[],
        blocks: (1, 0),
        expected: &["GRANT ROLE\nALTER ROLE"],
    },
    Page {
        name: "databases",
        text: include_str!("../../../docs/databases.md"),
        before: concat!(with_a_node!(), "psql -c 'CREATE USER ada'\n"),
        replaced: &[],
        blocks: (1, 0),
        expected: &["CREATE DATABASE\nCREATE TABLE"],
    },
    Page {
        name: "organisations",
        text: include_str!("../../../docs/organisations.md"),
        before: WITH_A_NODE,
        replaced: &[],
        blocks: (2, 4),
        expected: &["| user | ada", "| root |"],
    },
    Page {
        name: "time-travel",
        text: include_str!("../../../docs/time-travel.md"),
        before: WITH_A_NODE,
        replaced: &[("TIMESTAMP '2026-03-01 12:00+00'", "TIMESTAMP '2100-03-01 12:00+00'")],
        blocks: (1, 0),
        expected: &["  7 |    1000"],
    },
    Page {
        name: "transactions",
        text: include_str!("../../../docs/transactions.md"),
        before: WITH_A_NODE,
        replaced: &[],
        blocks: (1, 0),
        expected: &["committed"],
    },
    Page {
        name: "multi-version",
        text: include_str!("../../../docs/multi-version.md"),
        before: WITH_A_NODE,
        replaced: &[],
        blocks: (2, 0),
        expected: &["SET\nSET"],
    },
    Page {
        name: "backups",
        text: include_str!("../../../docs/backups.md"),
        before: WITH_A_NODE,
        replaced: &[],
        blocks: (1, 0),
        expected: &["blocks 0 to 1 stay"],
    },
    Page {
        name: "operations",
        text: include_str!("../../../docs/operations.md"),
        before: WITH_A_CERTIFICATE,
        replaced: &[("db.example.org", "localhost")],
        blocks: (2, 0),
        expected: &["(1 row)"],
    },
];

/// The first of the ports that pages name, and how many there are from it on.
const PORT: u16 = 5460;
const PORTS: u16 = 30;

/// A page is done in a fraction of it; a client that waits for ever is not.
const PATIENCE_S: &str = "240";

struct Block {
    is_sql: bool,
    text: String,
    /// Why it is not run.
    left_out: Option<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut left_out): (Vec<Block>, Option<String>) = (Vec::new(), None);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            let reason = line.strip_prefix("<!-- not run: ").and_then(|it| it.strip_suffix(" -->"));
            left_out = reason.map(str::to_owned);
            continue;
        };
        let inside = lines.by_ref().take_while(|line| *line != "```");
        let text: String = inside.map(|line| format!("{line}\n")).collect();
        match language {
            "sh" | "sql" => {
                let left_out = left_out.take();
                blocks.push(Block { is_sql: language == "sql", text, left_out });
            }
            "text" => {}
            other => panic!("a block in {other:?}: say sh, sql or text"),
        }
    }
    blocks
}

/// Commands in a block without a language, which nothing would run.
fn hidden(page: &str) -> Vec<&str> {
    let programs = ["tally", "psql", "make", "export", "cargo", "curl", "SELECT", "SET", "CREATE"];
    let begins = |line: &&str| {
        let text = line.strip_prefix("    ").unwrap_or_default();
        programs
            .iter()
            .any(|program| text.strip_prefix(program).is_some_and(|it| it.starts_with(' ')))
    };
    let mut is_inside = false;
    let mut outside = Vec::new();
    for line in page.lines() {
        is_inside ^= line.starts_with("```");
        if !is_inside && begins(&line) {
            outside.push(line);
        }
    }
    outside
}

/// Waits for those of the page's ports that the block has had opened.
fn wait_for(block: &str, opened: &[(&str, &[u16])]) -> String {
    let ports = opened.iter().filter(|(command, _)| block.contains(command));
    ports.flat_map(|(_, ports)| *ports).map(|port| format!("opened {port}\n")).collect()
}

const BEFORE: &str = r#"
set -euo pipefail
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
opened() {
    for _ in $(seq 600); do
        psql "postgresql://tally@127.0.0.1:$1/tally" -c 'SELECT 1' > /dev/null 2>&1 && return
        sleep 0.1
    done
    echo "nothing answers on port $1"; exit 1
}
"#;

/// Members of a cluster have settings of their own.
fn own_node(script: &str) -> bool {
    ["&", "> ", "--listen "].iter().any(|it| script.contains(&format!("\ntally serve {it}")))
}

/// Runs a page's blocks in an empty folder; what they printed.
fn follow(page: &str, opened: &[(&str, &[u16])], counts: (usize, usize)) -> String {
    follow_behind("", page, opened, counts)
}

/// The same after some lines of `sh`.
fn follow_behind(
    before: &str,
    page: &str,
    opened: &[(&str, &[u16])],
    counts: (usize, usize),
) -> String {
    assert_eq!(hidden(page), Vec::<&str>::new(), "in no block of sh or sql");
    let blocks = blocks(page);
    let (run, left_out): (Vec<_>, Vec<_>) = blocks.iter().partition(|it| it.left_out.is_none());
    for block in &left_out {
        let first = block.text.lines().next().unwrap_or_default();
        println!("not run: {first} … ({})", block.left_out.as_deref().unwrap_or_default());
    }
    assert_eq!((run.len(), left_out.len()), counts, "blocks that are run, and that are not");

    let mut script = [BEFORE, before].concat();
    for block in run {
        if block.is_sql {
            script +=
                &format!("psql -v ON_ERROR_STOP=1 <<'END OF BLOCK'\n{}END OF BLOCK\n", block.text);
        } else {
            script += &block.text;
            script += &wait_for(&block.text, opened);
        }
    }
    let first = free_ports(PORTS);
    for port in (0..PORTS).rev() {
        script = script.replace(&(PORT + port).to_string(), &format!("@{port}@"));
    }
    for port in 0..PORTS {
        script = script.replace(&format!("@{port}@"), &(first + port).to_string());
    }
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::os::unix::fs::symlink(root.join("clients"), folder.path().join("clients")).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_tally")).parent().unwrap().display().to_string();
    // Members have their own settings; a lone node is told by the environment.
    let listen = [("TALLY_LISTEN", format!("127.0.0.1:{first}")), ("TALLY_HTTP_LISTEN", "".into())];
    let own = listen.into_iter().filter(|_| own_node(&script));
    let done = Command::new("timeout")
        .args([PATIENCE_S, "bash", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
        .env("PSQLRC", "/dev/null")
        .envs(own)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let complained = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{script}\n{said}\n{complained}");
    said
}

#[test]
fn every_line_of_the_readme_runs() {
    let said = follow(README, &[("tally serve &", &[PORT])], (4, 3));
    for expected in
        ["\n 7500\n", "sound: every hash", "receipt      holds", "call of pay(1, 2, 2500)"]
    {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
    let proven: Vec<&str> = said.lines().filter(|line| line.starts_with("rows ")).collect();
    assert!(proven.len() == 2 && proven[0] == proven[1], "two programs differ: {proven:?}");
}

#[test]
fn every_line_about_clusters_runs() {
    let up = [("tally cluster up", &[PORT, PORT + 3, PORT + 6][..])];
    let opened = [&up[..], &[("--data bank/node-4 &", &[PORT + 20])]].concat();
    let said = follow(CLUSTER, &opened, (6, 0));
    for expected in ["made 3 nodes", "member 4 is added", "member 4 is removed", "goes on alone"] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
}

/// Of all pages but those that need programs which a first build does not have, and those that
/// follow above.
#[test]
fn every_line_of_the_manual_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let known = |name: &str| PAGES.iter().any(|page| page.name == name);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().and_then(|it| it.to_str()?.strip_suffix(".md")) else {
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        let is_script = text.lines().any(|line| line == "```sh" || line == "```sql");
        let is_apart = ["cluster", "kafka", "cometbft", "chainify"].contains(&name);
        assert!(is_apart || known(name) == is_script, "{name}.md");
    }
    for Page { name, text, before, replaced, blocks, expected } in PAGES {
        let mut page = (*text).to_owned();
        for (reader, own) in *replaced {
            assert!(page.contains(reader), "{name}.md says no {reader}");
            page = page.replace(reader, own);
        }
        let up = [("tally serve --listen", &[PORT][..])];
        let said = follow_behind(before, &page, &up, *blocks);
        for expected in *expected {
            assert!(said.contains(expected), "{name}.md: no {expected:?} in {said}");
        }
    }
}

#[test]
fn a_page_is_read_as_it_is_shown() {
    let page =
        "```sh\na\nb\n```\n<!-- not run: slow -->\n```sql\nc\n```\n```text\nd\n```\n    tally up\n";
    let blocks = blocks(page);
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].text.as_str(), blocks[0].is_sql), ("a\nb\n", false));
    assert_eq!(blocks[1].left_out.as_deref(), Some("slow"));
    assert_eq!(hidden(page), ["    tally up"]);
}
