//! Messages to people.

use std::future::ready;

use futures_util::future::BoxFuture;

use crate::domain::approval::Approval;
use crate::domain::audit::Audit;
use crate::domain::guard::run::GuardRun;
use crate::domain::plan::Plan;
use crate::domain::recovery::Recovery;

/// Why a message was not delivered. Holds no text of a client's error: that would name the URL, which is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotifyError {
    /// No Slack webhook is configured.
    #[error("no Slack webhook is configured, so nobody would hear of it")]
    NotConfigured,
    /// The secret cannot be read or holds no https URL.
    #[error(
        "the secret of Slack's webhook cannot be read or holds no https URL, so nobody would hear of it"
    )]
    Unusable,
    /// Slack refused the message.
    #[error("Slack answered with status {0}")]
    Status(u16),
    /// Slack could not be reached.
    #[error("Slack could not be reached")]
    Unreachable,
}

impl NotifyError {
    /// Whether the same message may be taken later: Slack is unreachable, out of order, or has had too many.
    #[must_use]
    pub fn may_pass(self) -> bool {
        match self {
            Self::Unreachable => true,
            Self::Status(status) => status == 429 || status >= 500,
            Self::NotConfigured | Self::Unusable => false,
        }
    }
}

/// Notifies nobody: for functions that do not reach Slack. Every message fails as [`NotifyError::NotConfigured`].
#[derive(Debug, Clone, Copy)]
pub struct NobodyNotified;

impl Notifier for NobodyNotified {
    fn ask_approval<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Result<(), NotifyError>> {
        Box::pin(ready(Err(NotifyError::NotConfigured)))
    }

    fn report_result<'a>(&'a self, _: &'a Audit) -> BoxFuture<'a, Result<(), NotifyError>> {
        Box::pin(ready(Err(NotifyError::NotConfigured)))
    }

    fn report_findings<'a>(&'a self, _: &'a GuardRun) -> BoxFuture<'a, Result<(), NotifyError>> {
        Box::pin(ready(Err(NotifyError::NotConfigured)))
    }
}

/// A request for a decision, with the link where it is made.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The plan to decide about.
    pub plan: &'a Plan,
    /// Its recovery.
    pub recovery: &'a Recovery,
    /// The approval that is asked for.
    pub approval: &'a Approval,
    /// The address of the page. A secret.
    pub link: &'a str,
    /// Whether an execution waits for this message alone: then delivery is tried for longer.
    pub is_first: bool,
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Question");
        fields.field("plan", &self.plan.id).finish_non_exhaustive()
    }
}

/// Notifies people.
///
/// # Errors
/// Every method fails if the message was not delivered.
pub trait Notifier: std::fmt::Debug + Send + Sync {
    /// Asks for a decision.
    fn ask_approval<'a>(&'a self, question: Question<'a>)
    -> BoxFuture<'a, Result<(), NotifyError>>;

    /// Reports how an execution ended.
    fn report_result<'a>(&'a self, audit: &'a Audit) -> BoxFuture<'a, Result<(), NotifyError>>;

    /// Reports what the guard found.
    fn report_findings<'a>(&'a self, run: &'a GuardRun) -> BoxFuture<'a, Result<(), NotifyError>>;
}
