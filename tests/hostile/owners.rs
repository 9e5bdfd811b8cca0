//! What the owner of a database can do to an `auth_query` that is run in it, and to other clients that need one.
//!
//! Always true: the stranger owns the database, and nothing outside of it; the `auth_query` is run in it.
//! Not here: with whose rights the query runs (`real/logins/secrets.rs`).

use super::scene::{EVERYBODY, Scene};
use super::told::Told;

/// The `auth_query` is answered by this view in the stranger's database, and a client logs in whose secret it asks for.
fn login(scene: &mut Scene<'_>, answer: &str) -> Told {
    let mut postgres = scene.postgres.client(&scene.database);
    postgres.run(&format!("create view secrets as {answer}"));
    scene.set_own("auth_user=u auth_query='select $1, secret from public.secrets'");
    let path = scene.place.directory().join(format!("{}_hba", scene.database));
    scene.place.write(&path, &format!("host {} all all password\n{EVERYBODY}", scene.database));
    scene.set("auth_type = hba");
    scene.set(&format!("auth_hba_file = {}", path.display()));
    let asked =
        |number: usize, database: &str| vec![("user", format!("nobody{number}")), ("database", database.to_owned())];
    scene.logins(8, asked)
}

pub(super) fn rows_without_end(scene: &mut Scene<'_>) -> Told {
    login(scene, "select repeat('x', 1000) || generate_series(1, 50000000) secret")
}

pub(super) fn the_same_row_without_end(scene: &mut Scene<'_>) -> Told {
    login(scene, "select repeat('x', 1000) secret, generate_series(1, 50000000)")
}

pub(super) fn a_secret_of_a_gigabyte(scene: &mut Scene<'_>) -> Told {
    login(scene, "select repeat('x', 500000000) secret")
}
