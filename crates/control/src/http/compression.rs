//! Compression of an answer with gzip (RFC 9110, sections 8.4.1.3 and 12.5.3), for the clients that accept it.

use std::io::Write as _;

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Returns whether a client accepts an answer compressed with gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    let mut accepts_any = false;
    for coding in values.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f32>);
        let is_wanted = weight.is_ok_and(|weight| weight > 0.0);
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            return is_wanted;
        }
        accepts_any |= name == "*" && is_wanted;
    }
    accepts_any
}

/// Compresses a text; the fastest level, because `/metrics` repeats itself so much that a higher one gains little.
pub(crate) fn gzip(text: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    // Writing to a Vec does not fail.
    let _ = encoder.write_all(text.as_bytes());
    encoder.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn accepts(values: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT_ENCODING, value.parse().expect("a value"));
        }
        accepts_gzip(&headers)
    }

    #[test]
    fn gzip_is_accepted_when_it_is_named_with_a_weight_above_zero() {
        for accepted in ["gzip", "GZIP", "deflate, gzip;q=0.5", "br;q=1.0, x-gzip", "*", "br, *;q=0.1", "gzip ; q=1"] {
            assert!(accepts(&[accepted]), "{accepted}");
        }
        for refused in ["", "identity", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "gzipped", "gzip;q=a"] {
            assert!(!accepts(&[refused]), "{refused}");
        }
        assert!(!accepts(&[]));
        assert!(accepts(&["br", "gzip"]), "the header may come in several lines");
    }

    #[test]
    fn what_was_compressed_is_what_was_said() {
        let text = "trunkline_transactions_total{database=\"d\"} 5.0\n".repeat(1000);
        let packed = gzip(&text);
        assert!(packed.len() < text.len() / 20, "{} bytes", packed.len());
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).expect("a text");
        assert_eq!(unpacked, text);
    }
}
