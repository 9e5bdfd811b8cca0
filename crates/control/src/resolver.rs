//! Queries name servers ourselves, as the file of `resolv_conf` says.
//!
//! Always true: the file decides which servers are asked, in which order and for which names, as in resolv.conf(5); the
//! library sends and receives the messages. A name in the hosts file is not asked for. Nothing is cached here.
//! Not here: the meaning of the file (`config`), the system's resolver (`names`).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use config::NameServers;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use worker::letters::Found;

use crate::names::found_at;
use crate::zones::Serial;

/// Queries the name servers of one file.
pub(crate) struct Resolver {
    servers: Arc<NameServers>,
    /// One resolver for each name server, because their order is decided here.
    asked: Vec<TokioResolver>,
    /// Where to start, with the option `rotate`.
    turn: AtomicUsize,
}

/// The resolver in use; it is replaced when the file has been read again.
#[derive(Default)]
pub(crate) struct CurrentResolver(Option<Arc<Resolver>>);

impl CurrentResolver {
    /// Returns the resolver for these name servers.
    pub(crate) fn resolver(&mut self, servers: &Arc<NameServers>) -> Arc<Resolver> {
        match &self.0 {
            Some(resolver) if Arc::ptr_eq(&resolver.servers, servers) => Arc::clone(resolver),
            _ => Arc::clone(self.0.insert(Arc::new(Resolver::new(Arc::clone(servers))))),
        }
    }
}

/// The records asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Addresses,
    Soa,
}

/// Why there is no answer.
#[derive(PartialEq, Eq, Debug)]
enum Lack {
    /// The name does not exist.
    Name,
    /// The name exists without such records, or the name servers refuse. The next search domain may succeed.
    Records(Arc<str>),
    /// No name server answers; trying other names would be guessing.
    Answer(Arc<str>),
}

impl Resolver {
    pub(crate) fn new(servers: Arc<NameServers>) -> Self {
        let asked = (0..servers.servers.len()).filter_map(|number| ask_one(&servers, number)).collect();
        Self { servers, asked, turn: AtomicUsize::new(0) }
    }

    /// Returns the addresses of a name.
    pub(crate) async fn addresses(&self, name: &str) -> Found {
        let hosts = tokio::task::spawn_blocking(Hosts::from_system).await;
        if let Ok(Ok(hosts)) = hosts {
            let own = in_hosts(&hosts, name);
            if !own.is_empty() {
                return found_at(own, None);
            }
        }
        let lookup = self.ask(name, Wanted::Addresses).await?;
        let ttl = lookup.answers().iter().map(|record| record.ttl).min();
        let addresses = lookup.answers().iter().filter_map(|record| record.data.ip_addr());
        found_at(addresses, ttl.map(|secs| Duration::from_secs(secs.into())))
    }

    /// Returns the serial number of a zone.
    pub(crate) async fn serial(&self, zone: &str) -> Serial {
        let lookup = self.ask(zone, Wanted::Soa).await?;
        let serial = lookup.answers().iter().find_map(|record| match &record.data {
            RData::SOA(soa) => Some(soa.serial),
            _ => None,
        });
        serial.ok_or_else(|| Arc::from(NO_SOA))
    }

    /// Queries each name that `name` may stand for, until there is an answer or no name server answers.
    async fn ask(&self, name: &str, wanted: Wanted) -> Result<Lookup, Arc<str>> {
        let mut lacks = None;
        for whole in self.servers.names(name) {
            let whole = name_of(&whole).ok_or_else(|| Arc::from("no name of the domain name system"))?;
            match self.ask_all(&whole, wanted).await {
                Ok(lookup) => return Ok(lookup),
                Err(Lack::Answer(why)) => return Err(why),
                Err(Lack::Records(why)) => lacks = lacks.or(Some(why)),
                Err(Lack::Name) => {}
            }
        }
        Err(lacks.unwrap_or_else(|| "no such name".into()))
    }

