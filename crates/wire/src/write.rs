//! Messages that the pooler itself writes, appended to a vector.
//!
//! Always true: every public function except [`c_string`] appends exactly one whole message with its correct length.
//! Not here: messages that are forwarded.

use crate::{backend, frontend, startup};

/// Appends a message of this kind; `fill` appends its body.
pub fn message(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    sized(out, fill);
}

/// Appends a length word and then what `fill` appends.
fn sized(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a zero-terminated string. Zero bytes within the text are left out, because they would end it early.
pub fn c_string(out: &mut Vec<u8>, text: &str) {
    if text.as_bytes().contains(&0) {
        text.split('\0').for_each(|piece| out.extend_from_slice(piece.as_bytes()));
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(0);
}

/// The fields of an `ErrorResponse` or `NoticeResponse`.
#[derive(Clone, Copy, Debug)]
pub struct Says<'a> {
    /// `ERROR`, `FATAL`, `NOTICE`, ...
    pub severity: &'a str,
    /// The SQLSTATE, five characters.
    pub sqlstate: &'a str,
    /// The primary message.
    pub message: &'a str,
    /// Detail.
    pub detail: Option<&'a str>,
    /// Hint.
    pub hint: Option<&'a str>,
}

/// Appends an `ErrorResponse`.
pub fn error(out: &mut Vec<u8>, says: Says<'_>) {
    message(out, backend::ERROR_RESPONSE, |out| fields(out, says));
}

/// Appends a `NoticeResponse`.
pub fn notice(out: &mut Vec<u8>, says: Says<'_>) {
    message(out, backend::NOTICE_RESPONSE, |out| fields(out, says));
}

fn fields(out: &mut Vec<u8>, says: Says<'_>) {
    let both = [(b'S', Some(says.severity)), (b'V', Some(says.severity)), (b'C', Some(says.sqlstate))];
    let rest = [(b'M', Some(says.message)), (b'D', says.detail), (b'H', says.hint)];
    for (field, text) in both.into_iter().chain(rest) {
        if let Some(text) = text {
            out.push(field);
            c_string(out, text);
        }
    }
    out.push(0);
}

/// Appends a `ReadyForQuery`.
pub fn ready_for_query(out: &mut Vec<u8>, status: backend::TxStatus) {
    message(out, backend::READY_FOR_QUERY, |out| out.push(status.byte()));
}

/// Appends a `ParameterStatus`.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, backend::PARAMETER_STATUS, |out| {
        c_string(out, name);
        c_string(out, value);
    });
}

/// Appends a `BackendKeyData`; `key` is the process id and the secret together.
pub fn backend_key_data(out: &mut Vec<u8>, key: &[u8]) {
    message(out, backend::BACKEND_KEY_DATA, |out| out.extend_from_slice(key));
}

/// Appends a `NegotiateProtocolVersion` with the newest supported minor version and the names of unknown options.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, minor: u16, unknown: &[String]) {
    message(out, backend::NEGOTIATE_PROTOCOL_VERSION, |out| {
        out.extend_from_slice(&(3_u32 << 16 | u32::from(minor)).to_be_bytes());
        out.extend_from_slice(&(unknown.len() as u32).to_be_bytes());
        for name in unknown {
            c_string(out, name);
        }
    });
}

/// Appends an authentication request with this code.
pub fn authentication(out: &mut Vec<u8>, code: u32, rest: &[u8]) {
    message(out, backend::AUTHENTICATION, |out| {
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(rest);
    });
}

/// Appends the `ParameterDescription` of a statement without parameters.
pub fn no_parameters(out: &mut Vec<u8>) {
    message(out, backend::PARAMETER_DESCRIPTION, |out| out.extend_from_slice(&[0; 2]));
}

/// Appends a `CommandComplete`.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, backend::COMMAND_COMPLETE, |out| c_string(out, tag));
}

/// Appends a simple query.
pub fn query(out: &mut Vec<u8>, text: &str) {
    message(out, frontend::QUERY, |out| c_string(out, text));
}

/// Appends a Parse of a statement with parameters of these types.
pub fn parse(out: &mut Vec<u8>, statement: &[u8], text: &str, types: impl ExactSizeIterator<Item = u32>) {
    message(out, frontend::PARSE, |out| {
        out.extend_from_slice(statement);
        out.push(0);
        c_string(out, text);
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
    });
}

/// Appends a Bind of a statement to the unnamed portal, with parameters and results in text format.
pub fn bind<V: AsRef<[u8]>>(out: &mut Vec<u8>, statement: &str, values: impl ExactSizeIterator<Item = Option<V>>) {
    message(out, frontend::BIND, |out| {
        out.push(0);
        c_string(out, statement);
        out.extend_from_slice(&[0; 2]);
        push_values(out, values);
        out.extend_from_slice(&[0; 2]);
    });
}

/// Appends a Close of a prepared statement.
pub fn close(out: &mut Vec<u8>, statement: &str) {
    message(out, frontend::CLOSE, |out| {
        out.push(b'S');
        c_string(out, statement);
    });
}

