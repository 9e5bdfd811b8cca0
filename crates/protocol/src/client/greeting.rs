//! The first packets of a client: encryption request, cancel request, or startup packet with its parameters.
//!
//! Always true: a packet is judged as a whole; nothing of a refused packet is kept.
//! Not here: whether the user and the database exist, and how the user authenticates (`login`).

use std::sync::Arc;

use wire::backend::TxStatus;
use wire::frame::HEADER_BYTES;
use wire::startup::{self, Startup, StartupFault};
use wire::write;

use crate::client::statuses::Statuses;
use crate::fault::Fault;
use crate::replication::Replication;
use crate::spelling;
use crate::state::Overrides;
use crate::vars::{INTERVAL_STYLE, READ_ONLY, Tracked, Vars, is_told};

/// The meaning of a client's first bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opening<'p> {
    /// Too few bytes to decide.
    More,
    /// A TLS ClientHello without an encryption request (`sslnegotiation=direct`): the client would not understand an
    /// unencrypted error.
    DirectTls,
    /// An SSL or GSSAPI encryption request. The answer is one byte.
    Encryption {
        /// Length of the request.
        bytes: usize,
        /// The name of the request, for error messages.
        request: &'static str,
    },
    /// A cancel request for the query of another connection.
    Cancel {
        /// Process id and secret, as sent.
        key: Box<[u8]>,
    },
    /// A startup packet for a session.
    Session {
        /// Length of the packet.
        bytes: usize,
        /// The minor version of protocol 3.
        minor: u16,
        /// Names and values, in the order sent.
        parameters: Vec<(&'p str, &'p str)>,
    },
    /// A Terminate: the client leaves without a session.
    Farewell,
    /// A packet that cannot be understood.
    Bad(Fault),
}

/// Classifies the first bytes of a client.
#[must_use]
pub fn open(bytes: &[u8]) -> Opening<'_> {
    // The length of a startup packet is below 10,000, so its first byte is zero; a TLS handshake record begins with this
    // byte.
    if bytes.first() == Some(&TLS_HANDSHAKE) {
        return Opening::DirectTls;
    }
    if bytes.starts_with(&FAREWELL) {
        return Opening::Farewell;
    }
    if FAREWELL.starts_with(bytes) {
        return Opening::More;
    }
    let packet = match startup::packet_bytes(bytes) {
        Ok(Some(length)) if bytes.len() >= length => &bytes[..length],
        Ok(_) => return Opening::More,
        Err(fault) => return Opening::Bad(wrong(&fault, bytes)),
    };
    match Startup::parse(packet) {
        Ok(Startup::Ssl) => Opening::Encryption { bytes: packet.len(), request: SSL_REQUEST },
        Ok(Startup::GssEnc) => Opening::Encryption { bytes: packet.len(), request: "GSSAPI encryption request" },
        Ok(Startup::Cancel { key }) => Opening::Cancel { key },
        Ok(Startup::Session { minor, parameters }) => Opening::Session { bytes: packet.len(), minor, parameters },
        Ok(Startup::Version { major: 2 }) => Opening::Bad(Fault::OldProtocol),
        Ok(Startup::Version { major }) => Opening::Bad(Fault::UnknownProtocol { major }),
        Err(fault) => Opening::Bad(wrong(&fault, bytes)),
    }
}

fn wrong(fault: &StartupFault, bytes: &[u8]) -> Fault {
    match fault {
        // A password message that came too early begins with its kind byte.
        StartupFault::Length(_) if bytes.first() == Some(&wire::frontend::PASSWORD) => Fault::PasswordBeforeStartup,
        StartupFault::Length(_) => {
            let mut header = [0; 5];
            let seen = bytes.len().min(header.len());
            header[..seen].copy_from_slice(&bytes[..seen]);
            Fault::BadHeader { header }
        }
        StartupFault::Terminator => Fault::StartupTerminator,
        StartupFault::Layout => Fault::StartupLayout,
        StartupFault::Encoding => Fault::StartupEncoding,
    }
}

