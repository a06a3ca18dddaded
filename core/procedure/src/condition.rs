//! The names that PL/pgSQL has for SQLSTATEs.

use types::SqlState;

/// The SQLSTATE that PostgreSQL calls `name` (`division_by_zero` is 22012).
pub fn sqlstate_of_condition(name: &str) -> Option<SqlState> {
    let name = name.to_ascii_lowercase();
    let found = CONDITIONS.iter().find(|(condition, _)| *condition == name);
    found.map(|(_, code)| SqlState(**code))
}

/// Conditions that a program may want to raise: PostgreSQL's own list without those about servers,
/// disks and foreign data.
const CONDITIONS: &[(&str, &[u8; 5])] = &[
    ("feature_not_supported", b"0A000"),
    ("case_not_found", b"20000"),
    ("cardinality_violation", b"21000"),
    ("data_exception", b"22000"),
    ("array_subscript_error", b"2202E"),
    ("character_not_in_repertoire", b"22021"),
    ("datetime_field_overflow", b"22008"),
    ("division_by_zero", b"22012"),
    ("error_in_assignment", b"22005"),
    ("indicator_overflow", b"22022"),
    ("interval_field_overflow", b"22015"),
    ("invalid_argument_for_logarithm", b"2201E"),
    ("invalid_datetime_format", b"22007"),
    ("invalid_escape_character", b"22019"),
    ("invalid_escape_sequence", b"22025"),
    ("invalid_parameter_value", b"22023"),
    ("invalid_row_count_in_limit_clause", b"2201W"),
    ("invalid_row_count_in_result_offset_clause", b"2201X"),
    ("null_value_not_allowed", b"22004"),
    ("numeric_value_out_of_range", b"22003"),
    ("string_data_length_mismatch", b"22026"),
    ("string_data_right_truncation", b"22001"),
    ("substring_error", b"22011"),
    ("invalid_text_representation", b"22P02"),
    ("invalid_binary_representation", b"22P03"),
    ("bad_copy_file_format", b"22P04"),
    ("untranslatable_character", b"22P05"),
    ("integrity_constraint_violation", b"23000"),
    ("restrict_violation", b"23001"),
    ("not_null_violation", b"23502"),
    ("foreign_key_violation", b"23503"),
    ("unique_violation", b"23505"),
    ("check_violation", b"23514"),
    ("exclusion_violation", b"23P01"),
    ("invalid_cursor_state", b"24000"),
    ("invalid_transaction_state", b"25000"),
    ("read_only_sql_transaction", b"25006"),
    ("invalid_authorization_specification", b"28000"),
    ("dependent_objects_still_exist", b"2BP01"),
    ("sql_routine_exception", b"2F000"),
    ("external_routine_exception", b"38000"),
    ("external_routine_invocation_exception", b"39000"),
    ("transaction_rollback", b"40000"),
    ("serialization_failure", b"40001"),
    ("transaction_integrity_constraint_violation", b"40002"),
    ("deadlock_detected", b"40P01"),
    ("syntax_error_or_access_rule_violation", b"42000"),
    ("syntax_error", b"42601"),
    ("insufficient_privilege", b"42501"),
    ("cannot_coerce", b"42846"),
    ("grouping_error", b"42803"),
    ("datatype_mismatch", b"42804"),
    ("wrong_object_type", b"42809"),
    ("undefined_column", b"42703"),
    ("undefined_function", b"42883"),
    ("undefined_table", b"42P01"),
    ("undefined_parameter", b"42P02"),
    ("undefined_object", b"42704"),
    ("duplicate_column", b"42701"),
    ("duplicate_object", b"42710"),
    ("ambiguous_column", b"42702"),
    ("with_check_option_violation", b"44000"),
    ("insufficient_resources", b"53000"),
    ("program_limit_exceeded", b"54000"),
    ("statement_too_complex", b"54001"),
    ("object_not_in_prerequisite_state", b"55000"),
    ("object_in_use", b"55006"),
    ("lock_not_available", b"55P03"),
    ("operator_intervention", b"57000"),
    ("query_canceled", b"57014"),
    ("plpgsql_error", b"P0000"),
    ("raise_exception", b"P0001"),
    ("no_data_found", b"P0002"),
    ("too_many_rows", b"P0003"),
    ("assert_failure", b"P0004"),
    ("internal_error", b"XX000"),
    ("data_corrupted", b"XX001"),
    ("index_corrupted", b"XX002"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_well_formed_and_every_name_is_found_once() {
        for (name, code) in CONDITIONS {
            let text = std::str::from_utf8(*code).unwrap();
            assert_eq!(SqlState::parse(text), Some(SqlState(**code)), "{name}");
            assert_eq!(sqlstate_of_condition(name), Some(SqlState(**code)), "{name}");
            assert_eq!(CONDITIONS.iter().filter(|(n, _)| n == name).count(), 1, "{name}");
        }
        assert_eq!(sqlstate_of_condition("Division_By_Zero"), Some(SqlState(*b"22012")));
        assert_eq!(sqlstate_of_condition("no_such_thing"), None);
    }
}
