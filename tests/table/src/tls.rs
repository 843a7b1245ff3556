//! A certificate authority of the table's own, and the certificate it signs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// The authority's certificate, and what the server needs.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) ca_pem: String,
    pub(crate) ca_file: CaFile,
    pub(crate) config: Arc<ServerConfig>,
}

/// A file that goes away with the table.
#[derive(Debug)]
pub(crate) struct CaFile(PathBuf);

impl CaFile {
    fn write(pem: &str) -> anyhow::Result<Self> {
        let name = format!("cozyvtt-table-{}.pem", uuid::Uuid::new_v4());
        let path = std::env::temp_dir().join(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let guard = Self(path);
        file.write_all(pem.as_bytes())?;
        Ok(guard)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for CaFile {
    fn drop(&mut self) {
        // Somebody may have tidied it away already.
        std::fs::remove_file(&self.0).ok();
    }
}

/// Makes an authority and a certificate for loopback.
pub(crate) fn make() -> anyhow::Result<Tls> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "CozyVTT practice table authority");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_key = KeyPair::generate()?;
    let ca_pem = params.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(params, ca_key);

    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "CozyVTT practice table");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls {
        ca_file: CaFile::write(&ca_pem)?,
        ca_pem,
        config: Arc::new(config),
    })
}