/// A Terminate message.
const FAREWELL: [u8; 5] = [wire::frontend::TERMINATE, 0, 0, 0, 4];
/// The name of the request for TLS. The other encryption request asks for GSSAPI, which is not supported.
pub const SSL_REQUEST: &str = "SSL request";

/// The operator's settings about startup parameters.
#[derive(Clone, Debug)]
pub struct StartupRules<'a> {
    /// The parameters that follow the client.
    pub tracked: &'a Tracked,
    /// `ignore_startup_parameters`.
    pub ignored: &'a [Box<str>],
}

/// What the startup packet of a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The user name that the client gave.
    pub user: Arc<str>,
    /// The database; the user name if the client named none.
    pub database: Arc<str>,
    /// The minor version of protocol 3.
    pub minor: u16,
    /// The tracked parameters that the client gave.
    pub vars: Vars,
    /// The other settings that the client gave, as parameters or in `options`: for sessions that follow their clients.
    pub settings: Overrides,
    /// The error where sessions do not follow their clients: it names the first of these settings.
    pub unsupported: Option<Fault>,
    /// The kind of replication connection, if the client asks for one.
    pub replication: Option<Replication>,
    /// The `options` of a client that gets a dedicated server, which receives them unchanged.
    pub options: Option<Box<str>>,
    /// Protocol options (`_pq_.`) that are not known here.
    pub unknown_options: Vec<String>,
    /// What a host has to be for the client's servers, in libpq's words, which nobody has read yet: `trunkline.target_session_attrs`.
    pub target_session_attrs: Option<Box<str>>,
}

impl Request {
    /// Reads the parameters of a startup packet.
    ///
    /// # Errors
    /// The error names the parameter that cannot be served.
    pub fn read(minor: u16, parameters: Vec<(&str, &str)>, rules: &StartupRules<'_>) -> Result<Self, Fault> {
        let replication = wanted_stream(&parameters)?;
        let (mut user, mut database, mut options) = (None, None, None);
        let mut unknown_options = Vec::new();
        let mut given = Given {
            rules,
            vars: Vars::new(rules.tracked),
            settings: Overrides::default(),
            unsupported: None,
            target: None,
        };
        for (name, value) in parameters {
            match name {
                "user" => user = Some(value),
                "database" => database = Some(value),
                _ if name.starts_with("_pq_.") => unknown_options.push(name.to_owned()),
                // Was read first, because the treatment of `options` depends on it.
                "replication" => {}
                "options" if replication.is_some() => {
                    given.read_target(value);
                    options = Some(value.into());
                }
                "options" => given.read_options(value)?,
                _ => given.set(name, value, false, |name| Fault::StartupParameter { name }),
            }
        }
        let Given { vars, settings, unsupported, target: target_session_attrs, .. } = given;
        let user = user.filter(|user| !user.is_empty()).ok_or(Fault::NoUser)?;
        if user.len() > USER_BYTES_MAX {
            return Err(Fault::UserTooLong);
        }
        let user: Arc<str> = user.into();
        let database = database.filter(|name| !name.is_empty()).map_or_else(|| user.clone(), Arc::from);
        Ok(Self {
            user,
            database,
            minor,
            vars,
            settings,
            unsupported,
            replication,
            options,
            unknown_options,
            target_session_attrs,
        })
    }

    /// Appends the `NegotiateProtocolVersion` that the client must get if it asked for more than is supported here.
    pub fn negotiate(&self, out: &mut Vec<u8>) {
        if self.minor > startup::MINOR_NEWEST || !self.unknown_options.is_empty() {
            write::negotiate_protocol_version(out, self.minor.min(startup::MINOR_NEWEST), &self.unknown_options);
        }
    }
}

