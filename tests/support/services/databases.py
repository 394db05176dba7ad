"""Databases for one test at a time, made as new again between two of them.

Creating and dropping a database costs a server a third of a second of computing, emptying one a
tenth of that. What a test may have done to a database is not guessed: after the cleaning every
catalog is compared with what it was, and a database that differs in anything is dropped.
Whatever cannot be cleaned costs time, therefore, and never reaches another test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import psycopg
from psycopg import sql

from .postgres_server import Postgres

Fingerprint = tuple[tuple[object, ...], ...]
Database = psycopg.Connection[tuple[object, ...]]

CONNECT_S = 10
CLEANING_S = 10
"""A cleaning that takes longer waits for something: the database is dropped instead."""

KEPT_MAX = 4
"""More than a test takes at once; each costs 8 MB of disk."""

ENDED = f"""
select pg_terminate_backend(pid, {CLEANING_S * 1000}) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""

# Event triggers first: one may refuse to let the rest be dropped. Public as initdb makes it.
EMPTIED = """
do $$
declare statement text;
begin
  for statement in
    select format('drop event trigger %I', evtname) from pg_event_trigger
  loop execute statement; end loop;
  for statement in
    select format('drop extension %I cascade', extname) from pg_extension
    where extname <> 'plpgsql'
  loop execute statement; end loop;
  for statement in
    select format('drop schema %I cascade', nspname) from pg_namespace
    where nspname !~ '^pg_' and nspname <> 'information_schema'
  loop execute statement; end loop;
  perform lo_unlink(oid) from pg_largeobject_metadata;
end $$;
create schema public authorization pg_database_owner;
grant usage on schema public to public;
comment on schema public is 'standard public schema';
"""

FORGOTTEN = """
select format('alter database %I reset all', datname) from pg_db_role_setting s
join pg_database d on d.oid = s.setdatabase
where d.datname = current_database() and s.setrole = 0
union all
select format('alter role %I in database %I reset all', r.rolname, d.datname)
from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
join pg_roles r on r.oid = s.setrole
where d.datname = current_database()
"""

OF_THE_DATABASE = """
select datdba::text, datacl::text, datconnlimit, datallowconn, datistemplate,
  (select count(*) from pg_db_role_setting where setdatabase = d.oid),
  (select count(*) from pg_subscription where subdbid = d.oid),
  (select count(*) from pg_replication_slots where database = d.datname),
  (select count(*) from pg_prepared_xacts where database = d.datname)
from pg_database d where datname = current_database()
"""

CATALOGS = """
select relname from pg_class
where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and not relisshared
  and relname not in ('pg_statistic', 'pg_statistic_ext_data')
order by relname
"""

UNTOUCHED = """
select {name}, count(*), count(*) filter (where age(xmin) > age({since}::xid)) from {table}
"""

TABLES = """
select format('%I.%I', nspname, relname) from pg_class c
join pg_namespace n on n.oid = relnamespace
where relkind = 'r' and nspname !~ '^pg_' and nspname <> 'information_schema'
order by c.oid
"""

SEQUENCES = """
select setval(seqrelid::regclass, seqstart, false) from pg_sequence
"""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A database as it is when nobody has it: `since` is a transaction after all that made it."""

    name: str
    since: str
    looks: Fingerprint
    rows: dict[str, bytes]


class Databases:
    """`with databases.lent() as url:`, or `take`, and `give_back` when the test is over.

    Args:
        server: where they are; it runs again whenever one is given back.
        prefix: of their names.
        prepare: what makes a new one ready, by its address, a migration for example; what it has
            made is there for every test, with these rows. Without it they are empty.
    """

    def __init__(
        self, server: Postgres, prefix: str, prepare: Callable[[str], object] | None = None
    ) -> None:
        self._server = server
        self._prefix = prefix
        self._prepare = prepare
        self._numbers = count(1)
        self._free: list[_Kept] = []
        self._taken: dict[str, _Kept] = {}

    @contextlib.contextmanager
    def lent(self) -> Iterator[str]:
        """Lend the address of a database that is as a new one."""
        url = self.take()
        yield url
        self.give_back(url)

    def take(self) -> str:
        """Return the address of a database that is as a new one."""
        kept = self._free.pop() if self._free else self._make()
        url = self._server.url_of(kept.name)
        self._taken[url] = kept
        return url

    def give_back(self, url: str) -> None:
        """Make it as new for the next who asks, or drop it."""
        kept = self._taken.pop(url)
        self._server.restore()
        clean = False
        with contextlib.suppress(psycopg.Error), self._connect(kept.name) as database:
            clean = self._cleaned(database, kept)
        if clean and len(self._free) < KEPT_MAX:
            self._free.append(kept)
        else:
            self._server.drop(kept.name)

    def _make(self) -> _Kept:
        name = f"{self._prefix}_{next(self._numbers)}"
        url = self._server.database(name)
        if self._prepare is not None:
            self._prepare(url)
        with self._connect(name) as database:
            # Before the first cleaning: what each cleaning makes anew is never counted as old.
            ((since,),) = database.execute("select pg_current_xact_id()::xid::text").fetchall()
            rows = {}
            if self._prepare is None:
                database.execute(EMPTIED)
            else:
                tables = [str(table) for (table,) in database.execute(TABLES).fetchall()]
                rows = {table: _copy_out(database, table) for table in tables}
            return _Kept(name, str(since), _looks(database, str(since)), rows)

    def _cleaned(self, database: Database, kept: _Kept) -> bool:
        database.execute(ENDED.encode())
        for (statement,) in database.execute(FORGOTTEN).fetchall():
            database.execute(str(statement).encode())
        if self._prepare is None:
            database.execute(EMPTIED)
        elif not _refilled(database, kept.rows):
            return False
        return _looks(database, kept.since) == kept.looks

    def _connect(self, name: str) -> Database:
        # The options are of this session: what a test has set for the database does not hold.
        return psycopg.connect(
            self._server.url_of(name),
            autocommit=True,
            connect_timeout=CONNECT_S,
            options=(
                f"-c statement_timeout={CLEANING_S}s -c lock_timeout={CLEANING_S}s"
                " -c default_transaction_read_only=off -c search_path=pg_catalog,public"
            ),
        )


def _looks(database: Database, since: str) -> Fingerprint:
    """Count, of every catalog, its rows and those that nobody has written since a transaction."""
    names = [str(name) for (name,) in database.execute(CATALOGS).fetchall()]
    each = sql.SQL(" union all ").join(
        sql.SQL(UNTOUCHED).format(name=name, since=since, table=sql.Identifier("pg_catalog", name))
        for name in names
    )
    own = database.execute(OF_THE_DATABASE).fetchall()
    return (*own, *database.execute(each).fetchall())


def _copy_out(database: Database, table: str) -> bytes:
    with database.cursor().copy(f"copy {table} to stdout".encode()) as copy:
        return b"".join(bytes(part) for part in copy)


def _refilled(database: Database, rows: dict[str, bytes]) -> bool:
    """Drop further tables, and give every other one the rows it began with; or say it lacks."""
    there = [str(table) for (table,) in database.execute(TABLES).fetchall()]
    if not rows.keys() <= set(there):
        return False
    with database.transaction():
        for table in there:
            if table not in rows:
                database.execute(f"drop table if exists {table} cascade".encode())
        # A trigger or a foreign key is about what an application does.
        database.execute("set local session_replication_role = replica")
        for table, content in rows.items():
            database.execute(f"delete from {table}".encode())
            if content:
                with database.cursor().copy(f"copy {table} from stdin".encode()) as copy:
                    copy.write(content)
        database.execute(SEQUENCES)
    return True
