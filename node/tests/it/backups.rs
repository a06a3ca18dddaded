//! Backups, archives and pruning as an operator meets them.

use std::path::PathBuf;

use rustix::process::Signal;

use super::*;

/// Blocks of some size, so that there are several segments.
fn fill(node: &Node, from: i64, to: i64) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        let text = "CREATE TABLE IF NOT EXISTS notes (id bigint PRIMARY KEY, note text)";
        if from == 0 {
            client.batch_execute(&text.replace("IF NOT EXISTS ", "")).await.unwrap();
        }
        let note = "x".repeat(10_000);
        for id in from..to {
            let text = "INSERT INTO notes VALUES ($1, $2)";
            client.execute(text, &[&id, &note]).await.unwrap();
        }
    });
}

fn count(node: &Node) -> i64 {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap().get(0)
    })
}

fn done(arguments: &[&str]) -> Value {
    let output = run(&[&["--output", "json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    json(&output)
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command for the node that runs on `data`.
fn ask(node: &Node, data: &Path, arguments: &[&str]) -> Value {
    let address = node.ready["http_listen"].as_str().unwrap();
    done(&[arguments, &["--data", path(data), "--http-listen", address]].concat())
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("orders")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_running_node_is_backed_up_again_and_again_and_restored_at_any_block() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    let mut node = Node::start(&data);
    fill(&node, 0, 20);
    let first = ask(&node, &data, &["backup", "--to", path(&to)]);
    assert_eq!((first["height"].as_u64(), first["first_block"].as_u64()), (Some(21), Some(0)));
    ask(&node, &data, &["checkpoint"]);
    fill(&node, 20, 23);
    let second = ask(&node, &data, &["backup", "--to", path(&to)]);
    // One block says what the digest of the checkpoint is.
    assert_eq!((second["height"].as_u64(), &second["checkpoints"][0]), (Some(25), &21.into()));
    assert!(second["bytes_copied"].as_u64() < first["bytes"].as_u64().map(|bytes| bytes * 2));
    let third = ask(&node, &data, &["backup", "--to", path(&to)]);
    assert_eq!((third["bytes_copied"].as_u64(), &third["bytes"]), (Some(0), &second["bytes"]));
    assert_eq!(node.signal(Signal::KILL), None);

    assert_eq!(done(&["backup", "--verify", path(&to)])["height"], 25);
    let verified = done(&["verify", path(&to)]);
    assert_eq!((&verified["blocks"], &verified["height"]), (&25.into(), &25.into()));
    let serve = refused(&["serve", "--data", path(&to), "--listen", "127.0.0.1:0"]);
    assert!(serve.contains("is a backup") && serve.contains("HINT: "), "{serve}");

    for (block, from, rows) in [(25, Some(21), 23), (21, Some(21), 20), (9, None, 8)] {
        let new = folder.path().join(format!("restored {block}"));
        let at = block.to_string();
        let arguments = ["restore", "--from", path(&to), "--to-block", &at, "--data", path(&new)];
        let restored = done(&arguments);
        assert_eq!(restored["from_checkpoint"].as_u64(), from, "{block}");
        let verified = done(&["verify", path(&new)]);
        assert_eq!(verified["head"], restored["head"]);
        let node = Node::start(&new);
        assert_eq!(count(&node), rows);
        drop(node);
        assert!(refused(&arguments).contains("is not empty"));
    }
}

#[test]
fn a_pruned_ledger_goes_on_and_with_its_archive_it_is_whole_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, archive) = (folder.path().join("data"), folder.path().join("archive"));
    let receipt = folder.path().join("receipt");
    let mut node = Node::start(&data);
    fill(&node, 0, 30);
    ask(&node, &data, &["checkpoint"]);
    fill(&node, 30, 34);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let take = ["receipt", "--data", path(&data), "--height", "3", "--index", "0"];
    done(&[&take[..], &["--out", path(&receipt)]].concat());

    let mut node = Node::start(&data);
    let prune = ["prune", "--to-block", "20", "--archive", path(&archive)];
    let pruned = ask(&node, &data, &prune);
    let first = pruned["first_block"].as_u64().unwrap();
    assert!(first > 3 && first <= 21 && pruned["segments"].as_u64() > Some(1), "{pruned}");
    assert!(node.fetch("/metrics").contains(&format!("tally_first_block_height {first}.0")));
    assert!(!node.fetch("/prune").contains(" 200 "), "a GET is no request");
    fill(&node, 34, 36);
    assert_eq!(node.signal(Signal::KILL), None);
    let mut node = Node::start(&data);
    assert_eq!(count(&node), 36);
    assert_eq!(node.signal(Signal::TERM), Some(0));

    let verified = done(&["verify", path(&data)]);
    assert_eq!(
        (&verified["first_block"], &verified["from_checkpoint"]),
        (&first.into(), &31.into())
    );
    assert_eq!(verified["verdict"]["kind"], "sound");
    done(&["receipt", "verify", path(&receipt), "--data", path(&data)]);
    let forged = std::fs::read_to_string(&receipt).unwrap().replace("\"index\": 0", "\"index\": 1");
    std::fs::write(folder.path().join("forged"), forged).unwrap();
    let forged = folder.path().join("forged");
    assert!(refused(&["receipt", "verify", path(&forged), "--data", path(&data)]).contains("hold"));
    let reported = refused(&take);
    assert!(reported.contains("block 3 was pruned") && reported.contains("HINT: "), "{reported}");
    done(&["receipt", "--data", path(&archive), "--height", "3", "--index", "0"]);
    let verified = done(&["verify", path(&archive)]);
    assert_eq!(verified["height"].as_u64(), Some(first - 1));

    let restore = |name: &str, more: &[&str]| {
        let new = folder.path().join(name);
        let begin = ["restore", "--from", path(&data), "--data"];
        let all = [&["--output", "json"], &begin[..], &[path(&new)], more].concat();
        (run(&all), new)
    };
    let (below, _) = restore("below", &["--to-block", "25"]);
    let reported = String::from_utf8_lossy(&below.stderr).into_owned();
    assert!(!below.status.success(), "{below:?}");
    assert!(reported.contains("restored is 31") && reported.contains("--archive"), "{reported}");
    let (pruned, new) = restore("pruned", &["--to-block", "33"]);
    assert!(pruned.status.success(), "{pruned:?}");
    assert_eq!(count(&Node::start(&new)), 31);
    for block in ["2", "25", "32"] {
        let with = ["--to-block", block, "--archive", path(&archive)];
        let (whole, new) = restore(&format!("whole {block}"), &with);
        assert!(whole.status.success(), "{whole:?}");
        let verified = done(&["verify", path(&new)]);
        assert_eq!(
            (&verified["first_block"], &verified["height"]),
            (&0.into(), &json(&whole)["height"])
        );
    }
}

#[test]
fn every_file_of_a_backup_is_under_a_digest_and_damage_is_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    let mut node = Node::start(&data);
    fill(&node, 0, 12);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    done(&["checkpoint", "--data", path(&data)]);
    let backup = ["backup", "--to", path(&to), "--data", path(&data)];
    done(&backup);
    let mut files = segments(&to);
    files.push(to.join("checkpoints/00000000000000000013.pack"));
    files.push(to.join("checkpoints/00000000000000000013.manifest"));
    // The one that the last of these repairs will write.
    files.push(to.join(format!("backup-{:020}.manifest", files.len() + 1)));
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let mut changed = bytes.clone();
        let middle = bytes.len() / 2;
        changed[middle] ^= 1;
        std::fs::write(&file, changed).unwrap();
        let found = run(&["backup", "--verify", path(&to)]);
        assert_eq!(found.status.code(), Some(4), "{file:?}");
        assert!(!run(&["verify", path(&to)]).status.success(), "{file:?}");
        let repaired = done(&backup);
        let is_manifest = file.parent() == Some(&to);
        assert_eq!(repaired["files_repaired"], u64::from(!is_manifest), "{file:?}");
        done(&["backup", "--verify", path(&to)]);
        if !is_manifest {
            assert_eq!(std::fs::read(&file).unwrap(), bytes);
        }
    }
}

