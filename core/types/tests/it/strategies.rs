//! Values of every type, with the awkward ones made likely.

use std::sync::Arc;

use proptest::prelude::*;
use types::datetime::{DATE_MAX, DATE_MIN, DAY_US};
use types::json::write::push_string;
use types::numeric::Numeric;
use types::{ColumnSchema, DataType, EnumType, Interval, Jsonb, Value, ZonedTime};

pub fn ints() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -1000..1000i64, Just(i64::MIN), Just(i64::MAX),]
}

pub fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        (-1000..1000i32).prop_map(|i| f64::from(i) / 8.0),
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE / 4.0),
    ]
}

/// Numbers of any length; small, round and nearby ones are frequent.
pub fn numerics() -> impl Strategy<Value = Numeric> {
    const INLINE_MAX: i128 = (1 << 96) - 1;
    let any_size = (any::<u128>(), 1..127u32, any::<bool>(), 0..=40u8).prop_map(
        |(bits, shift, negative, scale)| {
            let units = (bits >> shift) as i128;
            Numeric::from_units(if negative { -units } else { units }, scale)
        },
    );
    let round = (-20..20i128, 0..12u32, 0..6u8)
        .prop_map(|(units, zeros, scale)| Numeric::from_units(units * 10i128.pow(zeros), scale));
    let long = "-?[0-9]{1,90}(\\.[0-9]{1,90})?";
    let repeated = ("-?", "[09]{1,60}", "\\.?", "[09]{1,60}")
        .prop_map(|(sign, whole, point, behind)| format!("{sign}{whole}{point}{behind}"));
    let far = ("-?[0-9]{1,3}", -16_380..130_000i32)
        .prop_map(|(digits, exponent)| format!("{digits}e{exponent}"));
    let written = prop_oneof![4 => long.prop_map(String::from), 4 => repeated, 1 => far];
    let edge = prop::sample::select(vec![-INLINE_MAX - 1, -INLINE_MAX, INLINE_MAX, INLINE_MAX + 1]);
    prop_oneof![
        4 => any_size,
        3 => round,
        3 => written.prop_map(|text| text.parse().expect("a number")),
        1 => (edge, 0..=28u8).prop_map(|(units, scale)| Numeric::from_units(units, scale)),
    ]
}

/// Also those without digits.
pub fn all_numerics() -> impl Strategy<Value = Numeric> {
    let special = [Numeric::NAN, Numeric::INFINITY, Numeric::NEG_INFINITY];
    prop_oneof![8 => numerics(), 1 => prop::sample::select(special.to_vec())]
}

/// Short strings over few characters, so that prefixes and equal strings are frequent.
pub fn strings() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\u{1} {}\"\\\\,é]{0,4}", "\\PC{0,40}", Just("NULL".to_owned())]
}

pub fn byte_strings() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()];
    prop::collection::vec(byte, 0..6)
}

pub fn dates() -> impl Strategy<Value = i32> {
    prop_oneof![DATE_MIN..=DATE_MAX, -40_000..40_000i32, Just(DATE_MIN), Just(DATE_MAX)]
}

pub fn timestamps() -> impl Strategy<Value = i64> {
    (dates(), 0..DAY_US).prop_map(|(days, us)| i64::from(days) * DAY_US + us)
}

/// Many that last as long as another.
pub fn intervals() -> impl Strategy<Value = Interval> {
    let count = || prop_oneof![-2..3i32, any::<i32>(), Just(30), Just(i32::MIN), Just(i32::MAX)];
    let us = prop_oneof![
        (-2..3i64).prop_map(|days| days * DAY_US),
        i64::MIN + 1..=i64::MAX,
        // The text of the least of all is more than is read, in PostgreSQL too.
        Just(i64::MIN + 1),
        Just(i64::MAX),
    ];
    (count(), count(), us).prop_map(|(months, days, us)| Interval { months, days, us })
}

pub fn zoned_times() -> impl Strategy<Value = ZonedTime> {
    (0..=DAY_US, -57_599..57_600i32).prop_map(|(us, west_s)| ZonedTime { us, west_s })
}

/// Few keys, so that objects meet under them, and equal values with other digits.
pub fn jsons() -> impl Strategy<Value = Jsonb> {
    let string = |text: String| {
        let mut out = String::new();
        push_string(&text, &mut out);
        out
    };
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?(e-?[0-9]{1,2})?",
        prop::sample::select(vec!["1", "1.0", "1.00", "0", "-0"]).prop_map(str::to_owned),
    ];
    let words = prop::sample::select(vec!["null", "true", "false", "[]", "{}"]);
    let leaf = prop_oneof![
        2 => words.prop_map(str::to_owned),
        2 => number,
        2 => strings().prop_map(string),
    ];
    let any = leaf.prop_recursive(4, 24, 4, move |inside| {
        let member = (strings(), inside.clone());
        let member = member.prop_map(move |(key, value)| format!("{}: {value}", string(key)));
        prop_oneof![
            prop::collection::vec(inside, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|all| format!("{{{}}}", all.join(" ,"))),
        ]
    });
    any.prop_map(|text| Jsonb::read(&text).expect("JSON"))
}

