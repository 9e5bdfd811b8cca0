//! TLS with clients: our certificate, and whether clients have to present theirs.
//!
//! Always true: a certificate that a client presents is verified, demanded or not, whenever authorities are configured;
//! no session is resumed, so that what a reload removes is gone.
//! Not here: reading files (`control`).

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::{self, Fields};
use super::terms::{Terms, TermsText};
use super::x509_v1::X509V1Clients;

/// The parts of an [`Offer`]; certificates and keys as PEM.
#[derive(Clone, Copy)]
pub struct OfferParts<'a> {
    /// Our certificate, and the intermediate ones up to its authority.
    pub certificate: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
    /// The authorities whose client certificates are trusted, if clients are asked for any.
    pub authorities: Option<&'a [u8]>,
    /// Whether a client without a certificate is refused.
    pub demands_certificate: bool,
    /// Versions, ciphers and curves.
    pub terms: TermsText<'a>,
}

/// The TLS configuration for clients.
pub struct Offer {
    pub(crate) config: Arc<ServerConfig>,
    /// The hash of our certificate for channel binding.
    pub(crate) end_point: Option<Box<[u8]>>,
}

impl Offer {
    /// Checks the parts and combines them.
    ///
    /// # Errors
    /// Says what is wrong, without quoting the key.
    pub fn new(parts: &OfferParts<'_>) -> Result<Self, String> {
        let terms = Terms::read(&parts.terms)?;
        if terms.are_empty() {
            return Err(format!("none of the protocols is available: {}", parts.terms.protocols));
        }
        let chain = certificates(parts.certificate)?;
        let end_point = chain.first().and_then(|leaf| certificate::end_point(leaf));
        let key = private_key(parts.key)?;
        let provider = Arc::new(terms.provider);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&terms.versions)
            .map_err(|error| error.to_string())?;
        let builder = match parts.authorities {
            None if parts.demands_certificate => {
                return Err("client certificates are to be verified, but no authorities are given".to_owned());
            }
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let authorities = Arc::new(authorities(pem)?);
                let algorithms = provider.signature_verification_algorithms;
                let others = WebPkiClientVerifier::builder_with_provider(authorities.clone(), provider.clone());
                let others = if parts.demands_certificate { others } else { others.allow_unauthenticated() };
                let others = others.build().map_err(|error| error.to_string())?;
                builder.with_client_cert_verifier(Arc::new(X509V1Clients { others, authorities, algorithms }))
            }
        };
        let own = own(chain, key, &provider)?;
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.ignore_client_order = true;
        // libpq never resumes a session, and a resumed session would outlive a change of authorities.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), end_point })
    }

    /// The configuration for HTTP: this certificate, these authorities and ciphers, and HTTP's own name in ALPN.
    #[must_use]
    pub fn for_http(&self) -> Arc<ServerConfig> {
        let mut config = (*self.config).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

/// Combines a certificate with its key. The library's own check cannot read certificates of X.509 version 1.
pub(crate) fn own(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let key = provider.key_provider.load_private_key(key).map_err(|error| error.to_string())?;
    let shown = chain.first().and_then(|leaf| Fields::of(leaf)).map(|fields| fields.key);
    let shown = shown.ok_or("bad certificate: it cannot be read")?;
    if key.public_key().is_some_and(|public| public.as_ref() != shown) {
        return Err("the private key does not belong to the certificate".to_owned());
    }
    Ok(CertifiedKey::new(chain, key))
}

/// All certificates of a PEM file, at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(list) if list.is_empty() => Err("no certificate found".to_owned()),
        Ok(list) => Ok(list),
        Err(error) => Err(format!("bad certificate: {error}")),
    }
}

/// The private key of a PEM file. Errors never quote the file.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if pem.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) {
        return Err("the private key is encrypted, and nobody is there to be asked for its password".to_owned());
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| "no private key found".to_owned())
}

/// The authorities of a PEM file.
pub(crate) fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for authority in certificates(pem)? {
        store.add(authority).map_err(|error| format!("bad certificate of an authority: {error}"))?;
    }
    Ok(store)
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").finish_non_exhaustive()
    }
}

/// The protocol's name in ALPN (PostgreSQL 17).
pub(crate) const ALPN: &[u8] = b"postgresql";
/// The mark of an encrypted key: `BEGIN ENCRYPTED PRIVATE KEY`, or `Proc-Type: 4,ENCRYPTED`.
const ENCRYPTED: &[u8] = b"ENCRYPTED";
