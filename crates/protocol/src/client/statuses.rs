//! The `ParameterStatus` messages that end a login, written once for all clients of a pool.
//!
//! Always true: what a client is sent is what its own values give, message by message.
//! Not here: which values a client begins with (`worker::admission::welcome`).

use std::rc::Rc;

use wire::write;

use crate::vars::{Tracked, Vars};

/// The values with which the servers of a pool begin, and the messages that report them.
#[derive(Clone, Debug)]
pub struct Statuses {
    vars: Rc<Vars>,
    bytes: Box<[u8]>,
    /// For each parameter, where its message ends; it has none if it has no value.
    ends: Box<[usize]>,
}

impl Statuses {
    /// The messages for these values.
    #[must_use]
    pub fn new(vars: Rc<Vars>, tracked: &Tracked) -> Self {
        let mut bytes = Vec::new();
        let mut end = |(place, name)| {
            if let Some(value) = vars.get(place) {
                write::parameter_status(&mut bytes, name, value);
            }
            bytes.len()
        };
        let ends = tracked.reported_names().enumerate().map(&mut end).collect();
        Self { vars, bytes: bytes.into(), ends }
    }

    /// The values.
    #[must_use]
    pub fn vars(&self) -> &Rc<Vars> {
        &self.vars
    }

    /// The length of all messages in bytes.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the messages for the values of a client, of which most are these.
    pub fn write_for(&self, vars: &Vars, tracked: &Tracked, out: &mut Vec<u8>) {
        if std::ptr::eq(vars, &*self.vars) {
            out.extend_from_slice(&self.bytes);
            return;
        }
        // Where the messages begin that are appended as they are.
        let (mut from, mut begin) = (0, 0);
        for (place, name) in tracked.reported_names().enumerate() {
            let end = self.ends.get(place).copied().unwrap_or(self.bytes.len());
            if !vars.has_same(&self.vars, place) {
                out.extend_from_slice(&self.bytes[from..begin]);
                if let Some(value) = vars.get(place) {
                    write::parameter_status(out, name, value);
                }
                from = end;
            }
            begin = end;
        }
        out.extend_from_slice(&self.bytes[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that differ in any way are reported as they would be without the messages of the others.
    #[test]
    fn each_client_is_told_its_own_values() {
        let tracked = Tracked::new(["IntervalStyle"]);
        let names: Vec<_> = tracked.reported_names().map(str::to_owned).collect();
        let set = |digits: u32| {
            let mut vars = Vars::new(&tracked);
            for place in 0..names.len() {
                let value = digits / 3_u32.pow(place as u32 % 7) % 3;
                if value > 0 {
                    vars.set(place, &format!("value {value}"));
                }
            }
            vars
        };
        for of_servers in (0..3_u32.pow(7)).step_by(97) {
            let statuses = Statuses::new(Rc::new(set(of_servers)), &tracked);
            for of_client in (0..3_u32.pow(7)).step_by(89).chain([of_servers]) {
                let (client, mut out, mut expected) = (Rc::new(set(of_client)), Vec::new(), Vec::new());
                // Most clients share the values of the servers.
                let client = if of_client == of_servers { statuses.vars().clone() } else { client };
                statuses.write_for(&client, &tracked, &mut out);
                let known = names.iter().enumerate().filter_map(|(place, name)| Some((name, client.get(place)?)));
                known.for_each(|(name, value)| write::parameter_status(&mut expected, name, value));
                assert_eq!(out, expected, "{of_client} of {of_servers}");
            }
        }
    }
}
