//! Addresses that secrets may be sent to.

use url::{Host, Url};

/// Whether nobody on the way to `url` can read what is sent there: it is encrypted, or stays on this machine.
#[must_use]
pub(crate) fn hides(url: &Url) -> bool {
    let on_this_machine = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        // A name may become another machine's.
        Some(Host::Domain(_)) | None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && on_this_machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        let hidden = |url: &str| hides(&Url::parse(url).unwrap());
        for url in [
            "https://hooks.slack.com/x",
            "http://127.0.0.1:1/x",
            "http://[::1]/x",
        ] {
            assert!(hidden(url), "{url}");
        }
        for url in [
            "http://hooks.slack.com/x",
            "http://localhost/x",
            "http://127.0.0.1.example.com/x",
            "http://10.0.0.1/x",
            "ftp://127.0.0.1/x",
        ] {
            assert!(!hidden(url), "{url}");
        }
    }
}
