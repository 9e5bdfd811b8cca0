//! A client that speaks the protocol without a driver, so that tests see every message.
//!
//! Always true: it panics with what it received if that is not what was expected.
//! Not here: passwords. Tests of those use psql, as users do.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::message::{self, Complaint};
use crate::peer::{Frame, Lost, Peer};
use crate::wait::LIMIT;

/// A client that is logged in.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub peer: Peer,
    /// The values of the last ParameterStatus messages, by name.
    pub parameters: BTreeMap<String, String>,
    /// The key of BackendKeyData.
    pub key: (u32, Vec<u8>),
    address: Option<SocketAddr>,
    /// Received notifications that no test has asked for yet: `channel payload`.
    heard: VecDeque<String>,
}

/// All messages that answer a Query, up to its ReadyForQuery.
#[derive(Debug, Default)]
pub struct Answer {
    /// Names and type numbers of the columns of the last result.
    pub columns: Vec<(String, u32)>,
    /// The rows.
    pub rows: Vec<Vec<Option<String>>>,
    /// The tags of CommandComplete.
    pub tags: Vec<String>,
    /// The errors, of any severity.
    pub errors: Vec<Complaint>,
    /// The notices.
    pub notices: Vec<Complaint>,
    /// The names and values of ParameterStatus messages.
    pub parameters: Vec<(String, String)>,
    /// The status of ReadyForQuery; a blank if the connection was closed before it.
    pub status: char,
}

impl Answer {
    /// The first value of the first row.
    ///
    /// # Panics
    /// When there is none.
    pub fn value(&self) -> String {
        match self.rows.first().and_then(|row| row.first()) {
            Some(Some(value)) => value.clone(),
            _ => panic!("no value in {self:?}"),
        }
    }

    /// The only error.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub fn error(&self) -> &Complaint {
        assert_eq!(self.errors.len(), 1, "one error was expected: {self:?}");
        &self.errors[0]
    }

    /// The values of a row by the names of the columns; NULL is shown as `NULL`.
    pub fn named(&self, row: usize) -> BTreeMap<String, String> {
        let names = self.columns.iter().map(|(name, _)| name.clone());
        names.zip(self.rows[row].iter().map(|value| value.clone().unwrap_or("NULL".into()))).collect()
    }
}

impl Client {
    /// Connects over TCP and logs in.
    ///
    /// # Panics
    /// When the login fails.
    pub fn login(address: SocketAddr, user: &str, database: &str) -> Self {
        Self::try_login(address, &[("user", user), ("database", database)])
            .unwrap_or_else(|error| panic!("login of {user} to {database} failed: {error:?}"))
    }

    /// Connects over TCP and logs in with these parameters.
    ///
    /// # Errors
    /// The error with which the login was refused.
    ///
    /// # Panics
    /// When the connection is lost without an error.
    pub fn try_login(address: SocketAddr, parameters: &[(&str, &str)]) -> Result<Self, Complaint> {
        let mut peer = Peer::tcp(address).expect("the port answers");
        peer.send(&message::startup(0, parameters));
        let mut client = Self::finish_login(peer, LIMIT)?;
        client.address = Some(address);
        Ok(client)
    }

    /// Reads the answer to a startup packet that has been sent.
    ///
    /// # Errors
    /// The error with which the login was refused.
    ///
    /// # Panics
    /// When the connection is lost without an error, or a password is asked for.
    pub fn finish_login(peer: Peer, limit: Duration) -> Result<Self, Complaint> {
        Self::try_finish_login(peer, limit).unwrap_or_else(|lost| panic!("no answer to the login: {lost}"))
    }

    /// Logs in with protocol 3.2, over a new connection.
    ///
    /// # Panics
    /// When the login is refused.
    pub fn login_by_3_2(mut peer: Peer, user: &str, database: &str) -> Self {
        peer.send(&message::startup(2, &[("user", user), ("database", database)]));
        Self::finish_login(peer, LIMIT).unwrap_or_else(|error| panic!("login of {user} failed: {error:?}"))
    }

    /// Connects over TCP and logs in; `None` if the connection is lost before any message has arrived.
    ///
    /// # Panics
    /// When the login is refused.
    pub fn login_unless_lost(address: SocketAddr, user: &str, database: &str) -> Option<Self> {
        let mut peer = Peer::tcp(address).ok()?;
        peer.try_send(&message::startup(0, &[("user", user), ("database", database)])).ok()?;
        match Self::try_finish_login(peer, LIMIT) {
            Ok(entered) => {
                let mut client = entered.unwrap_or_else(|error| panic!("login of {user} failed: {error:?}"));
                client.address = Some(address);
                Some(client)
            }
            Err(Lost::Closed) => None,
            Err(lost) => panic!("no answer to the login: {lost}"),
        }
    }

    fn try_finish_login(mut peer: Peer, limit: Duration) -> Result<Result<Self, Complaint>, Lost> {
        let mut parameters = BTreeMap::new();
        let mut key = (0, Vec::new());
        loop {
            let frame = peer.frame_within(limit)?;
            match frame.tag {
                b'R' => assert_eq!(frame.body, [0, 0, 0, 0], "a password was asked for"),
                b'S' => drop(note_parameter(&mut parameters, &frame)),
                b'K' => key = read_key(&frame),
                b'E' => return Ok(Err(Complaint::read(&frame))),
                b'Z' => return Ok(Ok(Self { peer, parameters, key, address: None, heard: VecDeque::new() })),
                b'N' | b'v' => {}
                other => panic!("unexpected {:?} in a login", other as char),
            }
        }
    }