/// Kills at any moment: the backup before is there, and the next run goes on.
#[test]
fn backups_prunes_and_restores_can_be_killed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (data, to, archive) = (at("data"), at("backup"), at("archive"));
    let mut node = Node::start(&data);
    fill(&node, 0, 40);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    done(&["checkpoint", "--data", path(&data)]);
    let killed_after = |delay_us: u64, arguments: &[&str]| {
        let mut child =
            tally(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(delay_us));
        let _ = child.kill();
        child.wait().unwrap().success()
    };
    let (mut finished, mut delay_us) = ([false; 3], 2_000);
    for round in 0.. {
        assert!(delay_us < 60_000_000, "round {round}: {finished:?} of backup, prune, restore");
        delay_us += delay_us / 4;
        let backup = ["backup", "--to", path(&to), "--data", path(&data)];
        let had = run(&["backup", "--verify", path(&to)]).status.success();
        finished[0] |= killed_after(delay_us, &backup);
        let has = run(&["backup", "--verify", path(&to)]).status.success();
        assert!(has || !had && !finished[0], "round {round}");

        let archive = ["--archive", path(&archive)];
        let prune = ["prune", "--to-block", "30", "--data", path(&data)];
        finished[1] |= killed_after(delay_us, &[&prune[..], &archive].concat());
        let verified = done(&["verify", path(&data)]);
        let first = verified["first_block"].as_u64().unwrap();
        assert!(!finished[1] || first > 20, "round {round}: {first}");

        let new = at(&format!("restored {round}"));
        let from = ["restore", "--from", path(&data), "--data", path(&new)];
        let whole = killed_after(delay_us, &[&from[..], &archive[..]].concat());
        finished[2] |= whole;
        let usable = run(&["verify", path(&new)]).status.success();
        let before = !new.join("orders").exists();
        assert!(!whole || usable, "round {round}: it was restored, and does not verify");
        let is_marked = new.join("RESTORING").exists();
        assert!(usable || before || is_marked, "round {round}: half a restore does not say so");
        assert!(!usable || !is_marked, "round {round}: half a restore verifies");
        if finished == [true; 3] {
            break;
        }
    }
    done(&["backup", "--to", path(&to), "--data", path(&data)]);
    assert_eq!(done(&["verify", path(&to)])["height"], 42);
}

