//! Bytes that an old process hands over to a new one, written as base64 text because the parcel is text.
//!
//! Always true: bytes are read back exactly as they were written.
//! Not here: what is handed over (`prepared::pack`, `worker::handover::parcel`).

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are serialized as base64.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Packed(pub Vec<u8>);

impl From<&[u8]> for Packed {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<&Rc<[u8]>> for Packed {
    fn from(bytes: &Rc<[u8]>) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<Packed> for Rc<[u8]> {
    fn from(Packed(bytes): Packed) -> Self {
        bytes.into()
    }
}

/// Shows the length only: the bytes may be a secret.
impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({} bytes)", self.0.len())
    }
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}
