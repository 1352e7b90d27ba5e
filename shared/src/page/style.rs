//! The page's style sheet, and the policy that lets no other style have effect.

use std::sync::LazyLock;

use data_encoding::BASE64;
use sha2::{Digest, Sha256};

/// The style sheet. The content security policy names its hash.
pub(super) const CSS: &str = include_str!("../../templates/page.css");

/// No script, no picture, no frame, nothing from elsewhere: this page's one style sheet and its own form.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = BASE64.encode(&Sha256::digest(CSS));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'"
    )
});
