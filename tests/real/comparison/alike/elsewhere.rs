//! What somebody else does to the names that clients use: renames, drops and makes anew roles, schemas, functions, types and tables.
//!
//! Always true: it is done to both sides while no session is in a transaction or keeps its server, by a connection to PostgreSQL itself; and
//! only where a direct session looks names up again, too. What a session has bound to a number is not a name any more, and a server that is
//! lent later can be told a name only. So, by these rules, the programs are fair:
//! * A role is renamed or dropped when nobody has it. Who has said `SET ROLE` before stays, directly, who it was; through the pooler it is
//!   whom the name means when its next server is told (`docs/operating/running.md`).
//! * A type is renamed, and never dropped, as long as statements may be prepared with a constant of it, and no statement has a parameter
//!   or a result of it: PostgreSQL would fail on the number, or say that a cached plan must not change its result.
//! * What is made anew answers with the same types; and a function that does nothing to a session still does nothing, for a pooler reads
//!   functions that are made behind its back again after a minute only.
//!
//! Not here: when it is done (`mod`), how often (`program`).

use std::time::Instant;

use tests::client::Client;

use super::{PATIENCE, Stage};

/// Something that somebody else does.
#[derive(Debug)]
pub(super) struct Change {
    /// `ROLE` is the role of the test, `#` a number.
    pub(super) sql: &'static str,
    pub(super) of: Of,
    /// What clients say next.
    pub(super) then: &'static [&'static str],
}

/// Where a change is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// Once, for roles are all databases'.
    Roles,
    /// In the database of each side.
    Databases,
}

impl Stage<'_> {
    /// Somebody else does it, on both sides.
    pub(super) fn change(&self, of: Of, sql: &str) -> Result<(), String> {
        let databases = match of {
            Of::Roles => &[&self.direct][..],
            Of::Databases => &[&self.database, &self.direct],
        };
        for database in databases {
            let mut somebody = Client::login(self.house.postgres.address(), "postgres", database);
            let until = Instant::now() + PATIENCE;
            // A server whose client has just left with a temporary table is cleaned at its own pace.
            loop {
                let answer = somebody.query(sql);
                match answer.errors.first() {
                    None => break,
                    Some(error) if Instant::now() > until => {
                        return Err(format!("somebody else is told {} {}", error.code, error.text));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

const NEW_ONE: &str = "drop schema if exists gone cascade; alter schema one rename to gone; create schema one;
    create table one.who as select 'new one #' as a; create table one.kind as select 1 as a;
    grant usage on schema one to public; grant select on one.who, one.kind to public";

/// All of them.
pub(super) const CHANGES: [Change; 14] = [
    Change {
        sql: "drop role if exists ROLE_old; alter role ROLE rename to ROLE_old; create role ROLE; grant ROLE to u",
        of: Of::Roles,
        then: BECOMES,
    },
    Change { sql: "drop role ROLE; create role ROLE; grant ROLE to u", of: Of::Roles, then: BECOMES },
    Change {
        sql: "drop role if exists ROLE_old; alter role ROLE rename to ROLE_old; alter role ROLE_old rename to ROLE",
        of: Of::Roles,
        then: BECOMES,
    },
    Change { sql: NEW_ONE, of: Of::Databases, then: LOOKS },
    Change {
        sql: "alter schema one rename to swapped; alter schema two rename to one; alter schema swapped rename to two",
        of: Of::Databases,
        then: LOOKS,
    },
    Change {
        sql: "drop schema two cascade; create schema two; create table two.who as select 'new two #' as a;
            create table two.kind as select 'text' as a;
            grant usage on schema two to public; grant select on two.who, two.kind to public",
        of: Of::Databases,
        then: LOOKS,
    },
    Change {
        sql: "create or replace function whose() returns text language sql as $$ select a || ' #' from who $$",
        of: Of::Databases,
        then: CALLS,
    },
    Change {
        sql: "drop function whose(); create function whose() returns text language sql as $$ select upper(a) from who $$",
        of: Of::Databases,
        then: CALLS,
    },
    Change {
        sql: "drop function touch(text, text); create function touch(text, text) returns text language sql as
            $$ select set_config($1, $2 || '#', false) $$",
        of: Of::Databases,
        then: CALLS,
    },
    Change {
        sql: "alter function locks(int) rename to locked; create function locks(int) returns void language plpgsql as
            $$ begin perform 1; perform pg_advisory_lock($1); end $$; drop function locked(int)",
        of: Of::Databases,
        then: &["select locks(#)", "select pg_advisory_unlock_all()"],
    },
    Change {
        sql: "drop domain small; create domain small as int check (value < #)",
        of: Of::Databases,
        then: &["select 1::small::text", "execute p#", "execute s#"],
    },
    Change {
        sql: "do $$ begin execute 'alter type mood rename to mood_' || 'mood'::regtype::oid; end $$;
            create type mood as enum ('sad', 'glad')",
        of: Of::Databases,
        then: &["select 'glad'::mood::text", "execute p#", "execute s#"],
    },
    Change {
        sql: "drop table kept; create table kept (a int); grant all on kept to u",
        of: Of::Databases,
        then: &["insert into kept values (#)", "execute p#", "execute s#"],
    },
    Change {
        sql: "alter table who rename to was; create table who as select 'anew #' as a; grant select on who to public;
            drop table was",
        of: Of::Databases,
        then: LOOKS,
    },
];

const BECOMES: &[&str] =
    &["set role ROLE", "set role ROLE", "set role ROLE", "begin; set local role ROLE; select current_user; commit"];
const LOOKS: &[&str] = &["select a from who", "select a, # from who", "execute p#", "execute s#", "select whose()"];
const CALLS: &[&str] = &["select whose()", "select touch('app.other', 'f#')", "execute p#", "execute s#"];

/// What there is in the beginning, as the owner of all of it.
pub(super) const FUNCTIONS: &str = "
    create function touch(text, text) returns text language sql as $$ select set_config($1, $2, false) $$;
    create function lost(text) returns int language plpgsql as
        $$ begin perform set_config('app.other', $1, false); return 1 / 0; end $$;
    create function locks(int) returns void language plpgsql as $$ begin perform pg_advisory_lock($1); end $$;
    create function listens(text) returns void language plpgsql as $$ begin execute 'listen ' || $1; end $$;
    create function prepares(text) returns void language plpgsql as
        $$ begin execute 'prepare ' || $1 || ' as select set_config(''app.other'', ''' || $1 || ''', false)'; end $$;
    create function makes(text) returns void language plpgsql as
        $$ begin execute 'create temp table ' || $1 || '(a int)'; end $$;
    create table kept (a int); grant all on kept to u;
    create table who as select 'public' as a; create table one.who as select 'one' as a; create table two.who as select 'two' as a;
    create table one.kind as select 1 as a; create table two.kind as select 'text' as a;
    grant usage on schema one, two to public; grant select on who, one.who, two.who, one.kind, two.kind to public;
    create function whose() returns text language sql as $$ select a from who $$;
    create type mood as enum ('sad', 'glad'); create domain small as int check (value < 5)";
