//! Writes the rows and pgbench scripts of the workloads into a folder, for programs that drive
//! pgbench and psql themselves.
//!
//! `write_workload DIR --scale N --accounts N` makes `tpcb/NAME@WEIGHT.sql`,
//! `smallbank/NAME@WEIGHT.sql` (Zipf 0.99) and `smallbank/TABLE.rows` for COPY.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use workloads::skew::Skew;
use workloads::{PgbenchScript, smallbank, tpcb};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, scale_flag, scale, accounts_flag, accounts] = arguments.as_slice() else {
        return Err("usage: write_workload DIR --scale N --accounts N".into());
    };
    if scale_flag != "--scale" || accounts_flag != "--accounts" {
        return Err("usage: write_workload DIR --scale N --accounts N".into());
    }
    let (scale, accounts): (u32, u64) = (scale.parse()?, accounts.parse()?);
    write_scripts(&Path::new(folder).join("tpcb"), &[tpcb::script(scale)])?;
    let smallbank_folder = Path::new(folder).join("smallbank");
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
