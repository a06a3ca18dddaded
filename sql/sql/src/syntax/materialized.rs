//! CREATE MATERIALIZED VIEW and REFRESH MATERIALIZED VIEW.

use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};

use crate::syntax::ddl::Ddl;
use crate::syntax::parsed::Body;

type Read<T> = Result<T, ParserError>;

/// The whole statement; after the query sqlparser leaves WITH DATA and WITH NO DATA.
pub(crate) fn create(parser: &mut Parser<'_>) -> Read<Ddl> {
    let ast::Statement::CreateView(create) = parser.parse_statement()? else {
        return parser.expected("VIEW", parser.peek_token());
    };
    Ok(Ddl::CreateMaterialized { create: Box::new(create), with_data: with_data(parser) })
}

pub(crate) fn refresh(parser: &mut Parser<'_>) -> Read<Body> {
    parser.expect_keywords(&[K::REFRESH, K::MATERIALIZED, K::VIEW])?;
    let concurrently = parser.parse_keyword(K::CONCURRENTLY);
    let name = parser.parse_object_name(false)?;
    Ok(Body::Refresh { name, concurrently, with_data: with_data(parser) })
}

fn with_data(parser: &mut Parser<'_>) -> bool {
    if parser.parse_keywords(&[K::WITH, K::NO, K::DATA]) {
        return false;
    }
    let _ = parser.parse_keywords(&[K::WITH, K::DATA]);
    true
}