/// The kind of replication that the parameters ask for; the last occurrence counts.
fn wanted_stream(parameters: &[(&str, &str)]) -> Result<Option<Replication>, Fault> {
    let mut wanted = None;
    for (_, value) in parameters.iter().filter(|(name, _)| *name == "replication") {
        wanted = Replication::parse(value).map_err(|_| Fault::ReplicationUnknown { value: (*value).into() })?;
    }
    Ok(wanted)
}

/// Collects the settings of a startup packet.
struct Given<'a> {
    rules: &'a StartupRules<'a>,
    vars: Vars,
    settings: Overrides,
    unsupported: Option<Fault>,
    target: Option<Box<str>>,
}

impl Given<'_> {
    fn set(&mut self, name: &str, value: &str, are_ignored: bool, fault: impl FnOnce(Box<str>) -> Fault) {
        if TARGETS.iter().any(|target| name.eq_ignore_ascii_case(target)) {
            self.target = Some(value.into());
            return;
        }
        let tracked = self.rules.tracked;
        let is_ignored = are_ignored || self.is_ignored(name);
        let place = tracked.startup_place(name).filter(|place| tracked.is_followed(*place) || !is_ignored);
        if let Some(place) = place {
            let spelled = match () {
                () if name.eq_ignore_ascii_case("client_encoding") => spelling::encoding(value),
                () if name.eq_ignore_ascii_case("standard_conforming_strings") => spelling::switch(value),
                () if name.eq_ignore_ascii_case(READ_ONLY) => spelling::switch(value),
                () if name.eq_ignore_ascii_case(INTERVAL_STYLE) => spelling::interval_style(value),
                () => None,
            };
            self.vars.set(place, spelled.unwrap_or(value));
            // Whether the servers report it is not known yet.
            if !is_told(name) && !is_ignored {
                self.settings.set(&name.to_ascii_lowercase(), value);
            }
        } else if !is_ignored {
            self.unsupported.get_or_insert_with(|| fault(name.into()));
            self.settings.set(&name.to_ascii_lowercase(), value);
        }
    }

    fn is_ignored(&self, name: &str) -> bool {
        self.rules.ignored.iter().any(|ignored| **ignored == *name)
    }

    /// Reads the startup parameter `options`: session settings in the form of command-line arguments. In a name behind
    /// two dashes, a dash stands for an underscore, as in PostgreSQL (`ParseLongOption` in `guc.c`).
    fn read_options(&mut self, text: &str) -> Result<(), Fault> {
        let are_ignored = self.is_ignored("options");
        let mut words = split_options(text).into_iter();
        while let Some(word) = words.next() {
            let setting = if word == "-c" {
                words.next().ok_or(Fault::OptionsFlag)?
            } else if let Some(setting) = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
                setting.to_owned()
            } else {
                return Err(Fault::OptionsFlag);
            };
            let (name, value) = setting.split_once('=').ok_or(Fault::OptionsFlag)?;
            self.set(&name.replace('-', "_"), value, are_ignored, |name| Fault::OptionsParameter { name });
        }
        Ok(())
    }

    /// Reads of the `options` for a dedicated server, which reads them itself, what is said to the pooler.
    fn read_target(&mut self, options: &str) {
        let words = split_options(options);
        let settings = words.iter().map(|word| word.trim_start_matches("--").trim_start_matches("-c"));
        for (name, value) in settings.filter_map(|setting| setting.split_once('=')) {
            if TARGETS.contains(&name) {
                self.target = Some(value.into());
            }
        }
    }
}

