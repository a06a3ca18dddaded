"""SQLAlchemy makes a schema and fills it, in one transaction or not at all."""

import os

import sqlalchemy
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, inspect, select

URL = os.environ["CLIENT_URL"].replace("postgresql://", "postgresql+psycopg://", 1)

metadata = MetaData()
parents = Table(
    "made",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", String(40), nullable=False, index=True),
)
children = Table(
    "made_child",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("made_id", ForeignKey("made.id"), nullable=False),
)


class Undone(Exception):
    pass


def fill(connection):
    metadata.create_all(connection)
    connection.execute(parents.insert(), [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])
    connection.execute(children.insert(), [{"id": 5, "made_id": 2}])
    assert inspect(connection).has_table("made_child")


def main():
    engine = sqlalchemy.create_engine(URL)
    metadata.drop_all(engine)
    try:
        with engine.begin() as connection:
            fill(connection)
            raise Undone
    except Undone:
        pass
    assert not inspect(engine).has_table("made")
    with engine.begin() as connection:
        fill(connection)
    with engine.connect() as connection:
        joined = select(parents.c.name).join(children)
        assert connection.execute(joined).scalars().all() == ["two"]
    metadata.drop_all(engine)
    assert not inspect(engine).has_table("made")


if __name__ == "__main__":
    main()