/// Every type that a column can have and a key too.
pub fn column_types() -> Vec<DataType> {
    let labels = ["sad", "o,k", "", "happy"].map(str::to_owned);
    let mood = EnumType::new(16_400, "mood", &labels).expect("labels");
    vec![
        DataType::Bool,
        DataType::Int2,
        DataType::Int4,
        DataType::Int8,
        DataType::Numeric(None),
        DataType::Numeric(Some((20, 4))),
        DataType::Numeric(Some((60, 30))),
        DataType::Float4,
        DataType::Float8,
        DataType::Text,
        DataType::Varchar(Some(50)),
        DataType::Char(45),
        DataType::Bytea,
        DataType::Uuid,
        DataType::Date,
        DataType::Timestamp(None),
        DataType::Timestamptz(None),
        DataType::Jsonb,
        DataType::INTERVAL,
        DataType::Time(None),
        DataType::Timetz(None),
        DataType::Enum(Arc::new(mood)),
        DataType::Array(Box::new(DataType::Int4)),
        DataType::Array(Box::new(DataType::Text)),
        DataType::Array(Box::new(DataType::Numeric(None))),
    ]
}

/// A value of the given type, as a column of it would hold it.
pub fn value_of(data_type: &DataType) -> BoxedStrategy<Value> {
    match data_type.clone() {
        DataType::Bool => any::<bool>().prop_map(Value::from).boxed(),
        DataType::Int2 => any::<i16>().prop_map(Value::from).boxed(),
        DataType::Int4 => any::<i32>().prop_map(Value::from).boxed(),
        DataType::Int8 => ints().prop_map(Value::from).boxed(),
        DataType::Numeric(None) => all_numerics().prop_map(Value::from).boxed(),
        DataType::Numeric(Some((precision, scale))) => {
            let digits = format!("-?[0-9]{{{precision}}}");
            let number = move |digits: String| format!("{digits}e-{scale}").parse::<Numeric>();
            proptest::string::string_regex(&digits)
                .expect("an expression")
                .prop_map(move |digits| number(digits).expect("a number").into())
                .boxed()
        }
        DataType::Float4 => any::<f32>().prop_map(real).boxed(),
        DataType::Float8 => floats().prop_map(Value::from).boxed(),
        DataType::Text | DataType::Varchar(_) => strings().prop_map(Value::from).boxed(),
        DataType::Char(_) => strings().prop_map(|s| Value::from(s.trim_end_matches(' '))).boxed(),
        DataType::Bytea => byte_strings().prop_map(Value::from).boxed(),
        DataType::Uuid => any::<[u8; 16]>().prop_map(Value::from).boxed(),
        DataType::Date => dates().prop_map(Value::Date).boxed(),
        DataType::Timestamp(_) => timestamps().prop_map(Value::Timestamp).boxed(),
        DataType::Timestamptz(_) => timestamps().prop_map(Value::Timestamptz).boxed(),
        DataType::Json => jsons().prop_map(|json| Value::text(json.as_str())).boxed(),
        DataType::Jsonb => jsons().prop_map(Value::from).boxed(),
        DataType::Interval(fields) => {
            intervals().prop_map(move |span| Value::Interval(span.within(fields))).boxed()
        }
        DataType::Time(_) => (0..=DAY_US).prop_map(Value::Time).boxed(),
        DataType::Timetz(_) => zoned_times().prop_map(Value::Timetz).boxed(),
        DataType::Array(element) => {
            prop::collection::vec(nullable(&element), 0..5).prop_map(Value::from).boxed()
        }
        DataType::Enum(of) => {
            let labels = of.labels().iter();
            let positions: Vec<Value> = labels.map(|label| Value::Int(label.position)).collect();
            prop::sample::select(positions).boxed()
        }
        DataType::Inet => addresses().boxed(),
        DataType::Cidr => addresses()
            .prop_map(|address| types::cast::cast(&address, &DataType::Cidr, true).unwrap())
            .boxed(),
        DataType::Record(_) | DataType::Unknown | DataType::Void | DataType::System(_) => {
            Just(Value::Null).boxed()
        }
    }
}

/// Of the two zeros there is one, and of what is no number.
fn real(x: f32) -> Value {
    Value::Float(if x.is_nan() { f64::NAN } else { f64::from(x) + 0.0 })
}

/// Of hosts in networks, in both versions.
fn addresses() -> impl Strategy<Value = Value> {
    let read = |text: String| Value::read_text(&DataType::Inet, &text).unwrap();
    let version_4 = (any::<[u8; 4]>(), 0..=32_u8)
        .prop_map(|(octets, bits)| format!("{}/{bits}", std::net::Ipv4Addr::from(octets)));
    let version_6 = (any::<[u8; 16]>(), 0..=128_u8)
        .prop_map(|(octets, bits)| format!("{}/{bits}", std::net::Ipv6Addr::from(octets)));
    prop_oneof![version_4, version_6].prop_map(read)
}

pub fn nullable(data_type: &DataType) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 5 => value_of(data_type)].boxed()
}

pub fn any_column_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(column_types())
}

/// A type that a parameter can have: a column's, or an array of one.
pub fn any_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        4 => any_column_type(),
        1 => any_column_type().prop_map(|element| match element {
            array @ DataType::Array(_) => array,
            element => DataType::Array(Box::new(element)),
        }),
    ]
}

pub fn typed_value() -> impl Strategy<Value = (DataType, Value)> {
    any_type().prop_flat_map(|data_type| {
        let value = value_of(&data_type);
        (Just(data_type), value)
    })
}

pub fn column(data_type: DataType, nullable: bool) -> ColumnSchema {
    ColumnSchema::new("c", data_type).nullable(nullable)
}
