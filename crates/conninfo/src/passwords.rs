//! Passwords in `~/.pgpass`, as libpq reads them.
//!
//! Always true: a file that others may read is not used.

use std::os::unix::fs::PermissionsExt as _;

use crate::{Address, clean};

/// Reads a file with passwords; `None` if there is none.
///
/// # Errors
/// Others may read the file, so it is not used, as in libpq.
pub fn read_private(path: &str) -> Result<Option<String>, String> {
    let Some(found) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else { return Ok(None) };
    if found.permissions().mode() & 0o077 != 0 {
        return Err(format!("{} is not used: others may read it; chmod 0600", clean(path)));
    }
    Ok(std::fs::read_to_string(path).ok())
}

/// The path of the file with passwords, according to the environment.
#[must_use]
pub fn pass_file(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    variable("PGPASSFILE").or_else(|| Some(format!("{}/.pgpass", variable("HOME")?)))
}

/// The password of the first line of `~/.pgpass` that matches all addresses, because no server may receive the
/// password of another.
#[must_use]
pub fn kept_password(lines: &str, addresses: &[Address], database: &str, user: &str) -> Option<String> {
    lines.lines().filter(|line| !line.starts_with('#')).map(fields).find_map(|fields| {
        let [host, its_port, its_database, its_user, password] = <[String; 5]>::try_from(fields).ok()?;
        let is = |pattern: &str, value: &str| pattern == "*" || pattern == value;
        let fits_address = |address: &Address| (host == "*" || address.is_at(&host)) && is(&its_port, &address.port());
        let fits = addresses.iter().all(fits_address) && is(&its_database, database) && is(&its_user, user);
        fits.then_some(password)
    })
}

/// Splits a line at its colons; `\` escapes the next character.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut characters) = (vec![String::new()], line.chars());
    while let Some(character) = characters.next() {
        let last = fields.len() - 1;
        match character {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields[last].extend(characters.next()),
            other => fields[last].push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_for_an_address_only_if_all_its_fields_do() {
        let lines = "# db:1:*:me:no\ndb:*:d:me:a\\:b\\\\c:d\n/run/x:2:*:*:by directory\nlocalhost:*:*:*:by socket\n";
        let password = |address: &Address, user: &str| kept_password(lines, std::slice::from_ref(address), "d", user);
        assert_eq!(password(&Address::at("db", 1), "me").as_deref(), Some("a:b\\c:d"));
        assert_eq!(password(&Address::at("db", 1), "you"), None);
        assert_eq!(password(&Address::at("/run/x/", 2), "me").as_deref(), Some("by directory"));
        assert_eq!(password(&Address::at("/run/y", 2), "me").as_deref(), Some("by socket"));
        let both = [Address::at("db", 1), Address::at("other", 1)];
        assert_eq!(kept_password(lines, &both, "d", "me"), None, "another server would receive it");
    }
}
