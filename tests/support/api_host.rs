//! A host whose kubeconfig leads to a made-up API server, and certificates for both.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;

use cgroup2_migrate::host::fake::{FakeInit, FakeRunner};
use cgroup2_migrate::host::fake_mounts::FakeMounts;
use cgroup2_migrate::host::{Host, RootedFs, SystemClock};
use cgroup2_migrate::node::ApiError;
use cgroup2_migrate::node::client::Client;
use serde_json::{Value, json};

use crate::http::{Reply, Server};

pub(crate) const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";

/// A host with files, and the programs that a kubeconfig may name.
pub(crate) struct Node<'a> {
    pub(crate) tree: tempfile::TempDir,
    fs: RootedFs,
    pub(crate) runner: FakeRunner<'a>,
    init: FakeInit,
    mounts: FakeMounts,
}

impl<'a> Node<'a> {
    pub(crate) fn new(runner: FakeRunner<'a>) -> Self {
        let tree = tempfile::tempdir().unwrap();
        let fs = RootedFs::new(tree.path());
        Self { tree, fs, runner, init: FakeInit::new(), mounts: FakeMounts::default() }
    }

    pub(crate) fn host(&self) -> Host<'_> {
        Host {
            fs: &self.fs,
            runner: &self.runner,
            clock: &SystemClock,
            mounts: &self.mounts,
            init: &self.init,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.tree.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn open(&self) -> Result<Client<'_>, ApiError> {
        Client::open(self.host(), Path::new(KUBECONFIG))
    }

    pub(crate) fn refusal(&self) -> String {
        match self.open() {
            Err(ApiError::Unusable(why)) => why,
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("it was opened"),
        }
    }
}

pub(crate) fn kubeconfig(server: &str, cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: default\n\
         clusters: [{{name: c, cluster: {{server: '{server}'{cluster}}}}}]\n\
         users: [{{name: 'system:node:w0', user: {{{user}}}}}]\n\
         contexts: [{{name: default, context: {{cluster: c, user: 'system:node:w0'}}}}]\n"
    )
}

/// A node whose kubeconfig leads to this server, and has a token.
pub(crate) fn node_of(server: &Server) -> Node<'static> {
    let node = Node::new(FakeRunner::new());
    node.write(KUBECONFIG, &kubeconfig(&format!("http://{}", server.address), "", "token: t0ken"));
    node
}

pub(crate) fn status(code: u16, reason: &str, message: &str, details: Value) -> Reply {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
        "details": details,
    });
    Reply::new(code, body)
}

/// A certificate authority, and what it signs: certificate and key in one text.
pub(crate) struct Authority(pub(crate) rcgen::CertifiedIssuer<'static, rcgen::KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut wanted = rcgen::CertificateParams::default();
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        wanted.distinguished_name.push(rcgen::DnType::CommonName, name);
        wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(rcgen::CertifiedIssuer::self_signed(wanted, rcgen::KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn client(&self, years: std::ops::Range<i32>) -> String {
        let mut wanted = rcgen::CertificateParams::default();
        wanted.distinguished_name.push(rcgen::DnType::CommonName, "system:node:w0");
        wanted.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        wanted.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        wanted.signed_by(&key, &self.0).unwrap().pem() + &key.serialize_pem()
    }

    pub(crate) fn server(&self, name: &str) -> Arc<rustls::ServerConfig> {
        let wanted = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = wanted.signed_by(&key, &self.0).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap())
    }
}
