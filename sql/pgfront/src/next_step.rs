//! What a user can do next about an error that does not say so itself, by its SQLSTATE.
//!
//! Messages are PostgreSQL's, so that programs which know them go on knowing them; PostgreSQL gives
//! most of them no hint. These are added when a report is sent: nothing that is recorded or hashed
//! has them. Codes whose errors have too many causes for one sentence have none, and neither has
//! what a routine raises in words of its own.

use types::SqlState;

/// A sentence for the field HINT.
pub fn of(code: &SqlState) -> Option<&'static str> {
    let step = match code.as_str() {
        "0A000" => "What works is in the page state.md of the documentation.",
        "21000" => "Have it give, or match, one row at most.",
        "22001" => "Shorten the value, or give the column more room.",
        "22003" => "Use a wider type, such as bigint or numeric.",
        "22007" | "22008" => "Write it as 2026-03-01, or 2026-03-01 12:00+00.",
        "22012" => "NULLIF(divisor, 0) gives NULL instead.",
        "22015" => "Use a shorter interval.",
        "22P02" => "Write the value as the type is written, or use another type.",
        "22P05" => "Leave such characters out, or keep the bytes in a bytea.",
        "23502" => "Give the column a value, or a DEFAULT.",
        "23503" => "Write the row that is referred to first, and delete it last.",
        "23505" => "Use another key, or say what to do then: INSERT … ON CONFLICT.",
        "23514" => "Give values that the constraint allows: \\d and the table's name show it.",
        "25001" => "Run it outside of a transaction block.",
        "25006" => "If the session may write, begin with BEGIN READ WRITE.",
        "25P01" => "BEGIN begins a transaction block.",
        "25P02" => "ROLLBACK ends it. Behind a SAVEPOINT, ROLLBACK TO keeps what came before.",
        "26000" => "PREPARE it in this session: statements end with their connection.",
        "28P01" => "Check the user's name and the password.",
        "34000" => "DECLARE it in this transaction first.",
        "3B001" => "Name a SAVEPOINT of this transaction.",
        "3D000" => "SELECT datname FROM pg_database lists those that are there.",
        "3F000" => "CREATE SCHEMA makes it; SHOW search_path says where names are looked for.",
        "40001" | "40P01" => "Run the whole transaction again.",
        "42501" => "Its owner can GRANT it.",
        "42601" => "Look at the words just before that place.",
        "42701" => "Give each column a name of its own.",
        "42702" => "Put the table's name in front: table.column.",
        "42703" => "Check the spelling. Names in double quotes keep upper case.",
        "42704" | "42883" | "42P01" => {
            "Check the spelling and SHOW search_path. Names in double quotes keep upper case."
        }
        "42710" | "42723" | "42P03" | "42P05" | "42P07" => "Use another name, or drop that first.",
        "42803" => "Name the column in GROUP BY, or put it into an aggregate such as min().",
        "42804" | "42846" => "Write the value so that it has that type: CAST(value AS type).",
        "42809" => "Use the statement for objects of that kind.",
        "42830" => "Add a primary key or a UNIQUE constraint over these columns first.",
        "42P02" => "Give the parameter a value: by the driver, or by EXECUTE.",
        "42P10" => "Name the columns of the primary key or of a unique index.",
        "54000" => "Make it smaller, or split it into several.",
        "55P02" => "It is fixed by the program.",
        "57014" => "If a timeout ended it, raise the timeout or have it read less.",
        "P0002" | "P0003" => "Without STRICT, INTO takes the first row, or NULL.",
        _ => return None,
    };
    Some(step)
}
