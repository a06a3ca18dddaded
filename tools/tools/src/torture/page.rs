//! The report of a torture run as text, for the terminal.

use super::report::Report;
use super::{cluster, disk, kills, mounts};

pub fn page(report: &Report) -> String {
    let Report { seed, disk, mounts, kills, flips, losses, loss, .. } = report;
    let Report { inputs, inputs_accepted, total_s, .. } = report;
    let mut text = format!("seed                  {seed}\n");
    if let Some(cluster) = &report.cluster {
        text += &cluster::page(cluster);
        text += &format!("losses                {losses}\ntime                  {total_s:.0} s\n");
        if let Some(loss) = loss {
            text += &format!("\nLOST: {loss}\n");
        }
        return text;
    }
    text += &of_disk(disk);
    text += &format!("hostile bytes         {inputs} inputs, {inputs_accepted} accepted\n");
    text += &of_mounts(mounts);
    text += &of_kills(kills);
    if let Some(flips) = flips {
        text += &flips.table();
    }
    let images = disk.images + disk.second_cuts + kills.images_in_memory + kills.images_run;
    let flips = disk.flips + flips.as_ref().map_or(0, |flips| flips.flips);
    text += &format!(
        "in all                {images} images, {} kills, {} faults, {flips} flips\n\
         losses                {losses}\ntime                  {total_s:.0} s\n",
        kills.kills, disk.faults,
    );
    if !report.untried.is_empty() {
        text += &format!("NOT TRIED             {}\n", report.untried.join(", "));
    }
    if let Some(loss) = loss {
        text += &format!("\nLOST: {loss}\n");
    }
    text
}

fn of_disk(count: &disk::Count) -> String {
    let disk::Count {
        references,
        images,
        distinct_images,
        second_cuts,
        faults,
        stories,
        flips,
        lost_files,
        refused,
        mutants_found,
    } = count;
    format!(
        "disk in memory        {references} stories\n\
         \x20 images              {images} ({distinct_images} different), {second_cuts} of \
         recoveries\n\
         \x20 faults              {faults}, {stories} stories told to their end behind them\n\
         \x20 rot                 {flips} flips, {lost_files} lost files: {refused} refused\n\
         \x20 seeded bugs         {mutants_found} found\n"
    )
}

fn of_mounts(report: &mounts::Report) -> String {
    format!("real disks            {}\n", report.summary())
}

fn of_kills(report: &kills::Report) -> String {
    let kills::Report {
        kills,
        generations,
        rounds: _,
        in_recovery,
        in_a_clean_stop,
        in_a_checkpoint,
        of_commands,
        clean_stops_under_load,
        images_in_memory,
        images_run,
        verifications,
        acknowledged,
        unanswered,
        bank_calls,
        retried,
        blocks,
        ledger_bytes,
        recovery_s_max,
        kills_per_s,
    } = report;
    let commands: Vec<String> =
        of_commands.iter().map(|(command, count)| format!("{count} of `{command}`")).collect();
    let commands = commands.join(", ");
    format!(
        "kills                 {kills}, {kills_per_s:.1} per second, of {generations} ledgers\n\
         \x20 of nodes            {in_recovery} in recovery, {in_a_checkpoint} in a checkpoint, \
         {in_a_clean_stop} in a clean stop; {clean_stops_under_load} clean stops\n\
         \x20 of commands         {commands}\n\
         \x20 images              {images_in_memory} in memory, {images_run} run by a node\n\
         \x20 verifications       {verifications}, of {blocks} blocks, {ledger_bytes} bytes\n\
         \x20 transactions        {acknowledged} acknowledged to recording clients, {unanswered} \
         unanswered, {retried} retried\n\
         \x20 bank calls          {bank_calls}\n\
         \x20 recovery            {recovery_s_max:.2} s at most\n"
    )
}
