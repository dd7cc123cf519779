"""A check of SQLite files from untrusted sources."""

from typing import Any


def has_computed_content(database: Any) -> bool:
    """Whether an open database has more than stored tables and their indices.

    Reading a view, a virtual table or a computed column may use unlimited time and memory.
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