    /// Sends a Query.
    pub fn ask(&mut self, sql: &str) {
        self.peer.send(&message::query(sql));
    }

    /// Sends a Query and reads the answer.
    ///
    /// # Panics
    /// When the answer does not arrive in time, or the connection closes without an error.
    pub fn query(&mut self, sql: &str) -> Answer {
        self.ask(sql);
        self.answer()
    }

    /// Sends a Query, expects no error, and returns the first value.
    ///
    /// # Panics
    /// When there is an error or no value.
    pub fn value(&mut self, sql: &str) -> String {
        let answer = self.query(sql);
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
        answer.value()
    }

    /// Sends a Query and expects no error.
    ///
    /// # Panics
    /// When there is an error.
    pub fn run(&mut self, sql: &str) {
        let answer = self.query(sql);
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
    }

    /// Reads everything up to ReadyForQuery, or up to the end after an error.
    ///
    /// # Panics
    /// When that does not arrive in time, or the connection closes without an error.
    pub fn answer(&mut self) -> Answer {
        self.answer_within(LIMIT)
    }

    /// Reads everything up to ReadyForQuery, or up to the end after an error.
    ///
    /// # Panics
    /// When one message of it takes longer than `limit`, or the connection closes without an error.
    pub fn answer_within(&mut self, limit: Duration) -> Answer {
        let mut answer = Answer { status: ' ', ..Answer::default() };
        loop {
            let frame = match self.peer.frame_within(limit) {
                Ok(frame) => frame,
                Err(Lost::Closed) if !answer.errors.is_empty() => return answer,
                Err(lost) => panic!("{lost}, after {answer:?}"),
            };
            match frame.tag {
                b'T' => answer.columns = message::read_columns(&frame.body),
                b'D' => answer.rows.push(message::read_list(&frame.body)),
                b'C' => answer.tags.extend(message::read_strings(&frame.body, 1).0),
                b'E' => answer.errors.push(Complaint::read(&frame)),
                b'N' => answer.notices.push(Complaint::read(&frame)),
                b'S' => answer.parameters.extend(note_parameter(&mut self.parameters, &frame)),
                b'A' => self.heard.push_back(message::read_strings(&frame.body[4..], 2).0.join(" ")),
                b'Z' => {
                    answer.status = frame.body.first().map_or(' ', |status| *status as char);
                    return answer;
                }
                _ => {}
            }
        }
    }

    /// The next notifications, each as `channel payload`.
    ///
    /// # Panics
    /// When they do not arrive in time, or something else does.
    pub fn heard(&mut self, count: usize) -> Vec<String> {
        while self.heard.len() < count {
            let frame = self.peer.frame_within(LIMIT).unwrap_or_else(|lost| panic!("{lost}, after {:?}", self.heard));
            match frame.tag {
                b'A' => self.heard.push_back(message::read_strings(&frame.body[4..], 2).0.join(" ")),
                other => panic!("{} came where a notification was due", char::from(other)),
            }
        }
        self.heard.drain(..count).collect()
    }

    /// The notifications that have arrived with answers so far, each as `channel payload`.
    pub fn has_heard(&mut self) -> Vec<String> {
        self.heard.drain(..).collect()
    }

    /// Sends a CancelRequest with this client's key over a new connection, and waits until that is closed.
    ///
    /// # Panics
    /// When the connection of the request is not accepted.
    pub fn cancel(&self) {
        let address = self.address.expect("only a client over TCP cancels here");
        send_cancel(address, self.key.0, &self.key.1);
    }

    /// The process ID of the PostgreSQL backend that runs this query.
    pub fn server_pid(&mut self) -> String {
        self.value("select pg_backend_pid()")
    }
}

/// Sends a CancelRequest and waits until the connection is closed.
///
/// # Panics
/// When it is not closed in time, or something is sent.
pub fn send_cancel(address: SocketAddr, pid: u32, secret: &[u8]) {
    let mut peer = Peer::tcp(address).expect("the port answers");
    peer.send(&message::cancel_request(pid, secret));
    peer.closed_within(LIMIT).expect("a cancel request is answered by closing");
}

/// Keys that differ from this one: truncated, longer, or with one bit changed; the process ID is the same.
pub fn other_keys((pid, secret): &(u32, Vec<u8>)) -> Vec<(u32, Vec<u8>)> {
    let mut others: Vec<Vec<u8>> =
        [4, 31, 33, 256].map(|length| secret.iter().copied().chain([0; 256]).take(length).collect()).into();
    for (at, bit) in [(0, 7), (3, 2), (4, 0), (17, 5), (31, 0)] {
        let mut other = secret.clone();
        other[at] ^= 1 << bit;
        others.push(other);
    }
    others.into_iter().map(|secret| (*pid, secret)).collect()
}

/// The key in a BackendKeyData.
pub fn read_key(frame: &Frame) -> (u32, Vec<u8>) {
    let (pid, secret) = frame.body.split_at(4.min(frame.body.len()));
    (pid.try_into().map_or(0, u32::from_be_bytes), secret.to_vec())
}

fn note_parameter(parameters: &mut BTreeMap<String, String>, frame: &Frame) -> Option<(String, String)> {
    let [name, value] = &message::read_strings(&frame.body, 2).0[..] else { return None };
    parameters.insert(name.clone(), value.clone());
    Some((name.clone(), value.clone()))
}