#[test]
fn an_unfinished_restore_is_no_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    let mut node = Node::start(&data);
    fill(&node, 0, 3);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    done(&["restore", "--from", path(&data), "--data", path(&new)]);
    assert!(!new.join("RESTORING").exists());
    std::fs::write(new.join("RESTORING"), "").unwrap();
    let serve = ["serve", "--data", path(&new), "--listen", "127.0.0.1:0", "--http-listen", ""];
    let checkpoint = ["checkpoint", "--data", path(&new)];
    let verify = ["verify", path(&new)];
    let restore = ["restore", "--from", path(&data), "--data", path(&new)];
    for command in [&serve[..], &checkpoint, &verify, &restore] {
        let reported = refused(command);
        assert!(reported.contains("not finished") && reported.contains("HINT: "), "{reported}");
    }
}

#[test]
fn old_blocks_go_by_themselves_where_the_settings_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let (data, archive) = (folder.path().join("data"), folder.path().join("archive"));
    let archive_setting = format!("prune_archive={}", archive.display());
    let settings = [
        ["--set", "segment_bytes_max=65536"],
        ["--set", "block_bytes_max=65536"],
        ["--set", "checkpoint_interval_blocks=8"],
        ["--set", "prune_keep_blocks=10"],
        ["--set", &archive_setting],
    ];
    let mut node = Node::start_with(tally(&[]), &data, &settings.concat());
    let began = std::time::Instant::now();
    let mut filled = 0;
    while node.fetch("/metrics").contains("tally_first_block_height 0.0") {
        assert!(began.elapsed().as_secs() < 60);
        fill(&node, filled, filled + 10);
        filled += 10;
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    assert_eq!(node.signal(Signal::KILL), None);
    let verified = done(&["verify", path(&data)]);
    let (first, height) = (&verified["first_block"], &verified["height"]);
    assert!(first.as_u64().unwrap() + 10 <= height.as_u64().unwrap() + 1, "ten blocks stay");
    let archived = done(&["verify", path(&archive)]);
    assert!(archived["height"].as_u64().unwrap() + 1 >= first.as_u64().unwrap());
}

#[test]
fn a_prune_by_hand_archives_as_the_settings_say() {
    let folder = tempfile::tempdir().unwrap();
    let (data, archive) = (folder.path().join("data"), folder.path().join("archive"));
    let setting = format!("prune_archive={}", archive.display());
    let settings = [
        ["--set", "segment_bytes_max=65536"],
        ["--set", "block_bytes_max=65536"],
        ["--set", &setting],
    ];
    let mut node = Node::start_with(tally(&[]), &data, &settings.concat());
    fill(&node, 0, 30);
    ask(&node, &data, &["checkpoint"]);
    let first_of = |pruned: &Value| pruned["first_block"].as_u64().unwrap();
    let by_node = first_of(&ask(&node, &data, &["prune", "--to-block", "10"]));
    assert!(by_node > 0);
    assert_eq!(done(&["verify", path(&archive)])["height"].as_u64().unwrap() + 1, by_node);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let configured = format!("prune_archive = '{}'", archive.display());
    std::fs::write(data.join("tally.toml"), configured).unwrap();
    let offline = first_of(&done(&["prune", "--to-block", "20", "--data", path(&data)]));
    assert!(offline > by_node);
    assert_eq!(done(&["verify", path(&archive)])["height"].as_u64().unwrap() + 1, offline);
}

