"""SQLite files of strangers: what is read from one is stored in it, not computed."""

from typing import Any


def computes(database: Any) -> bool:
    """Whether an open database has more than stored tables and their indices.

    A view, a virtual table, a trigger or a computed column may take all time and memory.
    """
    others = database.execute(
        "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR sql LIKE 'CREATE VIRTUAL%'"
    ).fetchall()[0][0]
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    columns = [
        column
        for (name,) in names
        for column in database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))
    ]
    return bool(others) or any(hidden != 0 for (hidden,) in columns)
