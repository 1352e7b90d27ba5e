//! The configuration that is deployed is valid.

#![forbid(unsafe_code)]

use std::path::Path;

use offset_guard::config::Config;
use offset_guard::failure::chain;

#[test]
fn the_deployed_configuration_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/config/offset-guard.toml");
    if let Err(error) = Config::load(path) {
        panic!("{}", chain(&error));
    }
}
