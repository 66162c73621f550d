//! `[node]` and `[drain]`: whose credential, and how long a drain may take.

use std::time::Duration;

use serde::Deserialize;

use crate::node::client::Credentials;
use crate::node::drain::OnBlocked;

/// How long a drain may take, if nothing is set.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(1800);

/// How a node is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainSettings {
    /// For the whole drain.
    pub time_limit: Duration,
    /// What is done about pods that do not go in that time.
    pub on_blocked: OnBlocked,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self { time_limit: DEFAULT_TIME_LIMIT, on_blocked: OnBlocked::Abort }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFragment {
    credentials: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainFragment {
    timeout_seconds: Option<u64>,
    on_blocked: Option<OnBlocked>,
    delete_past_budgets: Option<bool>,
}

impl NodeFragment {
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, String> {
        match self.credentials.as_deref() {
            None => Ok(None),
            Some("kubelet") => Ok(Some(Credentials::Kubelet)),
            Some("none") => Ok(Some(Credentials::None)),
            Some(path) if path.starts_with('/') => Ok(Some(Credentials::Kubeconfig(path.into()))),
            Some(other) => Err(format!(
                "node.credentials is {other:?}; it can be \"kubelet\", \"none\", or the whole path of a kubeconfig"
            )),
        }
    }
}

impl DrainFragment {
    /// Deleting past the budgets takes two keys in one file.
    pub(super) fn validated(&self) -> Result<(), String> {
        let deletes = self.on_blocked == Some(OnBlocked::Delete);
        if deletes && self.delete_past_budgets != Some(true) {
            return Err(
                "drain.on_blocked = \"delete\" deletes pods past their disruption budgets; it takes \
                        drain.delete_past_budgets = true beside it"
                    .to_owned(),
            );
        }
        if self.timeout_seconds == Some(0) {
            return Err("drain.timeout_seconds is 0; a drain takes time".to_owned());
        }
        Ok(())
    }

    pub(super) fn apply(&self, settings: &mut DrainSettings) {
        if let Some(seconds) = self.timeout_seconds {
            settings.time_limit = Duration::from_secs(seconds);
        }
        if let Some(on_blocked) = self.on_blocked {
            settings.on_blocked = on_blocked;
        }
    }
}
