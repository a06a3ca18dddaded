//! Temporary stand-in for the encodings of `types`.
use types::{DataType, Error, Result, SqlState, Value};

pub trait Wired {
    fn oid(&self) -> u32;
    fn type_len(&self) -> i16;
    fn typmod(&self) -> i32;
}
impl Wired for DataType {
    fn oid(&self) -> u32 {
        match self {
            DataType::Bool => 16,
            DataType::Int8 => 20,
            DataType::Int4 => 23,
            DataType::Bytea => 17,
            _ => 25,
        }
    }
    fn type_len(&self) -> i16 {
        -1
    }
    fn typmod(&self) -> i32 {
        -1
    }
}
pub fn from_oid(oid: u32) -> Option<DataType> {
    Some(match oid {
        0 | 705 => DataType::Unknown,
        16 => DataType::Bool,
        20 => DataType::Int8,
        23 => DataType::Int4,
        25 | 1043 => DataType::Text,
        17 => DataType::Bytea,
        _ => return None,
    })
}
fn no() -> Error {
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "stand-in")
}
pub fn put_text(out: &mut Vec<u8>, value: &Value, _t: &DataType) -> Result<()> {
    match value {
        Value::Int(i) => out.extend_from_slice(i.to_string().as_bytes()),
        Value::Text(t) => out.extend_from_slice(t.as_bytes()),
        Value::Bool(b) => out.push(if *b { b't' } else { b'f' }),
        _ => return Err(no()),
    }
    Ok(())
}
pub fn put_binary(out: &mut Vec<u8>, value: &Value, t: &DataType) -> Result<()> {
    match (value, t) {
        (Value::Int(i), DataType::Int4) => out.extend_from_slice(&(*i as i32).to_be_bytes()),
        (Value::Int(i), _) => out.extend_from_slice(&i.to_be_bytes()),
        (Value::Text(t), _) => out.extend_from_slice(t.as_bytes()),
        (Value::Bytes(b), _) => out.extend_from_slice(b),
        (Value::Bool(b), _) => out.push(u8::from(*b)),
        _ => return Err(no()),
    }
    Ok(())
}
pub fn from_text(text: &str, t: &DataType) -> Result<Value> {
    match t {
        DataType::Int4 | DataType::Int8 => text.parse().map(Value::Int).map_err(|_| no()),
        DataType::Bool => Ok(Value::Bool(text == "t")),
        _ => Ok(Value::Text(text.into())),
    }
}
pub fn from_binary(b: &[u8], t: &DataType) -> Result<Value> {
    match t {
        DataType::Int4 => Ok(Value::Int(
            i32::from_be_bytes(b.try_into().map_err(|_| no())?).into(),
        )),
        DataType::Int8 => Ok(Value::Int(i64::from_be_bytes(
            b.try_into().map_err(|_| no())?,
        ))),
        DataType::Bool => Ok(Value::Bool(b == [1])),
        DataType::Bytea => Ok(Value::Bytes(b.into())),
        _ => Ok(Value::Text(
            std::str::from_utf8(b).map_err(|_| no())?.into(),
        )),
    }
}
