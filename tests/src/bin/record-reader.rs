//! Reads records for the tests: their own programs do not begin with asking whether they are to.

#![forbid(unsafe_code)]

fn main() {
    offset_guard::kafka::serve_if_asked();
}
