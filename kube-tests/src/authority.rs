//! Certificates, and kubeconfigs in the form that kubeadm gives a kubelet.

use std::path::PathBuf;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::folder::Folder;

/// A certificate authority of the cluster's own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut wanted = CertificateParams::default();
        wanted.distinguished_name.push(DnType::CommonName, "kube-tests");
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self(CertifiedIssuer::self_signed(wanted, KeyPair::generate()?)?))
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of a server on loopback, in one text.
    pub(crate) fn server(&self) -> Result<String> {
        let names = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        self.sign(CertificateParams::new(names)?, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Certificate and key of a user of this group, in one text.
    fn user(&self, name: &str, group: &str) -> Result<String> {
        let mut wanted = CertificateParams::default();
        wanted.distinguished_name.push(DnType::CommonName, name);
        wanted.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(wanted, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut wanted: CertificateParams, purpose: ExtendedKeyUsagePurpose) -> Result<String> {
        wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wanted.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = wanted.signed_by(&key, &self.0)?;
        Ok(certificate.pem() + &key.serialize_pem())
    }

    /// A kubeconfig beside a file with certificate and key, to which a `current` link points, as on a real node.
    pub(crate) fn kubeconfig(
        &self,
        folder: &Folder,
        server: &str,
        user: &str,
        group: &str,
    ) -> Result<PathBuf> {
        let name = user.replace(':', "-");
        let current = folder.path().join(format!("{name}-current.pem"));
        if current.exists() {
            return Ok(folder.path().join(format!("{name}.kubeconfig")));
        }
        folder.write(&format!("{name}-1.pem"), &self.user(user, group)?)?;
        std::os::unix::fs::symlink(format!("{name}-1.pem"), &current)?;
        let (pem, authority) = (current.display(), folder.path().join("ca.pem"));
        let authority = authority.display();
        folder.write(
            &format!("{name}.kubeconfig"),
            &format!(
                "apiVersion: v1
kind: Config
clusters:
- name: kube-tests
  cluster: {{server: '{server}', certificate-authority: '{authority}'}}
users:
- name: '{user}'
  user: {{client-certificate: '{pem}', client-key: '{pem}'}}
contexts:
- name: default
  context: {{cluster: kube-tests, user: '{user}'}}
current-context: default
"
            ),
        )
    }
}

/// The keys that sign and check the tokens of ServiceAccounts: private and public.
pub(crate) fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