#[test]
fn a_torn_tail_is_told_and_lost_blocks_that_were_durable_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let data = at("data");
    let mut node = Node::start(&data);
    fill(&node, 0, 5);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let change = |change: &dyn Fn(&mut Vec<u8>)| {
        let newest = segments(&data).pop().unwrap();
        let mut bytes = std::fs::read(&newest).unwrap();
        change(&mut bytes);
        std::fs::write(&newest, bytes).unwrap();
    };
    // What is left where a crash came before the log was at rest.
    let cut_from = |magic: &'static [u8; 4]| {
        change(&|bytes: &mut Vec<u8>| {
            let at = bytes.windows(4).rposition(|four| four == magic).unwrap();
            bytes[at..].fill(0);
        });
    };
    let flip_last_block = || {
        change(&|bytes: &mut Vec<u8>| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[end - 20] ^= 1;
        });
    };
    let restore = |name: &str, with: &[&str]| {
        let (data, new) = (at("data"), at(name));
        run(&[&["restore", "--from", path(&data), "--data", path(&new)], with].concat())
    };
    let backup = |name: &str| run(&["backup", "--to", path(&at(name)), "--data", path(&data)]);
    let reported = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();

    cut_from(b"TRST");
    flip_last_block();
    for output in [restore("torn", &[]), backup("backup of torn")] {
        assert!(
            output.status.success() && reported(&output).contains("tail at block 6"),
            "{output:?}"
        );
    }
    flip_last_block();
    done(&["checkpoint", "--data", path(&data)]);
    // That of the checkpoint's digest.
    cut_from(b"TREC");
    flip_last_block();
    for output in [restore("refused", &[]), backup("refused backup")] {
        let reported = reported(&output);
        assert!(
            !output.status.success() && reported.contains("blocks 6 to 6 are damaged"),
            "{reported}"
        );
        assert!(reported.contains("HINT: ") && reported.contains("--to-block 5"), "{reported}");
    }
    let before = restore("before", &["--to-block", "5"]);
    assert!(before.status.success(), "{before:?}");
}

/// A crash may take results, which executing their orders gives again.
#[test]
fn blocks_without_results_are_restored_and_are_missing_in_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (data, new, to) = (at("data"), at("new"), at("backup"));
    let mut node = Node::start(&data);
    fill(&node, 0, 5);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let whole = done(&["verify", path(&data)]);
    std::fs::remove_dir_all(data.join("results")).unwrap();

    let restored = done(&["restore", "--from", path(&data), "--data", path(&new)]);
    assert_eq!((&restored["head"], &restored["height"]), (&whole["head"], &6.into()));
    assert_eq!(done(&["verify", path(&new)])["results_missing"], 0);
    let backup = ["backup", "--to", path(&to), "--data", path(&data)];
    let reported = refused(&backup);
    assert!(
        reported.contains("results of blocks 0 to 6") && reported.contains("HINT: "),
        "{reported}"
    );
    let receipt = ["receipt", "--data", path(&data), "--height", "6", "--index", "0"];
    let reported = refused(&receipt);
    assert!(reported.contains("result of block 6") && reported.contains("HINT: "), "{reported}");
    done(&["checkpoint", "--data", path(&data)]);
    assert_eq!(done(&backup)["height"], 7, "with a block that names the checkpoint's digest");
    done(&receipt);
}

/// Where results hold rows, they are on disk before their orders.
#[test]
fn a_backup_of_a_running_node_has_its_newest_block_under_snapshot_isolation_too() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    let node = Node::start_with(tally(&[]), &data, &["--protocol", "si"]);
    fill(&node, 0, 3);
    assert_eq!(ask(&node, &data, &["backup", "--to", path(&to)])["height"], 4);
    assert_eq!(done(&["verify", path(&to)])["height"], 4);
}

#[test]
fn a_backup_asks_no_node_of_another_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (data, other) = (at("data"), at("other"));
    let (_node, another) = (Node::start(&data), Node::start(&other));
    let address = another.ready["http_listen"].as_str().unwrap();
    let to = at("backup");
    let backup = ["backup", "--to", path(&to), "--data", path(&data), "--http-listen", address];
    let reported = refused(&backup);
    assert!(reported.contains("has another ledger") && reported.contains("HINT: "), "{reported}");
}
