//! The type of `auth_ldap_options`.
//!
//! Always true: neither the shown value nor a message about a mistake contains the password.
//! Not here: the meaning of the options (`auth::ldap`).

use std::sync::Arc;

use auth::LdapOptions;

use super::kinds::{Kind, Misfit, Range};

/// Options of the LDAP lookup; may be absent.
pub struct Ldap;

impl Kind for Ldap {
    type Value = Option<Arc<LdapOptions>>;
    const NAME: &'static str = "LDAP options";
    const IS_SECRET: bool = true;

    fn parse(text: &str, _: Option<Range>) -> Result<Self::Value, Misfit> {
        if text.is_empty() {
            return Ok(None);
        }
        match LdapOptions::parse(text) {
            Ok(options) => Ok(Some(Arc::new(options))),
            Err(why) => Err(Misfit { expected: format!("LDAP options: {why}"), advice: None }),
        }
    }

    fn absent() -> Self::Value {
        None
    }

    fn show(value: &Self::Value, _: Option<&str>) -> Option<String> {
        value.as_ref().map(|options| options.shown.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_among_them_is_not_shown() {
        let text = "ldapserver=a ldapbasedn=\"dc=x, dc=y\" ldapbindpasswd=\"top\"\"secret\"";
        let shown = Ldap::show(&Ldap::parse(text, None).expect("good options"), None);
        assert_eq!(shown.as_deref(), Some("ldapserver=\"a\" ldapbasedn=\"dc=x, dc=y\" ldapbindpasswd=\"***\""));
        assert_eq!(Ldap::parse("", None).expect("none"), None);
    }
}
