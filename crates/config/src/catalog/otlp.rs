//! The types of the OTLP settings: a URL, headers, a ratio.
//!
//! Always true: neither the shown value nor a message about a mistake contains the value of a header.
//! Not here: parsing of URLs and headers (`crate::otlp`).

use std::sync::Arc;

use super::kinds::{Kind, Misfit, Range};
use crate::endpoint;
use crate::otlp::OtlpHeaders;

/// The URL of a collector; may be absent. Its query may contain a token, so no message repeats it.
pub struct Endpoint;
/// Headers that contain secrets; may be empty.
pub struct Headers;
/// A ratio from 0 to 1.
pub struct Ratio;

impl Kind for Endpoint {
    type Value = Option<Arc<endpoint::Endpoint>>;
    const NAME: &'static str = "URL";
    const IS_SECRET: bool = true;

    fn parse(text: &str, _: Option<Range>) -> Result<Self::Value, Misfit> {
        if text.is_empty() {
            return Ok(None);
        }
        let expected = |why| format!("a URL such as http://127.0.0.1:4318/v1/traces: {why}");
        let read = endpoint::Endpoint::parse(text);
        read.map(|endpoint| Some(Arc::new(endpoint))).map_err(|why| Misfit { expected: expected(why), advice: None })
    }

    fn absent() -> Self::Value {
        None
    }

    fn show(value: &Self::Value, _: Option<&str>) -> Option<String> {
        Some(value.as_ref().map_or_else(String::new, |endpoint| endpoint.to_string()))
    }
}

impl Kind for Headers {
    type Value = Arc<OtlpHeaders>;
    const NAME: &'static str = "headers";
    const IS_SECRET: bool = true;

    fn parse(text: &str, _: Option<Range>) -> Result<Self::Value, Misfit> {
        let expected = |why| format!("headers such as api-key=x,other=y: {why}");
        let read = OtlpHeaders::parse(text);
        read.map(Arc::new).map_err(|why| Misfit { expected: expected(why), advice: None })
    }

    fn absent() -> Self::Value {
        Arc::default()
    }

    fn show(value: &Self::Value, _: Option<&str>) -> Option<String> {
        Some(value.to_string())
    }
}

impl Kind for Ratio {
    type Value = f64;
    const NAME: &'static str = "ratio";

    fn parse(text: &str, _: Option<Range>) -> Result<f64, Misfit> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value = text.parse::<f64>().ok().filter(|value| is_plain && (0.0..=1.0).contains(value));
        let advice = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
        let advice = advice.map(|percent| format!("write {}", percent / 100.0));
        value.ok_or_else(|| Misfit { expected: "a ratio from 0 to 1, such as 0.1".to_owned(), advice })
    }

    fn absent() -> f64 {
        0.0
    }

    fn show(value: &f64, _: Option<&str>) -> Option<String> {
        Some(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_token_nor_a_value_of_a_header_is_shown() {
        let url = Endpoint::parse("http://a:1/b?token=secret", None).expect("a URL");
        assert_eq!(Endpoint::show(&url, Some("")).as_deref(), Some("http://a:1/b"));
        assert_eq!(Endpoint::parse("", None).expect("none"), None);
        let headers = Headers::parse("api-key=secret", None).expect("headers");
        assert_eq!(Headers::show(&headers, Some("")).as_deref(), Some("api-key=***"));
    }

    #[test]
    fn a_ratio_is_a_part_of_all() {
        for (text, value) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), (".5", 0.5), ("1.0", 1.0)] {
            assert_eq!(Ratio::parse(text, None).expect(text).to_bits(), f64::to_bits(value));
        }
        for text in ["", "1.1", "-1", "nan", "inf", "1e-3", "10%", "2"] {
            assert!(Ratio::parse(text, None).is_err(), "{text}");
        }
        let Err(told) = Ratio::parse("10 %", None) else { panic!("it is none") };
        assert_eq!(told.advice.as_deref(), Some("write 0.1"));
    }
}
