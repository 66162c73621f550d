//! The client certificate: whose it is, and how long.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

/// How the API server calls a kubelet.
pub(super) const KUBELET: &str = "system:node:";

/// What a client certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    /// The common name: for the API server the name of the user.
    pub(super) user: String,
    from: Timestamp,
    until: Timestamp,
}

impl Certificate {
    /// The first certificate of a PEM text, which may hold its key and others too.
    pub(super) fn first_of(pem: &[u8]) -> Result<Self, String> {
        let der = CertificateDer::pem_slice_iter(pem).next().ok_or("there is no certificate in it")?;
        let der = der.map_err(|error| format!("it is no PEM text ({error})"))?;
        let read = |error| format!("its certificate cannot be read ({error})");
        let certificate = x509_cert::Certificate::from_der(&der).map_err(read)?;
        let content = certificate.tbs_certificate();
        let name = content.subject().common_name().map_err(read)?;
        Ok(Self {
            user: name.map(|name| name.value().into_owned()).unwrap_or_default(),
            from: timestamp(content.validity().not_before)?,
            until: timestamp(content.validity().not_after)?,
        })
    }

    /// The name of the node whose kubelet this is.
    pub(super) fn node(&self) -> Option<&str> {
        self.user.strip_prefix(KUBELET)
    }

    /// Why it is of no use at this time.
    pub(super) fn fault(&self, now: Timestamp) -> Option<String> {
        let Self { user, from, until } = self;
        if now > *until {
            return Some(format!(
                "the certificate of {user} has been invalid since {until} (it is {now}); a kubelet that runs and \
                 reaches the API server renews its own"
            ));
        }
        (now < *from).then(|| {
            format!("the certificate of {user} is not valid before {from}, and it is {now} by the clock of this host")
        })
    }
}

fn timestamp(time: Time) -> Result<Timestamp, String> {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_err(|error| format!("a date of its certificate is no date ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(name: &str) -> String {
        let mut wanted = rcgen::CertificateParams::default();
        wanted.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        wanted.distinguished_name.push(rcgen::DnType::CommonName, name);
        wanted.not_before = rcgen::date_time_ymd(2026, 3, 1);
        wanted.not_after = rcgen::date_time_ymd(2027, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        // As the kubelet writes its own: both in one file, here even the key first.
        key.serialize_pem() + &wanted.self_signed(&key).unwrap().pem()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn whose_it_is() {
        let certificate = Certificate::first_of(pem("system:node:w0.example").as_bytes()).unwrap();
        assert_eq!(certificate.node(), Some("w0.example"));
        assert_eq!(Certificate::first_of(pem("kubernetes-admin").as_bytes()).unwrap().node(), None);
    }

    #[test]
    fn how_long() {
        let certificate = Certificate::first_of(pem("system:node:w0").as_bytes()).unwrap();
        assert_eq!(certificate.fault(at("2026-12-01T00:00:00Z")), None);
        let late = certificate.fault(at("2027-03-02T00:00:00Z")).unwrap();
        assert!(late.contains("since 2027-03-01T00:00:00Z (it is 2027-03-02T00:00:00Z)"), "{late}");
        let early = certificate.fault(at("2026-02-01T00:00:00Z")).unwrap();
        assert!(early.contains("not valid before 2026-03-01T00:00:00Z"), "{early}");
    }

    #[test]
    fn what_is_none() {
        assert!(Certificate::first_of(b"").is_err());
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(Certificate::first_of(broken.as_bytes()).unwrap_err().contains("cannot be read"));
    }
}
