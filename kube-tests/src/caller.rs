//! Requests as they go over the wire, answers with their code: what a server says is the thing under test.

use std::path::Path;

use anyhow::{Context as _, Result};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;

/// Somebody who may ask the server. Belongs to the runtime it was made in: one for each test.
#[derive(Clone)]
pub struct Caller {
    client: Client,
}

impl Caller {
    /// As the kubeconfig says.
    pub async fn new(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        // A 429 is an answer to be seen, not to be asked again for.
        config.default_retry = false;
        Ok(Self { client: Client::try_from(config)? })
    }

    /// The client below.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Panics, as do the other verbs, if there is no answer at all.
    pub async fn get(&self, path: &str) -> Answer {
        self.expect(Method::GET, path, None).await
    }

    /// Creates.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.expect(Method::POST, path, Some(body)).await
    }

    /// Merges `body` into what is there (a JSON merge patch).
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.expect(Method::PATCH, path, Some(body)).await
    }

    /// Deletes; `body` is the `DeleteOptions`.
    pub async fn delete(&self, path: &str, body: Value) -> Answer {
        self.expect(Method::DELETE, path, Some(body)).await
    }

    async fn expect(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let asked = format!("{method} {path}");
        self.ask(method, path, body).await.unwrap_or_else(|why| panic!("{asked}: {why:#}"))
    }

    /// `Err` only where there was no answer.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answer> {
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let text = body.map(|body| body.to_string()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", content);
        let response = self.client.send(request.body(text.into_bytes().into())?).await?;
        let code = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(str::to_owned);
        let body = response.into_body().collect().await.context("the answer broke off")?.to_bytes();
        Ok(Answer { code, retry_after, text: String::from_utf8_lossy(&body).into_owned() })
    }
}

/// What the server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The header of this name.
    pub retry_after: Option<String>,
    /// The body as it came.
    pub text: String,
}

impl Answer {
    /// The body, or null if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The `message` of a refusal.
    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The body of an answer that must be a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}: {}", self.code, self.text);
        self.json()
    }

    /// The message of an answer that must have this code.
    #[track_caller]
    pub fn refused(self, code: u16) -> String {
        assert_eq!(self.code, code, "{}", self.text);
        self.message()
    }
}
