//! Which proxy, if any, stands before the API server.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// One variable of our own environment.
pub(super) fn variable(name: &str) -> Option<String> {
    let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    read(name).or_else(|| read(&name.to_ascii_lowercase()))
}

/// That of the kubeconfig; otherwise that of `HTTPS_PROXY`, unless `NO_PROXY` has the server or the server is this
/// host itself, as it is for k3s.
pub(super) fn proxy(
    server: &Uri,
    of_kubeconfig: Option<&str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    let understood = |text: &str, of: &str| {
        let uri = text.parse::<Uri>().ok().filter(|uri| uri.authority().is_some());
        // The text may hold a password.
        uri.map(Some)
            .ok_or_else(|| format!("the proxy of {of} is not understood; it is to be like http://host:port"))
    };
    if let Some(text) = of_kubeconfig.filter(|text| !text.is_empty()) {
        return understood(text, "proxy-url in the kubeconfig");
    }
    match variable("HTTPS_PROXY").filter(|_| is_proxied(server, variable("NO_PROXY"))) {
        // Go, and so kubectl and the kubelet, take a proxy without a scheme for one that speaks HTTP.
        Some(text) if !text.contains("://") => understood(&format!("http://{text}"), "HTTPS_PROXY"),
        Some(text) => understood(&text, "HTTPS_PROXY"),
        None => Ok(None),
    }
}

fn is_proxied(server: &Uri, exempt: Option<String>) -> bool {
    let exempt = exempt.unwrap_or_default();
    // For the matcher a star is every name, but no address.
    if exempt.split(',').any(|part| part.trim() == "*") {
        return false;
    }
    // Only whether it is exempt is asked: any proxy will do.
    let matcher = Matcher::builder().https("http://proxy.invalid").no(exempt).build();
    !is_this_host(server) && matcher.intercept(server).is_some()
}

fn is_this_host(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, of_kubeconfig: Option<&str>, environment: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        proxy(&server.parse().unwrap(), of_kubeconfig, &variable).unwrap().map(|uri| uri.to_string())
    }

    #[test]
    fn from_the_environment_unless_the_server_is_exempt() {
        let proxy = ("HTTPS_PROXY", "http://proxy.example:3128");
        let server = "https://10.0.0.1:6443";
        assert_eq!(chosen(server, None, &[]), None);
        assert_eq!(chosen(server, None, &[proxy]).as_deref(), Some("http://proxy.example:3128/"));
        for exempt in ["10.0.0.1", "10.0.0.0/8", "other.example, 10.0.0.1", "*"] {
            assert_eq!(chosen(server, None, &[proxy, ("NO_PROXY", exempt)]), None, "{exempt}");
        }
        let exempt = ("NO_PROXY", "10.1.0.0/16,.example");
        assert!(chosen(server, None, &[proxy, exempt]).is_some());
        assert_eq!(chosen("https://api.cluster.example", None, &[proxy, exempt]), None);
        assert!(chosen(server, None, &[("HTTPS_PROXY", "proxy.example:3128")]).is_some());
    }

    #[test]
    fn never_for_this_host() {
        for server in ["https://127.0.0.1:6444", "https://localhost:6443", "https://[::1]:6443"] {
            assert_eq!(chosen(server, None, &[("HTTPS_PROXY", "http://p:1")]), None, "{server}");
        }
    }

    #[test]
    fn that_of_the_kubeconfig_is_meant_for_this_server() {
        let environment = [("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "*")];
        assert_eq!(chosen("https://a:1", Some("http://q:2"), &environment).as_deref(), Some("http://q:2/"));
        let error = proxy(&"https://a:1".parse().unwrap(), Some("http://user:secret@ q"), &|_| None);
        assert!(!error.unwrap_err().contains("secret"));
    }
}