/// Splits at whitespace; a backslash escapes the next character (`pg_split_opts` in PostgreSQL's `postinit.c`).
fn split_options(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            blank if blank.is_ascii_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// Returns the end of a login: the fixed messages (`AuthenticationOk` and parameters), a `ParameterStatus` for each
/// tracked parameter of which a value is known, `BackendKeyData`, the operator's notice if there is one, and `ReadyForQuery`.
#[must_use]
pub fn welcome(
    fixed: &[u8],
    statuses: &Statuses,
    vars: &Vars,
    tracked: &Tracked,
    key: &[u8],
    notice: Option<&str>,
) -> Vec<u8> {
    // Just the room that a client without values of its own needs: the bytes need not be moved before they are sent.
    let ends = HEADER_BYTES + key.len() + HEADER_BYTES + 1;
    let mut out = Vec::with_capacity(fixed.len() + statuses.length() + ends);
    out.extend_from_slice(fixed);
    statuses.write_for(vars, tracked, &mut out);
    write::backend_key_data(&mut out, key);
    if let Some(message) = notice {
        write::notice(
            &mut out,
            write::Says { severity: "NOTICE", sqlstate: "00000", message, detail: None, hint: None },
        );
    }
    write::ready_for_query(&mut out, TxStatus::Idle);
    out
}

/// The parameter by which a client says what a host has to be, and Odyssey's name of it.
const TARGETS: [&str; 2] = ["trunkline.target_session_attrs", "odyssey.target_session_attrs"];
/// The content type of a TLS record that carries a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// The longest user name in bytes; PgBouncer refuses longer ones.
const USER_BYTES_MAX: usize = 127;

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn read(parameters: &[(&str, &str)], ignored: &[&str]) -> Result<Request, Fault> {
        let tracked = Tracked::new(["IntervalStyle"]);
        let ignored: Vec<Box<str>> = ignored.iter().map(|&name| name.into()).collect();
        let rules = StartupRules { tracked: &tracked, ignored: &ignored };
        Request::read(0, parameters.to_vec(), &rules)
    }

    #[test]
    fn a_database_that_is_not_named_is_the_users_own() {
        let request = read(&[("user", "ann")], &[]).expect("a request");
        assert_eq!((&*request.user, &*request.database), ("ann", "ann"));
    }

    #[test]
    fn a_user_is_needed() {
        assert_eq!(read(&[("database", "shop")], &[]), Err(Fault::NoUser));
        assert_eq!(read(&[("user", "")], &[]), Err(Fault::NoUser));
        assert_eq!(read(&[("user", &"u".repeat(128))], &[]), Err(Fault::UserTooLong));
    }

    #[test]
    fn a_parameter_that_cannot_be_served_is_named() {
        let request = read(&[("user", "ann"), ("Geqo", "off"), ("a.b", "1")], &[]).expect("a request");
        assert_eq!(request.unsupported, Some(Fault::StartupParameter { name: "Geqo".into() }));
        assert_eq!(request.settings.iter().collect::<Vec<_>>(), [("a.b", "1"), ("geqo", "off")]);
        let request = read(&[("user", "ann"), ("geqo", "off")], &["geqo"]).expect("a request");
        assert_eq!((request.unsupported, request.settings.is_empty()), (None, true));
    }

    #[test]
    fn what_a_host_has_to_be_is_said_to_the_pooler() {
        let options = "-c geqo=off -c trunkline.target_session_attrs=standby";
        for parameters in [
            [("user", "ann"), ("Trunkline.Target_Session_Attrs", "standby")].as_slice(),
            &[("user", "ann"), ("options", "-ctrunkline.target_session_attrs=standby")],
            &[("user", "ann"), ("options", "--odyssey.target-session-attrs=standby")],
            &[("user", "ann"), ("replication", "database"), ("options", options)],
        ] {
            let request = read(parameters, &[]).expect("a request");
            assert_eq!(request.target_session_attrs.as_deref(), Some("standby"), "{parameters:?}");
            assert!(request.settings.is_empty() && request.unsupported.is_none(), "no server is told");
        }
    }

    #[test]
    fn options_are_read_like_a_command_line() {
        let tracked = Tracked::new(["IntervalStyle"]);
        let value = |options: &str, ignored: &[&str], name: &str| {
            let request = read(&[("user", "ann"), ("options", options)], ignored)?;
            Ok::<_, Fault>(request.vars.get(tracked.place(name).expect("tracked")).map(str::to_owned))
        };
        assert_eq!(value("-c timezone=UTC", &[], "TimeZone"), Ok(Some("UTC".into())));
        assert_eq!(value(r"-cdatestyle=ISO,\ DMY --timezone=UTC", &[], "DateStyle"), Ok(Some("ISO, DMY".into())));
        assert_eq!(value("-d 3", &[], "TimeZone"), Err(Fault::OptionsFlag));
        assert_eq!(value("-c", &[], "TimeZone"), Err(Fault::OptionsFlag));
        let request = read(&[("user", "ann"), ("options", "--enable-seqscan=off -c x.y=2")], &[]).expect("a request");
        assert_eq!(request.unsupported, Some(Fault::OptionsParameter { name: "enable_seqscan".into() }));
        assert_eq!(request.settings.iter().collect::<Vec<_>>(), [("enable_seqscan", "off"), ("x.y", "2")]);
        assert_eq!(value("-c enable_seqscan=off -c timezone=UTC", &["options"], "TimeZone"), Ok(Some("UTC".into())));
        let options = ("options", "-c enable_seqscan=off");
        let request = read(&[("user", "ann"), options], &["options"]).expect("a request");
        assert_eq!((request.unsupported, request.settings.is_empty()), (None, true), "all are ignored");
    }

    #[test]
    fn what_is_newer_than_us_is_negotiated_down() {
        let mut out = Vec::new();
        read(&[("user", "ann")], &[]).expect("a request").negotiate(&mut out);
        assert!(out.is_empty());
        let mut request = read(&[("user", "ann"), ("_pq_.dance", "1")], &[]).expect("a request");
        request.minor = 9;
        request.negotiate(&mut out);
        assert_eq!(out, b"v\0\0\0\x17\0\x03\0\x02\0\0\0\x01_pq_.dance\0");
    }

    #[test]
    fn a_stream_is_asked_for_by_a_parameter() {
        let wanted = |value| read(&[("user", "ann"), ("replication", value)], &[]).map(|request| request.replication);
        assert_eq!(wanted("off"), Ok(None));
        assert_eq!(wanted("on"), Ok(Some(Replication::Physical)));
        assert_eq!(wanted("database"), Ok(Some(Replication::Logical)));
        assert_eq!(wanted("sure"), Err(Fault::ReplicationUnknown { value: "sure".into() }));
    }

    #[test]
    fn who_has_a_server_alone_may_give_any_options() {
        let options = ("options", "-d 3 -c enable_seqscan=off");
        assert_eq!(read(&[("user", "ann"), options], &[]), Err(Fault::OptionsFlag));
        let request = read(&[("user", "ann"), options, ("replication", "1")], &[]).expect("a request");
        assert_eq!(request.options.as_deref(), Some("-d 3 -c enable_seqscan=off"));
    }

    #[test]
    fn what_is_tracked_is_remembered_whatever_the_case_of_its_name() {
        let tracked = Tracked::new(["IntervalStyle"]);
        let request = read(&[("user", "ann"), ("intervalSTYLE", "iso_8601"), ("timezone", "UTC")], &[]);
        let vars = request.expect("a request").vars;
        assert_eq!(vars.get(tracked.place("IntervalStyle").expect("tracked")), Some("iso_8601"));
        assert_eq!(vars.get(tracked.place("TimeZone").expect("tracked")), Some("UTC"));
    }

    #[test]
    fn a_welcome_is_fixed_words_parameters_key_and_ready() {
        let tracked = Tracked::new([]);
        let mut vars = Vars::new(&tracked);
        vars.set(tracked.place("TimeZone").expect("tracked"), "UTC");
        let statuses = Statuses::new(Rc::new(vars.clone()), &tracked);
        let out = welcome(b"R\0\0\0\x08\0\0\0\0", &statuses, &vars, &tracked, b"12345678", None);
        let expected: &[&[u8]] =
            &[b"R\0\0\0\x08\0\0\0\0", b"S\0\0\0\x11TimeZone\0UTC\0", b"K\0\0\0\x0c12345678", b"Z\0\0\0\x05I"];
        assert_eq!(out, expected.concat());
    }

    /// Regression: a parameter in `track_extra_parameters` that the servers do not report was neither a parameter nor a setting.
    #[test]
    fn what_servers_may_report_is_a_parameter_and_a_setting_until_they_are_known() {
        let given = [("user", "ann"), ("options", "-c intervalstyle=iso_8601 -c Search_Path=zz --timezone=UTC")];
        let request = read(&given, &[]).expect("a request");
        let tracked = Tracked::new(["IntervalStyle"]);
        let told = |name: &str| request.vars.get(tracked.reported_place(name).expect("reported"));
        assert_eq!(
            [told("IntervalStyle"), told("search_path"), told("TimeZone")],
            [Some("iso_8601"), Some("zz"), Some("UTC")]
        );
        assert_eq!(request.settings.iter().collect::<Vec<_>>(), [("intervalstyle", "iso_8601"), ("search_path", "zz")]);
        assert_eq!(request.unsupported, None);
        let request = read(&[("user", "ann"), ("default_transaction_read_only", "true")], &[]).expect("a request");
        assert_eq!(request.vars.get(tracked.reported_place(READ_ONLY).expect("reported")), Some("on"));
        let request = read(&[("user", "ann"), ("search_path", "zz")], &["search_path"]).expect("a request");
        assert!(request.settings.is_empty() && request.vars == Vars::new(&tracked), "it is ignored");
        let request = read(&[("user", "ann"), ("intervalstyle", "iso_8601")], &["intervalstyle"]).expect("a request");
        assert!(request.settings.is_empty(), "it is followed if the servers report it, and otherwise ignored");
        let request = read(&[("user", "ann"), ("is_superuser", "on")], &[]).expect("a request");
        assert_eq!(request.unsupported, Some(Fault::StartupParameter { name: "is_superuser".into() }));
    }

    #[test]
    fn the_first_bytes_tell_what_is_wanted() {
        assert_eq!(open(b""), Opening::More);
        assert_eq!(open(b"\0\0\0\x08\x04"), Opening::More);
        assert_eq!(open(b"\x16\x03\x01"), Opening::DirectTls);
        assert_eq!(open(b"\0\0\0\x08\x04\xd2\x16\x2f"), Opening::Encryption { bytes: 8, request: "SSL request" });
        let gss = Opening::Encryption { bytes: 8, request: "GSSAPI encryption request" };
        assert_eq!(open(b"\0\0\0\x08\x04\xd2\x16\x30"), gss);
        let cancel = Opening::Cancel { key: b"12345678"[..].into() };
        assert_eq!(open(b"\0\0\0\x10\x04\xd2\x16\x2e12345678"), cancel);
        assert_eq!(open(b"\0\0\0\x08\0\x02\0\0"), Opening::Bad(Fault::OldProtocol));
        assert_eq!(open(b"\0\0\0\x08\0\x04\0\0"), Opening::Bad(Fault::UnknownProtocol { major: 4 }));
        assert_eq!(open(b"\0\0\0\x08\0\x03\0\0"), Opening::Bad(Fault::StartupTerminator));
        assert_eq!(open(b"\0\0\0\x0c\0\x03\0\0ann\0"), Opening::Bad(Fault::StartupLayout));
        assert_eq!(open(b"\0\0\0\x0e\0\x03\0\0\xe4\0a\0\0\0"), Opening::Bad(Fault::StartupEncoding));
        assert_eq!(open(b"p\0\0\0\x05x"), Opening::Bad(Fault::PasswordBeforeStartup));
        assert_eq!(open(b"X\0\0\0\x04"), Opening::Farewell);
        assert_eq!((open(b"X\0\0\0"), open(b"")), (Opening::More, Opening::More));
        assert_eq!(open(b"GET / HTTP/1.0"), Opening::Bad(Fault::BadHeader { header: *b"GET /" }));
        assert_eq!(open(b"\0\0\0\0"), Opening::Bad(Fault::BadHeader { header: [0; 5] }));
    }
}
