//! Credentials from a program that the kubeconfig names (`exec`), as on EKS and GKE.
//!
//! The program runs through the seam and not in the client library: there it would have no time limit, our
//! standard input, and its output, which is the secret, in the text of an error.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::{Cluster, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::requests::without_nulls;
use crate::host::{Finished, Invocation, RunError, Runner};

const TIME_LIMIT: Duration = Duration::from_secs(30);

/// What such a program prints.
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Issued>,
}

/// What it gives: a token, or a certificate with its key, and for how long.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Issued {
    pub(super) token: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<String>,
    pub(super) expiration_timestamp: Option<Timestamp>,
}

/// Runs it.
pub(super) fn run(
    runner: &dyn Runner,
    exec: &ExecConfig,
    cluster: &Cluster,
    authority: Option<&[u8]>,
) -> Result<Issued, String> {
    let program = exec.command.clone().ok_or("exec names no command")?;
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(format!(
            "{program} wants to ask a person (interactiveMode: Always), and nobody is there"
        ));
    }
    let mut argv = vec![program.clone()];
    argv.extend(exec.args.clone().unwrap_or_default());
    let invocation = Invocation { argv, time_limit: TIME_LIMIT, changes_host: false };
    let finished = runner.run_with(&invocation, &environment(exec, cluster, authority));
    let finished = finished.map_err(|error| not_run(&program, exec.install_hint.as_deref(), &error))?;
    issued(&program, &finished)
}

fn environment(exec: &ExecConfig, cluster: &Cluster, authority: Option<&[u8]>) -> Vec<(String, String)> {
    let variables = exec.env.iter().flatten();
    let variables =
        variables.filter_map(|pair| Some((pair.get("name")?.clone(), pair.get("value")?.clone())));
    let info = ("KUBERNETES_EXEC_INFO".to_owned(), info(exec, cluster, authority).to_string());
    variables.chain([info]).collect()
}

fn info(exec: &ExecConfig, cluster: &Cluster, authority: Option<&[u8]>) -> Value {
    let cluster = exec.provide_cluster_info.then(|| shown(cluster, authority));
    let mut spec = json!({"interactive": false, "cluster": cluster});
    without_nulls(&mut spec);
    json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec})
}

fn shown(cluster: &Cluster, authority: Option<&[u8]>) -> Value {
    let extensions = cluster.extensions.iter().flatten();
    let mut config = extensions.filter(|extension| extension.name == "client.authentication.k8s.io/exec");
    let mut shown = json!({
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": authority.map(|pem| STANDARD.encode(pem)),
        "proxy-url": cluster.proxy_url,
        "config": config.next().map(|extension| &extension.extension),
    });
    without_nulls(&mut shown);
    shown
}

/// Its arguments may hold a secret: they are not told.
fn not_run(program: &str, hint: Option<&str>, error: &RunError) -> String {
    match error {
        RunError::Missing { .. } => {
            let hint = hint.map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
            format!("the program {program} is not in {}{hint}", crate::host::FULL_PATH)
        }
        RunError::TimedOut { limit, .. } => format!("{program} gave no credentials within {limit:?}"),
        RunError::Io { source, .. } => format!("{program} cannot be run: {source}"),
        RunError::Interrupted { .. } => format!("{program} was stopped by a signal"),
        RunError::TestHost { .. } => format!("{program} is not run on a test host"),
    }
}

fn issued(program: &str, finished: &Finished) -> Result<Issued, String> {
    if finished.code != Some(0) {
        let code = finished.code.map_or("a signal".to_owned(), |code| format!("code {code}"));
        let said = String::from_utf8_lossy(&finished.stderr);
        let said: String = said.trim().lines().last().unwrap_or("nothing").chars().take(300).collect();
        return Err(format!("{program} gave no credentials: it ended with {code} and said: {said}"));
    }
    // What it printed is not told: it is the secret.
    let unread = || format!("what {program} printed is no ExecCredential with a status");
    let credential: ExecCredential = serde_json::from_slice(&finished.stdout).map_err(|_| unread())?;
    credential.status.ok_or_else(unread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeRunner;

    fn exec(text: &str) -> ExecConfig {
        serde_json::from_str(text).unwrap()
    }

    fn error(runner: &FakeRunner<'_>, text: &str) -> String {
        run(runner, &exec(text), &Cluster::default(), None).err().unwrap()
    }

    #[test]
    fn it_is_told_that_nobody_is_there_to_ask() {
        let output = r#"{"kind":"ExecCredential","status":{"token":"s3cret","expirationTimestamp":"2026-12-01T00:14:00Z"}}"#;
        let runner = FakeRunner::new().ends("aws", 0, output, "");
        let wanted = exec(
            r#"{"apiVersion":"client.authentication.k8s.io/v1","command":"aws","args":["eks","get-token"],
                "env":[{"name":"AWS_REGION","value":"eu-1"}],"provideClusterInfo":true}"#,
        );
        let cluster = Cluster { server: Some("https://a".into()), ..Cluster::default() };
        let issued = run(&runner, &wanted, &cluster, Some(b"CA")).unwrap();
        assert_eq!(issued.token.as_deref(), Some("s3cret"));
        assert_eq!(issued.expiration_timestamp, Some("2026-12-01T00:14:00Z".parse().unwrap()));
        assert_eq!(runner.calls()[0].argv, ["aws", "eks", "get-token"]);
        let environment = runner.environments()[0].clone();
        assert_eq!(environment[0], ("AWS_REGION".into(), "eu-1".into()));
        let info: Value = serde_json::from_str(&environment[1].1).unwrap();
        let cluster = json!({"server": "https://a", "certificate-authority-data": "Q0E="});
        assert_eq!(info["spec"], json!({"interactive": false, "cluster": cluster}));
    }

    #[test]
    fn errors_say_what_is_wrong_and_no_secret() {
        let command =
            r#"{"command":"plugin","args":["--client-secret","s3cret"],"installHint":"get it from us"}"#;
        let missing = error(&FakeRunner::new(), command);
        assert!(missing.contains("plugin is not in /usr/local/sbin:") && missing.ends_with("get it from us"));
        assert!(error(&FakeRunner::new().hangs("plugin"), command).contains("within 30s"));
        let failed =
            error(&FakeRunner::new().ends("plugin", 1, "s3cret", "a\nno role is attached\n"), command);
        assert!(failed.ends_with("code 1 and said: no role is attached"), "{failed}");
        let garbage = error(&FakeRunner::new().ends("plugin", 0, "{\"token\": \"s3cret\"", ""), command);
        assert!(garbage.contains("no ExecCredential"), "{garbage}");
        for text in [missing, failed, garbage] {
            assert!(!text.contains("s3cret"), "{text}");
        }
        let asks = error(&FakeRunner::new(), r#"{"command":"plugin","interactiveMode":"Always"}"#);
        assert!(asks.contains("nobody is there"), "{asks}");
    }
}
