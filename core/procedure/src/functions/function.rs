//! Which built-in scalar functions there are, and what kind of function each is.

use super::json::JsonFunction;

/// By a regular expression: what is asked of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegexFunction {
    Matches {
        any_case: bool,
    },
    /// By SQL's own kind of patterns, with what escapes there.
    Similar,
    SubstringSimilar,
    /// The first group, or the whole match.
    Substring,
    Replace,
    Match,
    Split,
    Like,
    Count,
    Substr,
    Instr,
}

/// A built-in scalar function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    // Numbers.
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
    Mod,
    /// How many whole times the second number goes into the first.
    Div,
    Power,
    Sqrt,
    Exp,
    Ln,
    /// The base comes first.
    Log,
    Sign,
    Gcd,
    Lcm,
    Greatest,
    Least,
    // Text and bytes.
    Lower,
    Upper,
    Length,
    OctetLength,
    Substring,
    Left,
    Right,
    TrimBoth,
    TrimLeft,
    TrimRight,
    Position,
    Replace,
    Concat,
    ConcatWs,
    Repeat,
    Reverse,
    Lpad,
    Rpad,
    SplitPart,
    StartsWith,
    Initcap,
    Translate,
    Ascii,
    Chr,
    BitLength,
    Overlay,
    GetByte,
    SetByte,
    QuoteLiteral,
    QuoteNullable,
    // Orders of languages (see `collation`).
    /// Of a text, by a locale; whether texts that are alike there differ still.
    SortKey,
    /// The text that a key was made of.
    SortedText,
    // Digests of text and bytes.
    Md5,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    /// The second argument names the algorithm.
    Digest,
    /// The second argument is the key, the third names the algorithm.
    Hmac,
    // Text and bytes, as texts.
    Encode,
    Decode,
    ToHex,
    // Addresses.
    /// Without the length of its network.
    Host,
    /// 4 or 6.
    Family,
    Masklen,
    /// With the length of its network, as a cast to text gives it.
    NetworkText,
    /// Regular expressions.
    Regex(RegexFunction),
    /// What it is given. Where it bounds a scan NULL is a value, alike to itself.
    NullsAlike,
    /// Of a `real`, as text or as numeric.
    RealDigits,
    // Dates and times.
    /// `extract` and `date_part`: the first argument is the field's name.
    Extract,
    DatePart,
    DateTrunc,
    MakeDate,
    MakeTime,
    /// Years, months, weeks, days, hours, minutes, seconds.
    MakeInterval,
    /// A date and a time of day.
    MakeTimestamp,
    ToTimestamp,
    Age,
    JustifyDays,
    JustifyHours,
    JustifyInterval,
    DateBin,
    /// How far clocks are ahead of UTC, and a moment.
    AtTimeZone,
    /// A conversion as clocks show times, of which the first argument has the
    /// [rules](types::rules); the result's type says to what.
    CastByClocks,
    /// A moment and the interval by which it is moved, behind the rules of clocks.
    MoveByClocks,
    /// Two pairs of ends.
    Overlaps,
    ToChar,
    // Arrays.
    ArrayLength,
    ArrayUpper,
    ArrayLower,
    Cardinality,
    ArrayAppend,
    ArrayPrepend,
    ArrayCat,
    ArrayPosition,
    ArrayPositions,
    ArrayRemove,
    ArrayReplace,
    ArrayToString,
    StringToArray,
    /// Of JSON, operators too.
    Json(JsonFunction),
    /// The text of a row, of those of its fields.
    RowText,
    /// From one place to another; each is NULL where it was left out, and says so behind it.
    ArraySlice,
    /// Whether each element of the second is one of the first.
    ArrayContains,
    /// Whether an element of one is one of the other.
    ArrayOverlaps,
    /// An array whose element at a place is another value.
    ArraySet,
    // Enums; the type's labels come last (see `enums`).
    /// The label of a position, or those of an array.
    EnumLabel,
    /// The positions from one to another.
    EnumRange,
    /// The error of a value that breaks a rule of its domain: the domain's name, the constraint's
    /// or NULL, the schema's.
    DomainFault,
    // Row messages: `(1, x, null)`.
    FailingRow,
    // Random values; each ends with a seed, a lane and a position (see `draws`).
    /// A fraction, or a number between two that come first.
    Random,
    GenRandomUuid,
    /// Its first argument is `now()`.
    Uuidv7,
    /// The sequence, the values that the transaction brought along, a position.
    Nextval,
    /// The sequence and its name, the value that the session took last.
    Currval,
    /// The next values of a sequence: see `sequences`.
    TakeValues,
    /// A call that the [surroundings](crate::surroundings) answer, by its number.
    Around(u16),
}

impl Function {
    /// Whether another call with the same arguments may answer otherwise, as SQL sees it.
    pub fn draws(self) -> bool {
        matches!(
            self,
            Function::Random
                | Function::GenRandomUuid
                | Function::Uuidv7
                | Function::Nextval
                | Function::Currval
        )
    }

    /// What one that is brief costs beside its call.
    pub(super) fn units(self) -> u64 {
        match self {
            // Up to 28 multiplications.
            Function::Power => 100,
            Function::Sqrt => 20,
            _ => 2,
        }
    }

    /// Whether it takes the same time whatever its arguments.
    pub fn is_brief(self) -> bool {
        use Function::*;
        matches!(
            self,
            Abs | Ceil
                | Floor
                | Round
                | Trunc
                | Mod
                | Div
                | Power
                | Sqrt
                | Exp
                | Ln
                | Log
                | Sign
                | Gcd
                | Lcm
                | OctetLength
                | BitLength
                | GetByte
                | Chr
                | ToHex
                | Extract
                | DatePart
                | DateTrunc
                | MakeDate
                | MakeTime
                | MakeInterval
                | MakeTimestamp
                | ToTimestamp
                | Age
                | JustifyDays
                | JustifyHours
                | JustifyInterval
                | DateBin
                | AtTimeZone
                | Overlaps
                | Host
                | Family
                | Masklen
                | NetworkText
                | NullsAlike
                | ArrayLength
                | ArrayUpper
                | ArrayLower
                | Cardinality
                | EnumLabel
                | EnumRange
                | DomainFault
                | Random
                | GenRandomUuid
                | Uuidv7
                | Nextval
                | Currval
                | TakeValues
        )
    }

    /// Whether a NULL argument is an argument like any other.
    pub fn takes_nulls(self) -> bool {
        use Function::*;
        if let Json(function) = self {
            return function.takes_nulls();
        }
        matches!(
            self,
            Greatest
                | Least
                | Overlaps
                | Concat
                | ConcatWs
                | FailingRow
                | RowText
                | ArrayAppend
                | ArrayPrepend
                | ArrayCat
                | ArrayPosition
                | ArrayPositions
                | ArrayRemove
                | ArrayReplace
                | ArrayToString
                | StringToArray
                | ArraySlice
                | ArraySet
                | EnumRange
                | DomainFault
                | QuoteNullable
                | NullsAlike
                | Nextval
                | Currval
                | TakeValues
                | Around(_)
        )
    }
}
