//! Certificates of X.509 version 1, which the TLS library refuses and which many instructions produce: `openssl x509
//! -req` without extensions, as in PostgreSQL's own documentation.
//!
//! Always true: such a certificate is good only if one of the configured authorities has signed it directly and the
//! current time is within its validity period; it can never be an authority.
//! Not here: certificates with extensions (`rustls`).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::certificate::{Fields, key_parts, value};

/// Whether this certificate is X.509 version 1.
pub(crate) fn is_x509_v1(certificate: &[u8]) -> bool {
    Fields::of(certificate).is_some_and(|fields| fields.is_of_first_version)
}

/// Verifies such a certificate against the authorities.
pub(crate) fn verify(
    certificate: &[u8],
    authorities: &RootCertStore,
    now: UnixTime,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<(), CertificateError> {
    let fields = Fields::of(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < fields.valid.0 {
        return Err(CertificateError::NotValidYet);
    }
    if now > fields.valid.1 {
        return Err(CertificateError::Expired);
    }
    let is_signed = authorities.roots.iter().filter(|root| root.subject.as_ref() == fields.issuer).any(|root| {
        let Some((kind, key)) = key_parts(root.subject_public_key_info.as_ref()) else { return false };
        let fitting = algorithms.all.iter().filter(|algorithm| {
            algorithm.public_key_alg_id().as_ref() == kind && algorithm.signature_alg_id().as_ref() == fields.algorithm
        });
        fitting.into_iter().any(|algorithm| algorithm.verify_signature(key, fields.signed, fields.signature).is_ok())
    });
    if is_signed { Ok(()) } else { Err(CertificateError::UnknownIssuer) }
}

/// Checks in TLS 1.2 that the side that presented a certificate of any version has its key.
pub(crate) fn older_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    if is_x509_v1(certificate) {
        proof(message, certificate, signed, fitting(signed, algorithms))
    } else {
        verify_tls12_signature(message, certificate, signed, algorithms)
    }
}

/// Like [`older_signature`] in TLS 1.3, where the signature scheme determines the curve too.
pub(crate) fn newer_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    if is_x509_v1(certificate) {
        // PKCS #1 signatures are not allowed in TLS 1.3 (RFC 8446, section 4.2.3).
        let is_spoken = !matches!(
            signed.scheme,
            SignatureScheme::RSA_PKCS1_SHA256 | SignatureScheme::RSA_PKCS1_SHA384 | SignatureScheme::RSA_PKCS1_SHA512
        );
        let only = fitting(signed, algorithms).get(..1).filter(|_| is_spoken).unwrap_or_default();
        proof(message, certificate, signed, only)
    } else {
        verify_tls13_signature(message, certificate, signed, algorithms)
    }
}

fn fitting<'a>(
    signed: &DigitallySignedStruct,
    algorithms: &'a WebPkiSupportedAlgorithms,
) -> &'a [&'static dyn SignatureVerificationAlgorithm] {
    let found = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    found.map_or(&[], |(_, list)| list)
}

fn proof(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    fitting: &[&'static dyn SignatureVerificationAlgorithm],
) -> Result<HandshakeSignatureValid, Error> {
    let key = Fields::of(certificate).and_then(|fields| key_parts(value(fields.key)?));
    let (kind, key) = key.ok_or(CertificateError::BadEncoding)?;
    let mut fitting = fitting.iter().filter(|algorithm| algorithm.public_key_alg_id().as_ref() == kind);
    if fitting.any(|algorithm| algorithm.verify_signature(key, message, signed.signature()).is_ok()) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(CertificateError::BadSignature.into())
    }
}

/// The library's verifier of client certificates, extended by certificates of X.509 version 1.
#[derive(Debug)]
pub(crate) struct X509V1Clients {
    pub(crate) others: Arc<dyn ClientCertVerifier>,
    pub(crate) authorities: Arc<RootCertStore>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for X509V1Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.others.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.others.client_auth_mandatory()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !is_x509_v1(end_entity) {
            return self.others.verify_client_cert(end_entity, intermediates, now);
        }
        verify(end_entity, &self.authorities, now, &self.algorithms)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        older_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        newer_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
