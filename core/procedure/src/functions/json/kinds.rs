//! Which functions give rows of JSON.

/// What the rows are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonRows {
    /// `json_array_elements`
    Elements,
    /// `json_array_elements_text`
    ElementTexts,
    /// `json_each`: a key and a value.
    Members,
    /// `json_each_text`
    MemberTexts,
    /// `json_object_keys`
    Keys,
    /// `json_to_record`: the object itself, of whose members the columns are made.
    Record,
    /// `json_to_recordset`: each of an array.
    Records,
}

impl JsonRows {
    /// Columns of a row.
    pub fn width(self) -> u16 {
        match self {
            JsonRows::Members | JsonRows::MemberTexts => 2,
            _ => 1,
        }
    }

    pub(super) fn is_of_object(self) -> bool {
        !matches!(self, JsonRows::Elements | JsonRows::ElementTexts | JsonRows::Records)
    }
}
