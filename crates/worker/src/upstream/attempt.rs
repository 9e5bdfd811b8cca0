//! The addresses of a host that one dial tries, one after the other, as libpq does.
//!
//! Always true: there is an address that is being tried, or that is about to be; a failed one is not tried again.
//! Not here: the order of the addresses (`host_names`), connecting to them (`dial`, `cancel::peers`).

use std::time::Duration;

use base::Time;
use reactor::Address;

/// The attempt to connect to a host.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    address: Address,
    /// Since when it is tried.
    since: Time,
    /// When the first one was tried.
    begun: Time,
    /// The addresses that are tried after it, the next one last.
    untried: Vec<Address>,
    /// The addresses that have failed, and why.
    failed: Vec<(Address, Box<str>)>,
    /// The host has no other address.
    is_only: bool,
}

impl Attempt {
    /// Begins with the first of the addresses, of which there must be one.
    pub(crate) fn begin(mut addresses: Vec<Address>, now: Time) -> Option<Self> {
        addresses.reverse();
        let address = addresses.pop()?;
        let is_only = addresses.is_empty();
        Some(Self { address, since: now, begun: now, untried: addresses, failed: Vec::new(), is_only })
    }

    /// The address that is being tried.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// When the first address was tried.
    pub(crate) fn begun(&self) -> Time {
        self.begun
    }

    /// The address is tried from now on.
    pub(crate) fn starts(&mut self, now: Time) {
        self.since = now;
    }

    /// Notes why the address has failed. Returns the next one, if there is one.
    pub(crate) fn fails(&mut self, why: &str) -> Option<&Address> {
        let next = self.untried.pop();
        let failed = match &next {
            Some(next) => std::mem::replace(&mut self.address, next.clone()),
            None => self.address.clone(),
        };
        self.failed.push((failed, why.into()));
        next.is_some().then_some(&self.address)
    }

    /// When the address has had its time, if all of them have time until `end`: those that are left share it equally.
    pub(crate) fn due(&self, end: Time) -> Time {
        let left = end.since(self.since);
        let share = left / (self.untried.len() as u32 + 1);
        // With a short server_connect_timeout the least time of one would be the whole time of all.
        let least = if self.untried.is_empty() { left } else { ADDRESS_TIME_MIN.min(left / 2) };
        end.min(self.since + share.max(least))
    }

    /// The addresses that have failed, with their reasons, if the host has several.
    pub(crate) fn reasons(&self) -> Option<String> {
        if self.is_only || self.failed.is_empty() {
            return None;
        }
        let (named, rest) = self.failed.split_at(self.failed.len().min(FAILED_NAMED));
        let named: Vec<_> = named.iter().map(|(address, why)| format!("{} ({why})", word(address))).collect();
        let rest = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        Some(format!("{}{rest}", named.join(", ")))
    }
}

/// An address without its port, which is the same for all addresses of a host.
pub(crate) fn word(address: &Address) -> String {
    match address {
        Address::Tcp(socket) => socket.ip().to_string(),
        Address::Unix(_) | Address::Abstract(_) => "unix".to_owned(),
    }
}

/// The least time of an address while others are left: a lost first packet of TCP is repeated after a second.
const ADDRESS_TIME_MIN: Duration = Duration::from_millis(1500);
/// Addresses that an error names; a name may have hundreds.
const FAILED_NAMED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u8) -> Vec<Address> {
        (1..=count).map(|last| Address::Tcp(([10, 0, 0, last], 5432).into())).collect()
    }

    fn attempt(count: u8) -> Attempt {
        Attempt::begin(addresses(count), Time::from_secs(100)).expect("an address")
    }

    #[test]
    fn the_addresses_are_tried_in_their_order_each_once() {
        let mut attempt = attempt(3);
        assert_eq!(word(attempt.address()), "10.0.0.1");
        assert_eq!(attempt.reasons(), None);
        assert_eq!(attempt.fails("refused").map(word).as_deref(), Some("10.0.0.2"));
        assert_eq!(attempt.fails("reset").map(word).as_deref(), Some("10.0.0.3"));
        assert_eq!(attempt.fails("no answer"), None);
        let told = "10.0.0.1 (refused), 10.0.0.2 (reset), 10.0.0.3 (no answer)";
        assert_eq!(attempt.reasons().as_deref(), Some(told));
    }

    #[test]
    fn an_only_address_needs_no_list() {
        let mut attempt = attempt(1);
        assert_eq!(attempt.fails("refused"), None);
        assert_eq!(attempt.reasons(), None);
    }

    #[test]
    fn a_silent_address_leaves_time_for_the_others() {
        let (mut attempt, end) = (attempt(3), Time::from_secs(115));
        assert_eq!(attempt.due(end), Time::from_secs(105));
        attempt.fails("refused");
        attempt.starts(Time::from_secs(101));
        assert_eq!(attempt.due(end), Time::from_secs(108));
        attempt.fails("no answer");
        attempt.starts(Time::from_secs(108));
        assert_eq!(attempt.due(end), end);
    }

    #[test]
    fn no_address_gets_less_than_its_least_time_nor_all_that_there_is() {
        let attempt = attempt(100);
        assert_eq!(attempt.due(Time::from_secs(115)), Time::from_secs(100) + ADDRESS_TIME_MIN);
        assert_eq!(attempt.due(Time::from_secs(101)), Time::from_secs(100) + Duration::from_millis(500));
        assert_eq!(attempt.due(Time::from_secs(90)), Time::from_secs(90));
    }

    #[test]
    fn an_error_names_a_few_addresses_only() {
        let mut attempt = attempt(10);
        while attempt.fails("refused").is_some() {}
        let told = attempt.reasons().expect("several have failed");
        assert!(told.ends_with("10.0.0.8 (refused) and 2 more"), "{told}");
    }
}
