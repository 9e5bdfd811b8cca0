//! The store of Patroni, if it is etcd: the keys `etcd` and `etcd_...` of a line of `[clusters]`.
//!
//! Always true: there is at least one address, and at most [`ADDRESSES_MAX`]. Its keys begin and end with a slash.
//! Not here: questions to it (`control::clusters`).

use std::sync::Arc;

use crate::database::Password;
use crate::endpoint::Endpoint;
use crate::mistake::Wrong;

/// The store of Patroni.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Etcd {
    /// Its addresses, of which one at a time is asked.
    pub addresses: Vec<Arc<Endpoint>>,
    /// With what the keys of the cluster begin: `/service/main/`.
    pub prefix: Arc<str>,
    /// User and password.
    pub login: Option<(Arc<str>, Password)>,
    /// The file of the authorities that certify it; `None` stands for the system's.
    pub ca_file: Option<Arc<str>>,
}

/// What a line says of it.
#[derive(Default)]
pub(crate) struct EtcdLine {
    addresses: Vec<Arc<Endpoint>>,
    prefix: Option<Arc<str>>,
    user: Option<Arc<str>>,
    password: Option<Password>,
    ca_file: Option<Arc<str>>,
}

impl EtcdLine {
    /// Takes one of the keys `etcd`, `etcd_prefix`, `etcd_user`, `etcd_password` and `etcd_ca_file`.
    pub(crate) fn assign(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        match key {
            "etcd" => self.addresses = value.split(',').map(|url| address(url.trim())).collect::<Result<_, _>>()?,
            "etcd_prefix" => self.prefix = Some(value.into()),
            "etcd_user" => self.user = Some(value.into()),
            "etcd_password" => self.password = Some(Password::new(value)),
            _ => self.ca_file = Some(value.into()),
        }
        Ok(())
    }

    /// The store; `None` if the line names none.
    pub(crate) fn etcd(self, scope: &str) -> Result<Option<Etcd>, Wrong> {
        let login = match (self.user, self.password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(Wrong::new("etcd_user= and etcd_password= need each other")),
        };
        if self.addresses.is_empty() {
            let without = [
                ("etcd_prefix", self.prefix.is_some()),
                ("etcd_user", login.is_some()),
                ("etcd_ca_file", self.ca_file.is_some()),
            ];
            let lonely = without.into_iter().find(|(_, is_there)| *is_there);
            return lonely.map_or(Ok(None), |(key, _)| Err(Wrong::new(format!("{key}= needs etcd="))));
        }
        if self.addresses.len() > ADDRESSES_MAX {
            return Err(Wrong::new(format!("more than {ADDRESSES_MAX} addresses in etcd=")));
        }
        // As Patroni makes it from `namespace` and `scope`.
        let space = self.prefix.as_deref().unwrap_or("/service/").trim_matches('/');
        let prefix = if space.is_empty() { format!("/{scope}/") } else { format!("/{space}/{scope}/") };
        Ok(Some(Etcd { addresses: self.addresses, prefix: prefix.into(), login, ca_file: self.ca_file }))
    }
}

/// Parses the URL of an address.
fn address(text: &str) -> Result<Arc<Endpoint>, Wrong> {
    let wrong = |why| Wrong::new(format!("invalid etcd: expected a URL such as http://10.0.0.1:2379: {why}"));
    let endpoint = Endpoint::parse_with(text, "/", "write etcd_user= and etcd_password=").map_err(wrong)?;
    match &*endpoint.target {
        "/" => Ok(Arc::new(endpoint)),
        _ => Err(wrong("it has a path".to_owned())),
    }
}

/// More members than any etcd has.
const ADDRESSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use crate::Cluster;

    fn line(text: &str) -> Result<Cluster, String> {
        Cluster::parse("main", text).map_err(|mut wrongs| wrongs.remove(0).text)
    }

    #[test]
    fn the_keys_are_those_of_patroni() {
        for (more, prefix) in [
            ("", "/service/main/"),
            ("scope=batman", "/service/batman/"),
            ("etcd_prefix=/pg/eu/", "/pg/eu/main/"),
            ("etcd_prefix=pg", "/pg/main/"),
            ("etcd_prefix=/", "/main/"),
        ] {
            let cluster = line(&format!("etcd=http://e1:2379,https://e2:2379 user=u {more}")).expect("a good line");
            let etcd = cluster.etcd.expect("a store");
            assert_eq!((&*etcd.prefix, etcd.addresses.len()), (prefix, 2), "{more}");
            assert!(
                cluster.is_told_members && cluster.scope.is_some_and(|scope| prefix.ends_with(&format!("/{scope}/")))
            );
        }
        assert_eq!(line("hosts=a user=u").expect("a good line").scope, None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let many = vec!["http://e:1"; 17].join(",");
        for (text, why) in [
            ("etcd=e1:2379 user=u", "invalid etcd: expected a URL"),
            ("etcd=http://e1:2379/v2 user=u", "it has a path"),
            ("etcd=http://u:s3cret@e1:2379 user=u", "write etcd_user= and etcd_password="),
            ("hosts=a user=u etcd_prefix=/x", "etcd_prefix= needs etcd="),
            ("etcd=http://e1:2379 user=u etcd_user=x", "etcd_user= and etcd_password= need each other"),
            (&format!("etcd={many} user=u"), "more than 16 addresses"),
        ] {
            let told = line(text).expect_err(text);
            assert!(told.contains(why) && !told.contains("s3cret"), "{text}: {told}");
        }
    }
}
