"""SQLAlchemy reads a schema: columns, keys, indexes, checks."""

import os

import sqlalchemy
from sqlalchemy import inspect, text

URL = os.environ["CLIENT_URL"].replace("postgresql://", "postgresql+psycopg://", 1)


def create(connection):
    for statement in (
        "DROP TABLE IF EXISTS reflected_line",
        "DROP TABLE IF EXISTS reflected",
        """CREATE TABLE reflected (
            id bigint PRIMARY KEY, code char(3) NOT NULL DEFAULT 'abc', name varchar(40) UNIQUE,
            amount numeric(12,2) NOT NULL CHECK (amount >= 0), seen timestamptz)""",
        "CREATE INDEX reflected_code_idx ON reflected (code, name)",
        """CREATE TABLE reflected_line (
            reflected_id bigint NOT NULL REFERENCES reflected (id) ON DELETE CASCADE,
            line int NOT NULL, PRIMARY KEY (reflected_id, line))""",
    ):
        connection.execute(text(statement))


def main():
    engine = sqlalchemy.create_engine(URL, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        create(connection)
    inspector = inspect(engine)
    assert "public" in inspector.get_schema_names()
    assert {"reflected", "reflected_line"} <= set(inspector.get_table_names())
    assert inspector.has_table("reflected") and not inspector.has_table("elsewhere")
    columns = {column["name"]: column for column in inspector.get_columns("reflected")}
    types = {name: str(column["type"]) for name, column in columns.items()}
    assert types == {
        "id": "BIGINT",
        "code": "CHAR(3)",
        "name": "VARCHAR(40)",
        "amount": "NUMERIC(12, 2)",
        "seen": "TIMESTAMP",
    }, types
    assert columns["code"]["default"] == "'abc'::bpchar", columns["code"]
    assert columns["name"]["nullable"] and not columns["amount"]["nullable"]
    key = inspector.get_pk_constraint("reflected_line")
    assert key["constrained_columns"] == ["reflected_id", "line"], key
    (foreign,) = inspector.get_foreign_keys("reflected_line")
    assert foreign["referred_table"] == "reflected", foreign
    assert foreign["referred_columns"] == ["id"], foreign
    assert foreign["options"] == {"ondelete": "CASCADE"}, foreign
    indexes = {index["name"]: index for index in inspector.get_indexes("reflected")}
    assert indexes["reflected_code_idx"]["column_names"] == ["code", "name"], indexes
    assert indexes["reflected_name_key"]["unique"], indexes
    (unique,) = inspector.get_unique_constraints("reflected")
    assert unique["column_names"] == ["name"], unique
    (check,) = inspector.get_check_constraints("reflected")
    assert check["sqltext"].startswith("amount >= 0"), check
    metadata = sqlalchemy.MetaData()
    metadata.reflect(bind=engine, only=["reflected", "reflected_line"])
    assert metadata.tables["reflected_line"].foreign_keys


if __name__ == "__main__":
    main()
