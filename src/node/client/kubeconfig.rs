//! A kubeconfig and all that it leads to, read into what the client library needs.
//!
//! The library would read the files itself, once, past the seam. Here each is remembered with its content, so that it
//! is seen when the kubelet renews its certificate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Uri};
use jiff::{SignedDuration, Timestamp};
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::certificate::Certificate;
use super::{plugin, proxy};
use crate::host::{Host, sha256};
use crate::node::api::ApiError;

/// A new connection has to stand by then.
const CONNECT: Duration = Duration::from_secs(10);
/// A write that does not get on for so long has failed.
const WRITE: Duration = Duration::from_secs(30);
/// A read that does not: longer than any silence of a watch, see `feed`.
const READ: Duration = Duration::from_secs(180);

/// A token is not used in the last part of its life.
const SPARE: SignedDuration = SignedDuration::from_secs(60);

const USER_AGENT: &str = concat!("cgroup2-migrate/", env!("CARGO_PKG_VERSION"));

/// All that is needed to speak to the API server. There is no `Debug`: it holds secrets.
pub(super) struct Access {
    pub(super) config: kube::Config,
    pub(super) certificate: Option<Certificate>,
    /// How the kubeconfig calls the user.
    pub(super) user: String,
    /// The files it was made of, and the digests of what was in them.
    files: Vec<(PathBuf, String)>,
    expires: Option<Timestamp>,
}

impl Access {
    /// Reads a kubeconfig and everything it leads to, runs its plugin if it has one.
    pub(super) fn read(host: Host<'_>, path: &Path) -> Result<Self, ApiError> {
        let wrong =
            |what| ApiError::Unusable(format!("the kubeconfig {} cannot be used: {what}", path.display()));
        let mut reader = Reader { host, path, files: Vec::new() };
        reader.access().map_err(wrong)
    }

    /// True if a file is not what it was, or a token is about to end.
    pub(super) fn is_outdated(&self, host: Host<'_>) -> bool {
        // A file that cannot be read this very moment is being replaced: it is looked at again before the next request.
        let differs =
            |(path, digest): &(PathBuf, String)| host.fs.read(path).is_ok_and(|now| sha256(&now) != *digest);
        self.expires.is_some_and(|expires| host.clock.now() + SPARE > expires)
            || self.files.iter().any(differs)
    }
}

struct Reader<'a> {
    host: Host<'a>,
    path: &'a Path,
    files: Vec<(PathBuf, String)>,
}

impl Reader<'_> {
    fn access(&mut self) -> Result<Access, String> {
        let text = self.file("it", self.path.to_path_buf())?;
        let (cluster, user_name, user) = chosen(&text)?;
        let server = server(&cluster)?;
        let authority = self.part(
            "the certificate authority",
            cluster.certificate_authority_data.as_deref(),
            cluster.certificate_authority.as_deref(),
        )?;
        let proxy = proxy::proxy(&server, cluster.proxy_url.as_deref(), &proxy::variable)?;
        let mut config = kube::Config::new(server);
        config.root_cert = authority.as_deref().map(certificates).transpose()?;
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
        config.tls_server_name.clone_from(&cluster.tls_server_name);
        config.proxy_url = proxy;
        limit(&mut config);
        let (auth_info, certificate, expires) = self.user(user, &cluster, authority.as_deref())?;
        config.auth_info = auth_info;
        Ok(Access { config, certificate, user: user_name, files: std::mem::take(&mut self.files), expires })
    }

    fn user(
        &mut self,
        mut user: AuthInfo,
        cluster: &Cluster,
        authority: Option<&[u8]>,
    ) -> Result<(AuthInfo, Option<Certificate>, Option<Timestamp>), String> {
        if let Some(provider) = &user.auth_provider {
            let name = &provider.name;
            return Err(format!(
                "its auth-provider {name} is of a kind that Kubernetes gave up with 1.26; use exec"
            ));
        }
        if let Some(path) = user.token_file.take() {
            let token = self.file("the token", self.beside(&path))?;
            user.token = Some(String::from_utf8_lossy(&token).trim().to_owned().into());
        }
        let mut certificate = self.certificate_of(&mut user)?;
        let mut expires = None;
        if let Some(exec) = user.exec.take() {
            let issued = plugin::run(self.host.runner, &self.with_path(exec), cluster, authority)?;
            expires = issued.expiration_timestamp;
            user.token = issued.token.map(Into::into).or(user.token);
            if let (Some(pem), Some(key)) = (issued.client_certificate_data, issued.client_key_data) {
                certificate = Some(self.in_force("its plugin", pem.as_bytes())?);
                user.client_certificate_data = Some(STANDARD.encode(pem));
                user.client_key_data = Some(STANDARD.encode(key).into());
            }
        }
        Ok((user, certificate, expires))
    }

    /// Puts certificate and key themselves where their paths were.
    fn certificate_of(&mut self, user: &mut AuthInfo) -> Result<Option<Certificate>, String> {
        let path = user.client_certificate.take();
        let origin = path.clone().unwrap_or("client-certificate-data".to_owned());
        let pem =
            self.part("the client certificate", user.client_certificate_data.as_deref(), path.as_deref())?;
        let Some(pem) = pem else { return Ok(None) };
        let certificate = self.in_force(&origin, &pem)?;
        user.client_certificate_data = Some(STANDARD.encode(pem));
        if let (Some(path), None) = (user.client_key.take(), &user.client_key_data) {
            let key = self.file("the client key", self.beside(&path))?;
            user.client_key_data = Some(STANDARD.encode(key).into());
        }
        Ok(Some(certificate))
    }

    fn in_force(&self, origin: &str, pem: &[u8]) -> Result<Certificate, String> {
        let certificate = Certificate::first_of(pem).map_err(|what| format!("{origin}: {what}"))?;
        match certificate.fault(self.host.clock.now()) {
            Some(fault) => Err(format!("{origin}: {fault}")),
            None => Ok(certificate),
        }
    }

    /// What stands in the kubeconfig itself comes before a file, as everywhere.
    fn part(
        &mut self,
        what: &str,
        data: Option<&str>,
        path: Option<&str>,
    ) -> Result<Option<Vec<u8>>, String> {
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            let decoded = STANDARD.decode(data.trim());
            return decoded.map(Some).map_err(|error| format!("{what} in it is no base64 ({error})"));
        }
        let path = path.filter(|path| !path.is_empty());
        path.map(|path| self.file(what, self.beside(path))).transpose()
    }

    fn file(&mut self, what: &str, path: PathBuf) -> Result<Vec<u8>, String> {
        let bytes = self.host.fs.read(&path).map_err(|error| not_read(what, &path, &error))?;
        self.files.push((path, sha256(&bytes)));
        Ok(bytes)
    }

    fn beside(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).join(path)
    }

    fn with_path(&self, mut exec: kube::config::ExecConfig) -> kube::config::ExecConfig {
        // One without a slash is looked for in the PATH.
        let beside =
            exec.command.as_deref().filter(|command| command.contains('/')).map(|path| self.beside(path));
        if let Some(path) = beside {
            exec.command = Some(path.to_string_lossy().into_owned());
        }
        exec
    }
}

