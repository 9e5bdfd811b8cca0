//! What is made in a server for a spec: databases, a role and a schema for each tenant, a table in each schema.
//!
//! Always true: every name begins with [`PREFIX`], so that nothing that is removed can be anything else; no name depends on texts of a spec.
//! Not here: sending the statements (`server`).

use crate::simulate::spec::{Roles, Spec};

/// All names of databases and roles that are made begin with this.
pub(super) const PREFIX: &str = "tlsim_";

/// What a spec needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Objects {
    /// By the database's place in the spec.
    pub(super) databases: Vec<String>,
    /// In the order of the tenants of all databases and groups.
    pub(super) tenants: Vec<Tenant>,
}

/// One tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tenant {
    /// By its place.
    pub(super) database: usize,
    /// Counted over all databases.
    pub(super) group: usize,
    /// In its group, from 1.
    pub(super) number: u32,
    pub(super) role: String,
    pub(super) schema: String,
    /// Whether the role is its alone.
    pub(super) is_alone: bool,
}

impl Objects {
    pub(super) fn of(spec: &Spec) -> Self {
        let mut objects = Self { databases: Vec::new(), tenants: Vec::new() };
        let mut group_number = 0;
        for (place, database) in spec.databases.iter().enumerate() {
            objects.databases.push(format!("{PREFIX}{}", place + 1));
            for (group, place_of_group) in database.groups.iter().zip(1..) {
                for number in 1..=group.tenants {
                    let schema = format!("{PREFIX}{}_{place_of_group}_{number}", place + 1);
                    let (role, is_alone) = match group.roles {
                        Roles::Each => (schema.clone(), true),
                        Roles::Shared => (format!("{PREFIX}{}_{place_of_group}_all", place + 1), false),
                    };
                    objects.tenants.push(Tenant {
                        database: place,
                        group: group_number,
                        number,
                        role,
                        schema,
                        is_alone,
                    });
                }
                group_number += 1;
            }
        }
        objects
    }

    /// All roles, each once.
    pub(super) fn roles(&self) -> Vec<&str> {
        let mut roles: Vec<&str> = self.tenants.iter().map(|tenant| tenant.role.as_str()).collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }
}

impl Tenant {
    /// Makes the schema and the table in the tenant's database.
    pub(super) fn make(&self) -> String {
        let Self { schema, role, .. } = self;
        format!(
            "create schema {schema} authorization {role};\n\
             create table {schema}.posts (run int, id bigint, body text, primary key (run, id));\n\
             alter table {schema}.posts owner to {role};\n"
        )
    }

    /// A post that takes so long.
    pub(super) fn post(&self, run: u32, id: u64, micros: u64, manner: Manner) -> String {
        let (schema, statement) = (&self.schema, manner.statement(micros));
        format!("insert into {schema}.posts select {run}, {id}, 'post' from ({statement}) as work")
    }

    /// All posts of a run.
    pub(super) fn posts(&self, run: u32) -> String {
        format!("select id from {}.posts where run = {run}", self.schema)
    }
}

/// How statements spend their times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Manner {
    /// The share for which they compute; 0 if they only sleep.
    pub(super) computing: f64,
    /// How many rows the server counts in a microsecond.
    pub(super) rows_per_micro: f64,
}

impl Manner {
    pub(super) const SLEEPING: Self = Self { computing: 0.0, rows_per_micro: 0.0 };

    /// A statement that takes so long. PostgreSQL rounds the time for which it sleeps up to whole milliseconds.
    pub(super) fn statement(self, micros: u64) -> String {
        let rows = (micros as f64 * self.computing * self.rows_per_micro).round() as u64;
        let sleeps = micros as f64 * (1.0 - self.computing) / 1e6;
        match (rows, sleeps >= SLEEP_MIN) {
            (0, _) => format!("select pg_sleep({sleeps:.6})"),
            (_, true) => format!("select count(*), pg_sleep({sleeps:.6}) from generate_series(1, {rows})"),
            (_, false) => format!("select count(*) from generate_series(1, {rows})"),
        }
    }
}

/// A shorter sleep, in seconds, would be more than twice as long.
const SLEEP_MIN: f64 = 0.0005;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::demand::spec_of_text;

    #[test]
    fn each_tenant_has_a_role_and_a_schema_and_all_names_have_the_prefix() {
        let (_, spec) = spec_of_text(
            "[[databases]]\nname = 'a'\ncount = 2\n\
             [[databases.tenants]]\ncount = 2\narrivals = { poisson = 1 }\n\
             [[databases.tenants.transactions]]\nservice = '1 ms'\n\
             [[databases.tenants]]\nname = 'x; drop'\nroles = 'shared'\ncount = 2\narrivals = { poisson = 1 }\n\
             [[databases.tenants.transactions]]\nservice = '1 ms'\n",
        )
        .expect("a spec");
        let objects = Objects::of(&spec);
        assert_eq!(objects.databases, ["tlsim_1", "tlsim_2"]);
        let seen: Vec<_> = objects.tenants.iter().map(|t| (t.schema.as_str(), t.role.as_str(), t.group)).collect();
        assert_eq!(seen[0], ("tlsim_1_1_1", "tlsim_1_1_1", 0));
        assert_eq!(seen[3], ("tlsim_1_2_2", "tlsim_1_2_all", 1));
        assert_eq!(seen[7], ("tlsim_2_2_2", "tlsim_2_2_all", 3));
        assert_eq!(objects.roles().len(), 6);
        assert!(objects.roles().iter().all(|role| role.starts_with(PREFIX)));
    }

    #[test]
    fn a_statement_takes_its_time_by_sleeping_or_by_computing() {
        assert_eq!(Manner::SLEEPING.statement(12_500), "select pg_sleep(0.012500)");
        let half = Manner { computing: 0.5, rows_per_micro: 10.0 };
        assert_eq!(half.statement(10_000), "select count(*), pg_sleep(0.005000) from generate_series(1, 50000)");
        assert_eq!(half.statement(800), "select count(*) from generate_series(1, 4000)");
    }
}
