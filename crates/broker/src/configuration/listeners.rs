//! `listeners` and `advertised.listeners`: where to listen, and where clients are told to connect.
//!
//! **What it does not know**: names of hosts, sockets.

use super::ConfigurationError;

/// A host, empty for all of this machine's addresses, and a port.
pub(crate) type HostAndPort = (String, u16);

/// The one address in `value` that clients are to use: `NAME://HOST:PORT`, or several with commas between them, of which all
/// but one are listeners of controllers, which this node has no use for.
pub(crate) fn parse(key: &str, value: &str, controllers: &[&str]) -> Result<HostAndPort, ConfigurationError> {
    let wrong = |expected: &str| ConfigurationError::InvalidValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    let mut found = None;
    for listener in value.split(',').map(str::trim).filter(|listener| !listener.is_empty()) {
        let form = || wrong("expected NAME://HOST:PORT");
        let (name, address) = listener.split_once("://").ok_or_else(form)?;
        if controllers.contains(&name) || (controllers.is_empty() && name == "CONTROLLER") {
            continue;
        }
        if name.starts_with("SSL") || name.starts_with("SASL") {
            return Err(wrong("only PLAINTEXT is served: there is no TLS and no authentication yet"));
        }
        let (host, port) = address.rsplit_once(':').ok_or_else(form)?;
        let port = port.parse().map_err(|_| form())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if found.replace((host.to_owned(), port)).is_some() {
            return Err(wrong("one listener for clients is served, and here are more"));
        }
    }
    found.ok_or_else(|| wrong("expected a listener for clients: PLAINTEXT://HOST:PORT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listener_is_for_clients() {
        for (value, host, port) in [
            ("PLAINTEXT://127.0.0.1:9092", "127.0.0.1", 9092),
            ("PLAINTEXT://:9092,CONTROLLER://:9093", "", 9092),
            (" CLIENTS://[::1]:0 ", "::1", 0),
        ] {
            assert_eq!(parse("listeners", value, &[]), Ok((host.to_owned(), port)), "{value}");
        }
        assert_eq!(parse("listeners", "A://a:1,B://b:2", &["A"]), Ok(("b".to_owned(), 2)));
        for bad in ["", "127.0.0.1:9092", "A://a", "A://a:x", "A://a:1,B://b:2", "SSL://a:1", "SASL_PLAINTEXT://a:1"] {
            assert!(parse("listeners", bad, &[]).is_err(), "{bad}");
        }
    }
}