fn not_read(what: &str, path: &Path, error: &crate::host::FsError) -> String {
    let hint = match error.is_not_found() {
        true => "; has the kubelet joined the cluster yet?",
        false => "",
    };
    let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{what} cannot be read from {}: {why}{hint}", path.display())
}

/// The cluster of the current context, the name of its user, and the user.
fn chosen(text: &[u8]) -> Result<(Cluster, String, AuthInfo), String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not in UTF-8")?;
    let parsed = Kubeconfig::from_yaml(text).map_err(|error| not_understood(&error))?;
    let name = parsed.current_context.as_ref().ok_or("it has no current-context")?;
    let context = parsed.contexts.iter().find(|context| context.name == *name);
    let context = context.and_then(|context| context.context.as_ref());
    let context = context.ok_or_else(|| format!("it has no context {name}"))?;
    let cluster = parsed.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.and_then(|cluster| cluster.cluster.clone());
    let cluster = cluster.ok_or_else(|| format!("it has no cluster {}", context.cluster))?;
    let user_name = context.user.clone().unwrap_or_default();
    let user = parsed.auth_infos.iter().find(|user| user.name == user_name);
    let user = user.and_then(|user| user.auth_info.clone());
    let user = user.ok_or_else(|| format!("it has no user {user_name}"))?;
    Ok((cluster, user_name, user))
}

/// The parser would quote the lines around the fault, and with them a token or a key.
fn not_understood(error: &KubeconfigError) -> String {
    let location = if let KubeconfigError::Parse(error) = error { error.location() } else { None };
    let place = location.map(|place| format!(" (line {}, column {})", place.line(), place.column()));
    format!("it is not understood{}", place.unwrap_or_default())
}

fn server(cluster: &Cluster) -> Result<Uri, String> {
    let text = cluster.server.clone().ok_or("its cluster has no server")?;
    let uri = text.parse::<Uri>().ok().filter(|uri| matches!(uri.scheme_str(), Some("https" | "http")));
    uri.ok_or_else(|| format!("its server {text} is no https address"))
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("the certificate authority is no PEM text ({error})"))?;
    match all.is_empty() {
        true => Err("there is no certificate in the certificate authority".to_owned()),
        false => Ok(all.iter().map(|certificate| certificate.to_vec()).collect()),
    }
}

fn limit(config: &mut kube::Config) {
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(WRITE);
    config.read_timeout = Some(READ);
    config.reset_reader_on_write = true;
    // The library would ask again by itself, and a 429 of a budget would look like silence.
    config.default_retry = false;
    config.headers = vec![(HeaderName::from_static("user-agent"), HeaderValue::from_static(USER_AGENT))];
}
