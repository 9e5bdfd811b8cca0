//! The fields of `ErrorResponse` and `NoticeResponse` (PostgreSQL manual, "Error and Notice Message Fields").

/// The fields that a pooler reads. Bytes that are not UTF-8 are replaced.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notice {
    /// The untranslated severity (`V`), or if that is missing the possibly translated one (`S`).
    pub severity: String,
    /// SQLSTATE.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
    /// Detail, if any.
    pub detail: Option<String>,
    /// Hint, if any.
    pub hint: Option<String>,
}

impl Notice {
    /// Parses the body of an `ErrorResponse` or `NoticeResponse`. Fields that cannot be parsed stay empty, because an error must
    /// not be lost when it is malformed.
    #[must_use]
    pub fn parse(body: &[u8]) -> Self {
        let mut notice = Self::default();
        let mut rest = body;
        while let Some((&field, after)) = rest.split_first() {
            if field == 0 {
                break;
            }
            let end = after.iter().position(|&byte| byte == 0).unwrap_or(after.len());
            let text = String::from_utf8_lossy(&after[..end]).into_owned();
            match field {
                b'V' => notice.severity = text,
                b'S' if notice.severity.is_empty() => notice.severity = text,
                b'C' => notice.sqlstate = text,
                b'M' => notice.message = text,
                b'D' => notice.detail = Some(text),
                b'H' => notice.hint = Some(text),
                _ => {}
            }
            rest = after.get(end + 1..).unwrap_or_default();
        }
        notice
    }

    /// Whether the server closes the connection after this message.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_untranslated_severity_wins() {
        let notice = Notice::parse(b"SFEHLER\0VERROR\0C42P01\0Mno such table\0Hcreate it\0\0");
        assert_eq!(notice.severity, "ERROR");
        assert_eq!(notice.sqlstate, "42P01");
        assert_eq!(notice.message, "no such table");
        assert_eq!(notice.hint.as_deref(), Some("create it"));
        assert!(!notice.is_fatal());
    }

    #[test]
    fn an_error_that_is_cut_is_read_as_far_as_it_goes() {
        assert_eq!(Notice::parse(b"VFATAL\0C570").sqlstate, "570");
        assert_eq!(Notice::parse(b""), Notice::default());
    }
}
