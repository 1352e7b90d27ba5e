//! Why a request came to nothing, each with its own status and what to write instead.

use crate::app::hand_over::NotHandedOver;
use crate::app::start_rewind::RewindNotStarted;
use crate::aws::secrets::SecretsError;
use crate::domain::refusal::Refusal;
use crate::error::Error;
use crate::failure::chain;
use crate::http::BodyFault;
use crate::ports::ExecutionsError;
use crate::store::StoreError;

use super::answer::Answer;

/// Why a request came to nothing.
#[derive(Debug)]
pub(super) enum ApiFault {
    /// No such route.
    Route,
    /// No sender of this name, no secret, or not the sender's.
    Unknown,
    /// The token names nobody.
    NoPerson,
    /// The token is a machine's.
    Machine { why: String },
    /// The person is none of those who may ask.
    MayNotAsk { missing: String },
    /// An operator's route, and no operator.
    NotAnOperator,
    /// A group that the sender may not name.
    NotAllowed { group: String },
    /// The body is longer than it may be.
    TooLarge,
    /// The request is longer than the state machine can take and still have room for its steps' answers.
    RewindTooLarge,
    /// More alerts than one notification may have.
    TooMany,
    /// The body is no UTF-8.
    NotText,
    /// The body is not what this sender sends.
    Body(String),
    /// A request with faults.
    Request(Vec<Refusal>),
    /// Nothing in an alert names a configured group.
    NoGroup { problem: String },
    /// The key was used for another request.
    KeyUsed,
    /// There is no such recovery.
    NoRecovery,
    /// More than one asker may ask for in a minute.
    TooOften { most: u32 },
    /// Nothing was done, and the same may be done in a moment.
    Busy { why: &'static str },
}

impl From<BodyFault> for ApiFault {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge => Self::TooLarge,
            BodyFault::Garbled => Self::NotText,
        }
    }
}

impl From<StoreError> for ApiFault {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = chain(&error), "the table failed");
        Self::Busy {
            why: "the table cannot be reached",
        }
    }
}

impl From<SecretsError> for ApiFault {
    fn from(error: SecretsError) -> Self {
        tracing::error!(error = chain(&error), "a sender's secret cannot be read");
        Self::Busy {
            why: "the sender's secret cannot be read",
        }
    }
}

impl From<ExecutionsError> for ApiFault {
    fn from(error: ExecutionsError) -> Self {
        tracing::error!(error = chain(&error), "Step Functions failed");
        Self::Busy {
            why: "Step Functions cannot be reached",
        }
    }
}

impl From<Error> for ApiFault {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => error.into(),
            Error::Executions(error) => error.into(),
            other => {
                tracing::error!(error = chain(&other), "the request failed");
                Self::Busy {
                    why: "the request cannot be answered",
                }
            }
        }
    }
}

impl From<NotHandedOver> for ApiFault {
    fn from(not: NotHandedOver) -> Self {
        let why = match not {
            NotHandedOver::KeyUsed => return Self::KeyUsed,
            NotHandedOver::Store(error) => return error.into(),
            NotHandedOver::UnderWay => {
                "another request has claimed the same run and not yet handed it over"
            }
            NotHandedOver::TooManyRuns => {
                "this sender has started as many runs as it may in a minute"
            }
            NotHandedOver::Start(_) => "guard cannot be started",
        };
        Self::Busy { why }
    }
}

impl From<RewindNotStarted> for ApiFault {
    fn from(not: RewindNotStarted) -> Self {
        match not {
            RewindNotStarted::KeyUsed => Self::KeyUsed,
            RewindNotStarted::NoMachine => Self::NoRecovery,
            RewindNotStarted::Store(error) => error.into(),
            RewindNotStarted::Executions(error) => error.into(),
            RewindNotStarted::NotYetKnown => Self::Busy {
                why: "a request with this Idempotency-Key was taken a moment ago, and is not yet known",
            },
        }
    }
}

impl From<ApiFault> for Answer {
    fn from(fault: ApiFault) -> Self {
        match fault {
            ApiFault::Route => Self::new(
                404,
                "NO_SUCH_ROUTE",
                "write POST /webhooks/SENDER, POST /rewinds or GET /recoveries/ID; with a token of the issuer POST \
                 /v1/rewinds, GET /v1/recoveries/ID or GET /v1/me",
            ),
            ApiFault::Unknown => Self::new(
                401,
                "NOT_AUTHENTICATED",
                "write the sender's name into the path and its secret into the header Authorization: Bearer SECRET",
            ),
            ApiFault::NoPerson => Self::new(
                401,
                "NOBODY",
                "send an access token of the configured issuer that has the claim by which people are told apart",
            ),
            ApiFault::Machine { why } => Self::new(
                403,
                "NOT_A_PERSON",
                format!(
                    "this is the token of a machine ({why}), and people ask here; a machine asks with a sender's secret at \
                     POST /rewinds"
                ),
            ),
            ApiFault::MayNotAsk { missing } => Self::new(
                403,
                "MAY_NOT_ASK",
                format!(
                    "{missing}; ask those who run the issuer for it, and GET /v1/me for what is seen of you"
                ),
            ),
            ApiFault::NotAnOperator => Self::new(
                403,
                "NOT_AN_OPERATOR",
                "only a sender of kind operator may ask for this",
            ),
            ApiFault::NotAllowed { group } => Self::new(
                403,
                "GROUP_NOT_ALLOWED",
                format!(
                    "this sender may not name group {group:?}; add it to the sender's groups in the configuration"
                ),
            ),
            ApiFault::TooLarge => Self::new(413, "TOO_LARGE", "write at most 256 KiB"),
            ApiFault::RewindTooLarge => Self::new(
                413,
                "TOO_LARGE",
                "write a request of at most 128 KiB; ask for fewer partitions at once",
            ),
            ApiFault::TooMany => Self::new(
                413,
                "TOO_MANY_ALERTS",
                "send at most 500 alerts at once (Alertmanager: max_alerts in the receiver's webhook_configs)",
            ),
            ApiFault::NotText => Self::new(400, "NOT_JSON", "write a JSON object in UTF-8"),
            ApiFault::Body(problem) => Self::new(400, "INVALID_BODY", problem),
            ApiFault::Request(refusals) => {
                let faults: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                Self::new(400, "INVALID_REQUEST", faults.join("; "))
            }
            ApiFault::NoGroup { problem } => Self::new(422, "NO_SUCH_GROUP", problem),
            ApiFault::KeyUsed => Self::new(
                422,
                "IDEMPOTENCY_KEY_USED",
                "you used this Idempotency-Key for another request; write another key for this one",
            ),
            ApiFault::NoRecovery => Self::new(
                404,
                "NO_SUCH_RECOVERY",
                "write your own Idempotency-Key, the id that was answered, or a plan's id; executions are known for 90 days",
            ),
            ApiFault::TooOften { most } => Self::new(
                429,
                "TOO_MANY_REQUESTS",
                format!(
                    "at most {most} requests in a minute are taken from one asker; nothing was started, so ask again in the \
                     next minute"
                ),
            ),
            ApiFault::Busy { why } => Self::new(
                503,
                "TRY_AGAIN",
                format!("{why}; nothing was lost if you send the same again in a few seconds"),
            ),
        }
    }
}