    /// Queries the name servers in turn, until one answers.
    async fn ask_all(&self, name: &Name, wanted: Wanted) -> Result<Lookup, Lack> {
        let count = self.asked.len();
        let first = if self.servers.rotates { self.turn.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut last = Lack::Answer("there is no name server".into());
        for number in 0..count * self.servers.attempts as usize {
            let resolver = &self.asked[(first.wrapping_add(number)) % count];
            // Twice the time, because a truncated answer is requested again by TCP.
            let asked = tokio::time::timeout(self.servers.patience * 2, put(resolver, name, wanted));
            last = match asked.await.unwrap_or(Err(NetError::Timeout)) {
                Ok(lookup) => return Ok(lookup),
                Err(NetError::Dns(DnsError::NoRecordsFound(lack))) => {
                    return Err(lack_of(lack.response_code, wanted));
                }
                Err(NetError::Dns(DnsError::ResponseCode(code))) => Lack::Records(words_of_code(code).into()),
                Err(NetError::Timeout) => Lack::Answer("no name server answers".into()),
                Err(error) => Lack::Answer(error.to_string().into()),
            };
        }
        Err(last)
    }
}

async fn put(resolver: &TokioResolver, name: &Name, wanted: Wanted) -> Result<Lookup, NetError> {
    match wanted {
        Wanted::Addresses => resolver.lookup_ip(name.clone()).await.map(Lookup::from),
        Wanted::Soa => resolver.soa_lookup(name.clone()).await,
    }
}

/// Returns a resolver that queries a single name server once. `None` never occurs: only the setup of TLS could fail.
fn ask_one(servers: &NameServers, number: usize) -> Option<TokioResolver> {
    let server = servers.servers[number];
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = server.port();
        connection
    };
    let mut connections = vec![with_port(ConnectionConfig::tcp())];
    if !servers.is_tcp_only {
        connections.insert(0, with_port(ConnectionConfig::udp()));
    }
    let server = NameServerConfig::new(server.ip(), true, connections);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let mut options = ResolverOpts::default();
    options.timeout = servers.patience;
    options.attempts = 0;
    options.edns0 = servers.is_extended;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // The workers cache; a new question wants the current state.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.with_options(options).build().ok()
}

/// Returns the addresses of a name in the hosts file.
fn in_hosts(hosts: &Hosts, name: &str) -> Vec<IpAddr> {
    let Some(name) = name_of(name) else { return Vec::new() };
    let kinds = [RecordType::A, RecordType::AAAA].into_iter();
    let lookups = kinds.filter_map(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)));
    lookups
        .flat_map(|lookup| lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>())
        .collect()
}

/// Parses a host name: underscores are allowed, and non-ASCII names are converted to their international form (IDNA).
fn name_of(text: &str) -> Option<Name> {
    let name = if text.is_ascii() { Name::from_ascii(text) } else { Name::from_utf8(text) };
    name.ok()
}

fn lack_of(code: ResponseCode, wanted: Wanted) -> Lack {
    match (code, wanted) {
        (ResponseCode::NXDomain, _) => Lack::Name,
        (_, Wanted::Addresses) => Lack::Records("the name has no address".into()),
        (_, Wanted::Soa) => Lack::Records(NO_SOA.into()),
    }
}

fn words_of_code(code: ResponseCode) -> String {
    format!("the name server says: {}", code.to_str())
}

const NO_SOA: &str = "it has no SOA record";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_knows_names_in_any_case_with_all_their_addresses() {
        let mut hosts = Hosts::default();
        let text = "10.0.0.1 db DB.own.example # first\nfd00::1 db\n10.0.0.2 my_db\n";
        hosts.read_hosts_conf(text.as_bytes()).expect("good lines");
        let of = |name: &str| in_hosts(&hosts, name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of("db"), ["10.0.0.1", "fd00::1"]);
        assert_eq!(of("Db.Own.example."), ["10.0.0.1"]);
        assert_eq!(of("my_db"), ["10.0.0.2"]);
        assert!(of("other").is_empty() && of("a..b").is_empty());
    }

    #[test]
    fn a_name_that_is_there_without_an_address_is_told_apart_from_none() {
        assert_eq!(lack_of(ResponseCode::NXDomain, Wanted::Addresses), Lack::Name);
        let lack = lack_of(ResponseCode::NoError, Wanted::Addresses);
        assert_eq!(lack, Lack::Records("the name has no address".into()));
        assert_eq!(lack_of(ResponseCode::NoError, Wanted::Soa), Lack::Records(NO_SOA.into()));
    }

    #[test]
    fn a_file_that_is_read_again_gets_a_resolver_of_its_own() {
        let (mut current, servers) = (CurrentResolver::default(), Arc::new(NameServers::system()));
        let first = current.resolver(&servers);
        assert!(Arc::ptr_eq(&first, &current.resolver(&servers)));
        assert!(!Arc::ptr_eq(&first, &current.resolver(&Arc::new(NameServers::system()))));
        assert_eq!(first.asked.len(), 1);
    }
}