/// Appends an Execute of the unnamed portal, without a row limit.
pub fn execute(out: &mut Vec<u8>) {
    message(out, frontend::EXECUTE, |out| out.extend_from_slice(&[0; 5]));
}

/// Appends a `PasswordMessage`.
pub fn password(out: &mut Vec<u8>, text: &str) {
    message(out, frontend::PASSWORD, |out| c_string(out, text));
}

/// Appends a `SASLInitialResponse`.
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, first: &[u8]) {
    message(out, frontend::PASSWORD, |out| {
        c_string(out, mechanism);
        out.extend_from_slice(&(first.len() as u32).to_be_bytes());
        out.extend_from_slice(first);
    });
}

/// Appends a `SASLResponse`.
pub fn sasl_response(out: &mut Vec<u8>, answer: &[u8]) {
    message(out, frontend::PASSWORD, |out| out.extend_from_slice(answer));
}

/// Appends a message without a body, such as Sync or Terminate.
pub fn bare(out: &mut Vec<u8>, kind: u8) {
    message(out, kind, |_| {});
}

/// Appends a `StartupMessage` of protocol 3.`minor`.
pub fn startup<'a>(out: &mut Vec<u8>, minor: u16, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) {
    sized(out, |out| {
        out.extend_from_slice(&(3_u32 << 16 | u32::from(minor)).to_be_bytes());
        for (name, value) in parameters {
            c_string(out, name);
            c_string(out, value);
        }
        out.push(0);
    });
}

/// Appends an `SSLRequest`.
pub fn ssl_request(out: &mut Vec<u8>) {
    sized(out, |out| out.extend_from_slice(&startup::SSL_REQUEST.to_be_bytes()));
}

/// Appends a `CancelRequest` for this key.
pub fn cancel_request(out: &mut Vec<u8>, key: &[u8]) {
    sized(out, |out| {
        out.extend_from_slice(&startup::CANCEL_REQUEST.to_be_bytes());
        out.extend_from_slice(key);
    });
}

/// A column of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column<'a> {
    /// The name.
    pub name: &'a str,
    /// The OID of the type (`catalog/pg_type.dat`).
    pub type_oid: u32,
    /// The size of the type in bytes, negative for variable length.
    pub type_bytes: i16,
    /// The format: 0 is text, 1 is binary.
    pub format: i16,
}

/// Appends a `RowDescription` of columns that belong to no table.
pub fn row_description(out: &mut Vec<u8>, columns: &[Column<'_>]) {
    message(out, backend::ROW_DESCRIPTION, |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for column in columns {
            c_string(out, column.name);
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&column.type_oid.to_be_bytes());
            out.extend_from_slice(&column.type_bytes.to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&column.format.to_be_bytes());
        }
    });
}

/// Appends a `DataRow`; `None` is SQL's NULL.
pub fn data_row<V: AsRef<[u8]>>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = Option<V>>) {
    message(out, backend::DATA_ROW, |out| {
        push_values(out, values);
    });
}

/// Appends the number of values, and each value with its length.
fn push_values<V: AsRef<[u8]>>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = Option<V>>) {
    out.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value.as_ref().map(AsRef::as_ref) {
            Some(bytes) => {
                out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                out.extend_from_slice(bytes);
            }
            None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::Notice;

    #[test]
    fn an_error_reads_back_as_it_was_written() {
        let mut out = Vec::new();
        let says = Says { severity: "FATAL", sqlstate: "08P01", message: "no", detail: Some("why"), hint: None };
        error(&mut out, says);
        assert_eq!(out[0], b'E');
        assert_eq!(u32::from_be_bytes([out[1], out[2], out[3], out[4]]) as usize, out.len() - 1);
        let read = Notice::parse(&out[5..]);
        assert_eq!((read.severity.as_str(), read.sqlstate.as_str(), read.message.as_str()), ("FATAL", "08P01", "no"));
        assert_eq!(read.detail.as_deref(), Some("why"));
    }

    #[test]
    fn a_startup_packet_reads_back_as_it_was_written() {
        let mut out = Vec::new();
        startup(&mut out, 0, [("user", "ann"), ("database", "shop")]);
        assert_eq!(startup::packet_bytes(&out), Ok(Some(out.len())));
        let startup::Startup::Session { minor: 0, parameters } = startup::Startup::parse(&out).expect("well made")
        else {
            panic!("a session")
        };
        assert_eq!(parameters[1], ("database", "shop"));
    }

    #[test]
    fn a_question_for_tls_reads_back_as_it_was_written() {
        let mut out = Vec::new();
        ssl_request(&mut out);
        assert_eq!(startup::Startup::parse(&out), Ok(startup::Startup::Ssl));
    }

    #[test]
    fn a_zero_byte_cannot_smuggle_a_second_string() {
        let mut out = Vec::new();
        query(&mut out, "select 1\0drop table t");
        assert_eq!(out.iter().filter(|&&byte| byte == 0).count(), 4);
    }
}
