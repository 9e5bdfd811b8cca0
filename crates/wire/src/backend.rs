//! The kinds of messages that a server sends, and parsers for the few bodies that a pooler reads.

use serde::{Deserialize, Serialize};

/// Any authentication request, and `AuthenticationOk`.
pub const AUTHENTICATION: u8 = b'R';
/// `BackendKeyData`: the key that a cancel request must carry.
pub const BACKEND_KEY_DATA: u8 = b'K';
/// `BindComplete`.
pub const BIND_COMPLETE: u8 = b'2';
/// `CloseComplete`.
pub const CLOSE_COMPLETE: u8 = b'3';
/// `CommandComplete`.
pub const COMMAND_COMPLETE: u8 = b'C';
/// `CopyBothResponse`.
pub const COPY_BOTH_RESPONSE: u8 = b'W';
/// `CopyInResponse`.
pub const COPY_IN_RESPONSE: u8 = b'G';
/// `CopyOutResponse`.
pub const COPY_OUT_RESPONSE: u8 = b'H';
/// `DataRow`.
pub const DATA_ROW: u8 = b'D';
/// `EmptyQueryResponse`.
pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
/// `ErrorResponse`.
pub const ERROR_RESPONSE: u8 = b'E';
/// `FunctionCallResponse`.
pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
/// `NegotiateProtocolVersion`.
pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
/// `NoData`.
pub const NO_DATA: u8 = b'n';
/// `NoticeResponse`.
pub const NOTICE_RESPONSE: u8 = b'N';
/// `NotificationResponse`.
pub const NOTIFICATION_RESPONSE: u8 = b'A';
/// `ParameterDescription`.
pub const PARAMETER_DESCRIPTION: u8 = b't';
/// `ParameterStatus`.
pub const PARAMETER_STATUS: u8 = b'S';
/// `ParseComplete`.
pub const PARSE_COMPLETE: u8 = b'1';
/// `PortalSuspended`.
pub const PORTAL_SUSPENDED: u8 = b's';
/// `ReadyForQuery`.
pub const READY_FOR_QUERY: u8 = b'Z';
/// `RowDescription`.
pub const ROW_DESCRIPTION: u8 = b'T';

/// The transaction status of a `ReadyForQuery`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum TxStatus {
    /// `I`: outside a transaction block.
    #[default]
    Idle,
    /// `T`: inside a transaction block.
    Open,
    /// `E`: inside a failed transaction block, which has to be ended.
    Failed,
}

impl TxStatus {
    /// Parses the body of a `ReadyForQuery`.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        match body {
            b"I" => Some(Self::Idle),
            b"T" => Some(Self::Open),
            b"E" => Some(Self::Failed),
            _ => None,
        }
    }

    /// The byte on the wire.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::Open => b'T',
            Self::Failed => b'E',
        }
    }
}

/// An authentication request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Authentication<'a> {
    /// `AuthenticationOk`.
    Ok,
    /// The cleartext password.
    Cleartext,
    /// An MD5 hash of the password with this salt.
    Md5 {
        /// The salt.
        salt: [u8; 4],
    },
    /// SASL with one of these mechanisms.
    Sasl {
        /// The list as sent: zero-terminated names, ended by a zero byte.
        mechanisms: &'a [u8],
    },
    /// A SASL challenge of the server.
    SaslContinue(&'a [u8]),
    /// The final SASL message of the server.
    SaslFinal(&'a [u8]),
    /// An unsupported request, by its code.
    Other(u32),
}

impl<'a> Authentication<'a> {
    /// Parses the body of an authentication request.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let (code, rest) = body.split_first_chunk::<4>()?;
        Some(match u32::from_be_bytes(*code) {
            0 => Self::Ok,
            3 => Self::Cleartext,
            5 => Self::Md5 { salt: *rest.first_chunk::<4>()? },
            10 => Self::Sasl { mechanisms: rest },
            11 => Self::SaslContinue(rest),
            12 => Self::SaslFinal(rest),
            other => Self::Other(other),
        })
    }
}

