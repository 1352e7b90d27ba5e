//! Who sends: a bearer secret, compared by its digest.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::aws::secrets::{KEPT, Rotating, Secret, Secrets, SecretsError};
use crate::config::Sender;

/// A secret that nobody knows yet was perhaps made a moment ago: then it is read again, but not for every stranger.
const FRESH: Duration = Duration::from_secs(5);

/// A shorter secret can be guessed, and an empty one is a mistake.
const SHORTEST: usize = 16;

/// The bearer token of an `Authorization` header (RFC 6750 section 2.1).
pub(super) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether `offered` is the current secret, or the one before it no longer than `window` after the current one was made.
pub(super) fn accepts(
    offered: &str,
    known: &Rotating,
    window: SignedDuration,
    now: Timestamp,
) -> bool {
    let offered = Sha256::digest(offered);
    let is = |secret: &Secret| {
        // Editors and shells end a secret with a line break.
        let secret = secret.expose().trim_end();
        let long_enough = Choice::from(u8::from(secret.len() >= SHORTEST));
        Sha256::digest(secret).as_slice().ct_eq(offered.as_slice()) & long_enough
    };
    let in_window = now.duration_since(known.since) <= window;
    let previous = match &known.previous {
        Some(previous) if in_window => is(previous),
        _ => Choice::from(0),
    };
    (is(&known.current) | previous).into()
}

/// Whether `offered` is a secret of `sender`.
///
/// # Errors
/// The secret cannot be read.
pub(super) async fn is_from(
    sender: &Sender,
    offered: &str,
    secrets: &Secrets,
    now: Timestamp,
) -> Result<bool, SecretsError> {
    let window = SignedDuration::from_secs(sender.previous_secret_seconds.into());
    for at_most in [KEPT, FRESH] {
        let known = secrets.rotating(&sender.secret, at_most).await?;
        if accepts(offered, &known, window, now) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::testing::at_second as at;

    fn rotated(current: &str, previous: Option<&str>) -> Rotating {
        Rotating {
            current: Secret::new(current),
            since: at(1_000),
            previous: previous.map(Secret::new),
        }
    }

    #[test]
    fn the_previous_secret_is_good_for_a_window() {
        let known = rotated("the-current-secret", Some("the-previous-secret"));
        let accepts =
            |offered, now| accepts(offered, &known, SignedDuration::from_secs(60), at(now));
        assert!(accepts("the-current-secret", 1_000) && accepts("the-current-secret", 9_000));
        assert!(accepts("the-previous-secret", 1_060));
        assert!(!accepts("the-previous-secret", 1_061));
        for wrong in [
            "",
            "the-current-secre",
            "the-current-secret2",
            "THE-CURRENT-SECRET",
        ] {
            assert!(!accepts(wrong, 1_000), "{wrong}");
        }
    }

    #[test]
    fn a_secret_that_is_empty_or_short_lets_nobody_in() {
        for secret in ["", "\n", "short", "fifteen-letters"] {
            let known = rotated(secret, Some(secret));
            let window = SignedDuration::from_secs(60);
            assert!(!accepts(secret, &known, window, at(1_000)), "{secret:?}");
        }
        let known = rotated("a-long-enough-secret\n", None);
        assert!(accepts(
            "a-long-enough-secret",
            &known,
            SignedDuration::ZERO,
            at(9_000)
        ));
    }

    #[test]
    fn only_a_bearer_token_is_one() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for other in ["", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"] {
            assert_eq!(bearer(other), None, "{other:?}");
        }
    }
}
