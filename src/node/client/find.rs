//! Whose credential is used, and where a kubelet's kubeconfig is.

use std::path::{Path, PathBuf};

use super::flags::{Flags, Told};
use crate::host::Fs;
use crate::node::api::ApiError;

/// Whose credential is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The kubelet's own: it may cordon, drain and uncordon this node, and nothing else.
    #[default]
    Kubelet,
    /// A kubeconfig of its own.
    Kubeconfig(PathBuf),
    /// None: somebody else cordons and drains.
    None,
}

/// Where installers put it.
const KNOWN: [(&str, &str); 6] = [
    ("/etc/kubernetes/kubelet.conf", "kubeadm"),
    ("/var/lib/rancher/k3s/agent/kubelet.kubeconfig", "k3s"),
    ("/var/lib/rancher/rke2/agent/kubelet.kubeconfig", "RKE2"),
    ("/var/lib/kubelet/kubeconfig", "EKS, AKS, GKE"),
    ("/var/snap/microk8s/current/credentials/kubelet.config", "MicroK8s"),
    ("/var/lib/k0s/kubelet.conf", "k0s"),
];

/// The kubeconfig to use; `None` where none is wanted.
///
/// # Errors
/// [`ApiError::Unusable`] with every place that was looked at.
pub fn kubeconfig(fs: &dyn Fs, credentials: &Credentials) -> Result<Option<PathBuf>, ApiError> {
    match credentials {
        Credentials::Kubelet => of_kubelet(fs).map(Some),
        Credentials::Kubeconfig(path) => Ok(Some(path.clone())),
        Credentials::None => Ok(None),
    }
}

fn of_kubelet(fs: &dyn Fs) -> Result<PathBuf, ApiError> {
    let mut places = Flags::read(fs).told("--kubeconfig");
    places.extend(KNOWN.map(|(path, by)| Told { value: path.to_owned(), by: by.to_owned() }));
    let found = places.iter().map(|place| Path::new(&place.value));
    let mut found = found.filter(|path| path.is_absolute() && fs.exists(path));
    found.next().map(Path::to_path_buf).ok_or_else(|| nowhere(&places))
}

fn nowhere(places: &[Told]) -> ApiError {
    let places: Vec<String> = places.iter().map(|place| format!("{} ({})", place.value, place.by)).collect();
    ApiError::Unusable(format!(
        "no kubeconfig of a kubelet was found; there is no file at: {}; name a kubeconfig to use, or use no \
         credentials at all and let something else cordon and drain",
        places.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs::RootedFs;
    use crate::node::client::tree;

    fn found(files: &[(&str, &str)]) -> Result<PathBuf, String> {
        let tree = tree(files);
        of_kubelet(&RootedFs::new(tree.path())).map_err(|error| error.to_string())
    }

    #[test]
    fn each_known_place() {
        for (path, _) in KNOWN {
            assert_eq!(found(&[(path.trim_start_matches('/'), "")]), Ok(path.into()));
        }
    }

    #[test]
    fn what_the_kubelet_was_told_comes_before_what_others_do() {
        let told = [
            ("proc/7/comm", "kubelet\n"),
            ("proc/7/cmdline", "kubelet\0--kubeconfig=/opt/node.conf\0"),
            ("etc/kubernetes/kubelet.conf", ""),
        ];
        assert_eq!(found(&told), Ok("/etc/kubernetes/kubelet.conf".into()));
        let with_file = [told[0], told[1], told[2], ("opt/node.conf", "")];
        assert_eq!(found(&with_file), Ok("/opt/node.conf".into()));
    }

    #[test]
    fn the_error_names_every_place() {
        let told =
            [("proc/7/comm", "kubelet\n"), ("proc/7/cmdline", "kubelet\0--kubeconfig=/opt/node.conf\0")];
        let error = found(&told).unwrap_err();
        for (path, _) in KNOWN {
            assert!(error.contains(path), "{error}");
        }
        assert!(
            error.contains("/opt/node.conf (--kubeconfig of the running kubelet (process 7))"),
            "{error}"
        );
    }
}
