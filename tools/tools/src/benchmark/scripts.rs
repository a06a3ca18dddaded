//! `tally bench scripts`: what programs need that drive pgbench and psql themselves.
//!
//! `tpcb/NAME@WEIGHT.sql`, `smallbank/NAME@WEIGHT.sql` (Zipf 0.99) and `smallbank/TABLE.rows` for
//! COPY.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use workloads::skew::Skew;
use workloads::{PgbenchScript, smallbank, tpcb};

use super::arguments::Scripts;
use node::cli::Exit;

pub fn run(arguments: &Scripts) -> Result<Exit> {
    let Scripts { folder, scale, accounts } = arguments;
    write(folder, *scale, *accounts)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(Exit::Ok)
}

fn write(folder: &Path, scale: u32, accounts: u64) -> std::io::Result<()> {
    write_scripts(&folder.join("tpcb"), &[tpcb::script(scale)])?;
    let smallbank_folder = folder.join("smallbank");
    write_scripts(&smallbank_folder, &smallbank::scripts(&Skew::zipf(accounts, 0.99)))?;
    for table in smallbank::TABLES {
        let file = smallbank_folder.join(format!("{}.rows", table.name()));
        let mut rows = BufWriter::new(File::create(file)?);
        table.write_rows(1, accounts, &mut rows)?;
        rows.flush()?;
    }
    Ok(())
}

fn write_scripts(folder: &Path, scripts: &[PgbenchScript]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for script in scripts {
        let name = format!("{}@{}.sql", script.name, script.weight);
        fs::write(folder.join(name), &script.text)?;
    }
    Ok(())
}
