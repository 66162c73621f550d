//! One etcd and one API server on loopback, from their start to their end.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::sync::OnceCell;

use crate::audit::{self, Request};
use crate::authority::{Authority, token_keys};
use crate::caller::Caller;
use crate::folder::Folder;
use crate::process::Process;
use crate::programs::Programs;

const TIME_TO_START: Duration = Duration::from_secs(120);
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

/// Ends with its processes and its folder when dropped. In a `static` it never is: then the processes end with the
/// tests, and the next cluster sweeps the folder away.
pub struct TestCluster {
    running: Mutex<Running>,
    issuing: Mutex<()>,
    programs: Programs,
    authority: Authority,
    port: Socket,
    folder: Folder,
}

struct Running {
    api: Option<Process>,
    etcd: Process,
}

/// The cluster that all tests of this binary share. `None`, with the reason printed, where Kubernetes is not there.
/// A test that stops the server starts a cluster of its own.
pub async fn shared() -> Option<&'static TestCluster> {
    static SHARED: OnceCell<TestCluster> = OnceCell::const_new();
    let programs = Programs::or_skip()?;
    let cluster = SHARED.get_or_init(|| async { TestCluster::start(programs).await.expect("no cluster") });
    Some(cluster.await)
}

impl TestCluster {
    /// Starts both and waits until the server is ready.
    pub async fn start(programs: Programs) -> Result<Self> {
        let (folder, authority) = (Folder::create()?, Authority::new()?);
        folder.write("ca.pem", &authority.certificate())?;
        folder.write("server.pem", &authority.server()?)?;
        let (private, public) = token_keys()?;
        folder.write("tokens.key", &private)?;
        folder.write("tokens.pub", &public)?;
        folder.write("audit-policy.yaml", AUDIT_POLICY)?;
        let etcd = Process::start(&programs.path("etcd"), &etcd_arguments(), folder.path())?;
        let running = Mutex::new(Running { api: None, etcd });
        let port = reserved_port()?;
        let cluster = Self { running, issuing: Mutex::new(()), programs, authority, port, folder };
        cluster.start_api().await?;
        Ok(cluster)
    }

    /// Starts the API server after `stop_api`, at the same address, and waits until it is ready.
    pub async fn start_api(&self) -> Result<()> {
        let started = Process::start(
            &self.programs.path("kube-apiserver"),
            &self.api_arguments()?,
            self.folder.path(),
        )?;
        self.running().api = Some(started);
        // Nobody in particular: may ask this only once the server has heard of the roles it begins with.
        let starter = Caller::new(&self.kubeconfig("kube-tests", "anybody")?).await?;
        let deadline = Instant::now() + TIME_TO_START;
        while !is_ready(&starter).await {
            self.must_run_until(deadline)?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn must_run_until(&self, deadline: Instant) -> Result<()> {
        let mut running = self.running();
        let Running { api, etcd } = &mut *running;
        let folder = self.folder.path().display();
        for process in [Some(etcd), api.as_mut()].into_iter().flatten() {
            if process.has_ended() {
                bail!("{} of {folder} has ended by itself:\n{}", process.name(), process.last_words());
            }
        }
        let api = api.as_ref().context("the API server was stopped while it started")?;
        if Instant::now() > deadline {
            bail!("the API server of {folder} does not get ready:\n{}", api.last_words());
        }
        Ok(())
    }

    /// Kills the API server; its port stays ours, and refuses connections.
    pub fn stop_api(&self) {
        self.running().api = None;
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().expect("nothing panics with it")
    }

    /// Its address, as in a kubeconfig.
    pub fn server(&self) -> Result<String> {
        let address = self.port.local_addr()?;
        Ok(format!("https://{}", address.as_socket().context("no address of the Internet")?))
    }

    /// Where its files and logs are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A kubeconfig that may do everything.
    pub fn admin_kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig("admin", "system:masters")
    }

    /// The kubeconfig of the kubelet of this node, in kubeadm's form.
    pub fn kubelet_kubeconfig(&self, node: &str) -> Result<PathBuf> {
        self.kubeconfig(&format!("system:node:{node}"), "system:nodes")
    }

    /// A kubeconfig with a certificate for this user of this group, made with the first call.
    pub fn kubeconfig(&self, user: &str, group: &str) -> Result<PathBuf> {
        let _one_at_a_time = self.issuing.lock().expect("nothing panics with it");
        self.authority.kubeconfig(&self.folder, &self.server()?, user, group)
    }

    /// Asks with all rights.
    pub async fn admin(&self) -> Caller {
        let kubeconfig = self.admin_kubeconfig().expect("cannot write a kubeconfig");
        Caller::new(&kubeconfig).await.expect("no client for the admin")
    }

    /// Asks as the kubelet of this node.
    pub async fn kubelet(&self, node: &str) -> Caller {
        let kubeconfig = self.kubelet_kubeconfig(node).expect("cannot write a kubeconfig");
        Caller::new(&kubeconfig).await.expect("no client for the kubelet")
    }

    /// What this user has asked so far, in the order in which the server was done with it.
    pub fn requests(&self, user: &str) -> Result<Vec<Request>> {
        audit::read(&self.folder.path().join("audit.log"), user)
    }

    /// The metrics of the server, in the text form of Prometheus.
    pub async fn metrics(&self) -> String {
        self.admin().await.get("/metrics").await.text
    }

    fn api_arguments(&self) -> Result<Vec<String>> {
        let address = self.port.local_addr()?.as_socket().context("no address of the Internet")?;
        let arguments = [
            // Two sockets may have the port: ours, which only keeps it, and the one of the server.
            "--permit-port-sharing=true",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--tls-cert-file=server.pem",
            "--tls-private-key-file=server.pem",
            "--client-ca-file=ca.pem",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-signing-key-file=tokens.key",
            "--service-account-key-file=tokens.pub",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--audit-policy-file=audit-policy.yaml",
            "--audit-log-path=audit.log",
            "--audit-log-mode=blocking",
        ];
        let own = [format!("--etcd-servers={ETCD}"), format!("--secure-port={}", address.port())];
        Ok(arguments.map(str::to_owned).into_iter().chain(own).collect())
    }
}

/// A socket in the folder both run in: nobody else finds it, and no port is taken.
const ETCD: &str = "unix://etcd.sock:0";

fn etcd_arguments() -> Vec<String> {
    let peer = "unix://etcd-peer.sock:0";
    let arguments = [
        "--data-dir=etcd".to_owned(),
        // Nobody needs the data after the tests.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ];
    arguments.into()
}

/// A port that nobody else gets as long as this lives, though it never listens.
fn reserved_port() -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    let anywhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&SockAddr::from(anywhere)).context("cannot get a port of loopback")?;
    Ok(socket)
}

async fn is_ready(starter: &Caller) -> bool {
    starter.ask(http::Method::GET, "/readyz", None).await.is_ok_and(|answer| answer.code == 200)
}
