//! What another session does to the objects that clients use: renames, drops and creates anew roles, schemas, functions,
//! types and tables.
//!
//! Always true: the change is made on both sides while no session is in a transaction or keeps its server, through a direct
//! connection to PostgreSQL; and only where a direct session also resolves names again. An OID that a session has resolved is
//! not a name any more, and a server that is lent later can be given only a name. So these rules make a program fair:
//! * A role is renamed or dropped when no session has it. After `SET ROLE` a direct session keeps its role under a new name;
//!   through the pooler it gets the role that has the name when its next server is set up (`docs/operating/running.md`).
//! * A type is renamed, but never dropped while statements may be prepared with a constant of it, and no statement has a
//!   parameter or a result of it: PostgreSQL would fail on the OID, or report that a cached plan must not change its result.
//! * An object that is created anew has the same result types; and a function that does nothing to a session still does nothing,
//!   because the pooler notices functions that another session creates only after a minute.
//!
//! Not here: when a change is made (`mod`), how often (`program`).

use std::time::Instant;

use super::{PATIENCE, Stage};

/// A change that another session makes.
#[derive(Debug)]
pub(super) struct Change {
    /// `ROLE` stands for the role of the test, `#` for a number.
    pub(super) sql: &'static str,
    pub(super) of: Of,
    /// The statements that clients run next.
    pub(super) then: &'static [&'static str],
}

/// Where a change is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// Once, because roles belong to the whole cluster.
    Roles,
    /// In the database of each side.
    Databases,
}

impl Stage<'_> {
    /// Makes the change on both sides, through another session.
    pub(super) fn change(&self, of: Of, sql: &str) -> Result<(), String> {
        let sides = match of {
            Of::Roles => &self.somebody[..1],
            Of::Databases => &self.somebody[..],
        };
        for somebody in sides {
            let until = Instant::now() + PATIENCE;
            // A server whose client has just left with a temporary table is cleaned up at its own pace.
            loop {
                let answer = somebody.borrow_mut().query(sql);
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

/// The objects at the beginning, created by the owner of all of them.
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
