//! TLS with servers: how much of their certificate is checked, and which certificate they see.
//!
//! Always true: whatever is checked, a server proves that it has the key of its certificate.
//! Not here: reading files (`control`).

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::Named;
use super::offer::{ALPN, authorities, certificates, own, private_key};
use super::terms::{Terms, TermsText};
use super::x509_v1;

/// How much of a server's certificate is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// Nothing: the bytes are encrypted, but the server is not authenticated (`prefer`, `require`).
    Nothing,
    /// The signature of an authority (`verify-ca`).
    Chain,
    /// The signature, and that the certificate names the host (`verify-full`).
    ChainAndName,
}

/// The parts of a [`Demand`]; certificates and keys as PEM.
#[derive(Clone, Copy)]
pub struct DemandParts<'a> {
    /// How much is checked.
    pub check: Check,
    /// The authorities whose server certificates are trusted.
    pub authorities: Option<&'a [u8]>,
    /// Our certificate and its private key, if servers may ask for one.
    pub own: Option<(&'a [u8], &'a [u8])>,
    /// Versions, ciphers and curves.
    pub terms: TermsText<'a>,
}

/// The TLS configuration for connections to servers.
pub struct Demand {
    pub(crate) config: Arc<ClientConfig>,
}

impl Demand {
    /// Checks the parts and combines them. `None` if the settings leave no protocol version.
    ///
    /// # Errors
    /// Says what is wrong, without quoting the key.
    pub fn new(parts: &DemandParts<'_>) -> Result<Option<Self>, String> {
        let terms = Terms::read(&parts.terms)?;
        if terms.are_empty() {
            return Ok(None);
        }
        let provider = Arc::new(terms.provider);
        let verifier = Verifier::new(parts, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&terms.versions)
            .map_err(|error| error.to_string())?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match parts.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let own = own(certificates(certificate)?, private_key(key)?, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        // PostgreSQL resumes no TLS sessions.
        config.resumption = Resumption::disabled();
        Ok(Some(Self { config: Arc::new(config) }))
    }

    /// The configuration without ALPN, for servers that do not speak PostgreSQL's protocol.
    #[must_use]
    pub fn without_alpn(&self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols.clear();
        Arc::new(config)
    }
}

/// The name of a host for the handshake. A host that is no valid name becomes an address that nobody has.
pub(crate) fn server_name(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_owned())
        .unwrap_or(ServerName::IpAddress(IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED)))
}

/// Checks a server's certificate as far as `check` demands.
#[derive(Debug)]
struct Verifier {
    check: Check,
    /// Checks the chain; `None` for [`Check::Nothing`].
    chain: Option<Arc<WebPkiServerVerifier>>,
    authorities: Arc<RootCertStore>,
    /// The certificates that the operator trusts directly: a server may present one that is its own authority.
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(parts: &DemandParts<'_>, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let algorithms = provider.signature_verification_algorithms;
        let (chain, authorities, trusted) = match (parts.check, parts.authorities) {
            (Check::Nothing, _) => (None, Arc::new(RootCertStore::empty()), Vec::new()),
            (_, None) => return Err("server certificates are to be verified, but no authorities are given".to_owned()),
            (_, Some(pem)) => {
                let store = Arc::new(authorities(pem)?);
                let built = WebPkiServerVerifier::builder_with_provider(store.clone(), provider.clone()).build();
                (Some(built.map_err(|error| error.to_string())?), store, certificates(pem)?)
            }
        };
        Ok(Self { check: parts.check, chain, authorities, trusted, algorithms })
    }

    fn names(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
        match name {
            ServerName::DnsName(host) => Named::of(certificate).has_common_name(host.as_ref()),
            ServerName::IpAddress(address) => {
                let address: std::net::IpAddr = (*address).into();
                Named::of(certificate).has_common_name(&address.to_string())
            }
            _ => false,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        if x509_v1::is_x509_v1(end_entity) {
            let is_trusted = self.trusted.iter().any(|trusted| trusted == end_entity);
            match x509_v1::verify(end_entity, &self.authorities, now, &self.algorithms) {
                Err(CertificateError::UnknownIssuer) if is_trusted => {}
                verified => verified?,
            }
            return if self.check == Check::Chain || self.names(end_entity, server_name) {
                Ok(ServerCertVerified::assertion())
            } else {
                Err(CertificateError::NotValidForName.into())
            };
        }
        let verified = chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Chain || self.names(end_entity, server_name) => {
                // The library checks the chain before the name, so the chain is good.
                Ok(ServerCertVerified::assertion())
            }
            // A self-signed certificate is good when the operator has named this very certificate.
            Err(Error::InvalidCertificate(error))
                if is_about_authority(&error) && self.trusted.iter().any(|trusted| trusted == end_entity) =>
            {
                if self.check == Check::Chain {
                    return Ok(ServerCertVerified::assertion());
                }
                let parsed = rustls::server::ParsedCertificate::try_from(end_entity)?;
                match rustls::client::verify_server_name(&parsed, server_name) {
                    Err(error) if !self.names(end_entity, server_name) => Err(error),
                    _ => Ok(ServerCertVerified::assertion()),
                }
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        x509_v1::older_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        x509_v1::newer_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether the error says that no authority has signed the certificate, which may itself be an authority's.
fn is_about_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::UnknownIssuer | CertificateError::Other(_))
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand").finish_non_exhaustive()
    }
}
