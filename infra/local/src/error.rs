use std::{error::Error as _, fmt, io, process::ExitStatus, time::Duration};

use fantoccini::error::{CmdError, NewSessionError};
use offset_guard_preflight::MissingTools;
use rdkafka::error::KafkaError;

/// The result of everything that the local stack does.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the local stack could not do what was asked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This machine lacks tools; the text names all of them and the commands that install them.
    #[error(transparent)]
    MissingTools(#[from] MissingTools),
    /// The operating system refused something.
    #[error("cannot {doing}")]
    Io {
        /// What was tried, as it follows "cannot".
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A tool that was run to its end failed.
    #[error("{program} failed ({status}):\n{output}")]
    Tool {
        /// The tool and its first arguments.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        output: String,
    },
    /// A process of the stack ended while it was needed.
    #[error("{name} ended by itself ({status}); its log says:\n{log}")]
    Died {
        /// Which process.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The lines of its log that tell why.
        log: String,
    },
    /// Something that was waited for did not happen.
    #[error("waited {} s in vain for {what}", after.as_secs())]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
    },
    /// A tool or a server answered with something that was not expected of it.
    #[error("{from} answered with something unexpected: {answer}")]
    Unexpected {
        /// Who answered.
        from: String,
        /// What it said.
        answer: String,
    },
    /// A Kafka client call failed.
    #[error("cannot {doing}")]
    Kafka {
        /// What was tried, as it follows "cannot".
        doing: String,
        /// What the client or the broker said.
        source: KafkaError,
    },
    /// A loopback HTTP request failed.
    #[error("cannot {doing}")]
    Http {
        /// What was tried, as it follows "cannot".
        doing: String,
        /// What went wrong.
        source: reqwest::Error,
    },
    /// Chromium could not be started.
    #[error("cannot start a browser session")]
    BrowserSession(#[from] Box<NewSessionError>),
    /// The browser could not do what was asked.
    #[error("the browser cannot {doing}")]
    Browser {
        /// What was tried, as it follows "cannot".
        doing: String,
        /// What WebDriver said.
        source: Box<CmdError>,
    },
}

impl fmt::Debug for Error {
    /// The text with its causes: this is what a test or a `main` that ends in an error prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Says what was tried when a step failed.
pub(crate) trait Doing<T> {
    /// `doing` follows "cannot".
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing: doing(),
            source,
        })
    }
}

impl<T> Doing<T> for std::result::Result<T, KafkaError> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Kafka {
            doing: doing(),
            source,
        })
    }
}

impl<T> Doing<T> for std::result::Result<T, reqwest::Error> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Http {
            doing: doing(),
            source,
        })
    }
}

impl<T> Doing<T> for std::result::Result<T, CmdError> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Browser {
            doing: doing(),
            source: Box::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_fails_prints_text_with_the_cause() {
        let refused: io::Result<()> = Err(io::Error::other("disk full"));
        let error = refused
            .doing(|| "write offset-guard.toml".to_owned())
            .unwrap_err();
        assert_eq!(
            format!("{error:?}"),
            "cannot write offset-guard.toml: disk full"
        );
    }
}