/// Parses the body of a `ParameterStatus`: name and value.
#[must_use]
pub fn parameter_status(body: &[u8]) -> Option<(&str, &str)> {
    let (name, rest) = c_string(body)?;
    let (value, rest) = c_string(rest)?;
    rest.is_empty().then_some((name, value))
}

/// Whether an `ErrorResponse` with this body reports that a prepared statement would now have another result type
/// (`cached plan must not change result type`, in any language; `utils/cache/plancache.c`).
#[must_use]
pub fn is_plan_outdated(body: &[u8]) -> bool {
    let fields = || body.split(|&byte| byte == 0);
    fields().any(|field| field == b"C0A000") && fields().any(|field| field == b"RRevalidateCachedQuery")
}

/// Whether an `ErrorResponse` with this body reports that the strings of a message could not be converted from the client's
/// encoding, so that the message has done nothing at all (`pq_getmsgstring` in PostgreSQL's `libpq/pqformat.c`). The same
/// error of a literal in a text has a position.
#[must_use]
pub fn is_conversion_failed(body: &[u8]) -> bool {
    let fields = || body.split(|&byte| byte == 0);
    let is_of_conversion = |field: &[u8]| {
        // Newer minor versions have `report_invalid_encoding_int`.
        field.starts_with(b"Rreport_invalid_encoding") || field == b"Rreport_untranslatable_char"
    };
    fields().any(is_of_conversion) && !fields().any(|field| field.first() == Some(&b'P'))
}

/// Parses the values of a `DataRow`; a value of `None` is NULL.
#[must_use]
pub fn data_row(body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let (_count, mut rest) = body.split_first_chunk::<2>()?;
    let mut values = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        let (value, after) = after.split_at_checked(usize::try_from(length).unwrap_or_default())?;
        values.push((length >= 0).then_some(value));
        rest = after;
    }
    let count = u16::try_from(values.len()).ok()?;
    (rest.is_empty() && count.to_be_bytes() == body[..2]).then_some(values)
}

/// Splits a zero-terminated string off the front.
#[must_use]
pub fn c_string(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_of_three_bytes() {
        for status in [TxStatus::Idle, TxStatus::Open, TxStatus::Failed] {
            assert_eq!(TxStatus::parse(&[status.byte()]), Some(status));
        }
        assert_eq!(TxStatus::parse(b"X"), None);
        assert_eq!(TxStatus::parse(b""), None);
        assert_eq!(TxStatus::parse(b"II"), None);
    }

    #[test]
    fn a_parameter_is_two_strings_and_nothing_else() {
        assert_eq!(parameter_status(b"TimeZone\0UTC\0"), Some(("TimeZone", "UTC")));
        assert_eq!(parameter_status(b"TimeZone\0UTC"), None);
        assert_eq!(parameter_status(b"TimeZone\0UTC\0x"), None);
    }

    #[test]
    fn a_row_has_as_many_values_as_it_says() {
        let body = b"\0\x03\0\0\0\x01a\xff\xff\xff\xff\0\0\0\0";
        assert_eq!(data_row(body), Some(vec![Some(&b"a"[..]), None, Some(b"")]));
        assert_eq!(data_row(b"\0\0"), Some(vec![]));
        for bad in [&b""[..], b"\0", b"\0\x01", b"\0\0\xff\xff\xff\xff", b"\0\x01\0\0\0\x02a", b"\0\x01\0\0\0\x01ab"] {
            assert_eq!(data_row(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_torn_request_for_authentication_is_none() {
        assert_eq!(Authentication::parse(&[0, 0, 0]), None);
        assert_eq!(Authentication::parse(&[0, 0, 0, 5, 1, 2, 3]), None);
        assert_eq!(Authentication::parse(&[0, 0, 0, 5, 1, 2, 3, 4]), Some(Authentication::Md5 { salt: [1, 2, 3, 4] }));
        assert_eq!(Authentication::parse(&[0, 0, 0, 9]), Some(Authentication::Other(9)));
    }
}
