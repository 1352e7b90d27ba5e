//! When an alert is news: an incident is what a guard run is asked for, and claiming it is not yet doing it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::offset::GroupId;

/// How long a claim holds while its run is being handed over: longer than the function that claims may live.
pub const CLAIM_HOLDS: SignedDuration = SignedDuration::from_secs(15);

/// How long a run that was handed over may wait for its start. The queue's longest age in the template is as long.
pub const QUEUE_HOLDS: SignedDuration = SignedDuration::from_secs(900);

/// How long a run that started may take without a word. No function lives longer (AWS Lambda, "Lambda quotas").
pub const LONGEST_RUN: SignedDuration = SignedDuration::from_secs(900);

/// How long an explicit request is remembered under its key, in seconds.
pub const REQUEST_REMEMBERED: u32 = 86_400;

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A group, because of alerts. However many there are, one run looks at the group.
    Group {
        /// The cluster, by its name in the configuration.
        cluster: String,
        /// The group.
        group: GroupId,
    },
    /// What an operator asked for, under a key of the operator's choice.
    Request {
        /// The operator's sender.
        sender: String,
        /// The key.
        key: String,
    },
}

/// How far an incident's run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentState {
    /// Somebody is about to hand the run over.
    Claimed,
    /// The run is handed over, and waits for its start.
    Queued,
    /// The run started.
    Started,
    /// The run came to its end.
    Finished,
    /// The run was not handed over, or failed.
    Failed,
}

/// The newest run of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// The run's id.
    pub run: String,
    /// How far it has come.
    pub state: IncidentState,
    /// Until when that holds: a later word is due before it, or the cool-down ends with it.
    pub until: Timestamp,
    /// When the newest alert began that the run was asked for.
    pub alerts_to: Option<Timestamp>,
    /// When the run started.
    pub started_at: Option<Timestamp>,
    /// A hash of what a request asked for; `None` of alerts, and of requests that were taken before this was kept.
    pub asked: Option<String>,
}

/// What an alert meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is in its way: it starts a run.
    Free,
    /// Another request is handing a run over at this moment, and may still fail to.
    UnderWay,
    /// A run has it or had it: nothing is to be done.
    Covered,
}

impl Incident {
    /// Whether the run was asked for something else than what is asked for now under the same key.
    #[must_use]
    pub fn is_otherwise(&self, asked: Option<&str>) -> bool {
        matches!((&self.asked, asked), (Some(then), Some(now)) if then != now)
    }

    /// What an alert that began at `since` meets at `now`.
    ///
    /// A run that ended covers, for its cool-down, what had begun before it looked; an alert that began afterwards is
    /// news, however short ago the run was.
    #[must_use]
    pub fn meets(&self, since: Option<Timestamp>, now: Timestamp) -> Standing {
        if self.until <= now {
            return Standing::Free;
        }
        match self.state {
            IncidentState::Failed => Standing::Free,
            IncidentState::Claimed => Standing::UnderWay,
            IncidentState::Queued | IncidentState::Started => Standing::Covered,
            IncidentState::Finished if since > self.alerts_to.max(self.started_at) => {
                Standing::Free
            }
            IncidentState::Finished => Standing::Covered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at_second as at;

    fn incident(state: IncidentState) -> Incident {
        Incident {
            run: "r".to_owned(),
            state,
            until: at(100),
            alerts_to: Some(at(10)),
            started_at: Some(at(20)),
            asked: None,
        }
    }

    #[test]
    fn only_what_may_still_come_to_its_end_holds_an_alert_back() {
        for (state, before, after) in [
            (IncidentState::Claimed, Standing::UnderWay, Standing::Free),
            (IncidentState::Queued, Standing::Covered, Standing::Free),
            (IncidentState::Started, Standing::Covered, Standing::Free),
            (IncidentState::Finished, Standing::Covered, Standing::Free),
            (IncidentState::Failed, Standing::Free, Standing::Free),
        ] {
            let meets = |now| incident(state).meets(Some(at(10)), at(now));
            assert_eq!((meets(99), meets(100)), (before, after), "{state:?}");
        }
    }

    #[test]
    fn an_alert_that_began_after_the_run_looked_is_news() {
        let finished = incident(IncidentState::Finished);
        assert_eq!(finished.meets(Some(at(20)), at(50)), Standing::Covered);
        assert_eq!(finished.meets(Some(at(21)), at(50)), Standing::Free);
        assert_eq!(finished.meets(None, at(50)), Standing::Covered);
        // While the run is under way it is not: its repetition will be.
        let started = incident(IncidentState::Started);
        assert_eq!(started.meets(Some(at(21)), at(50)), Standing::Covered);
    }

    #[test]
    fn a_senders_clock_that_runs_ahead_makes_no_news_of_the_same_alert() {
        let ahead = Incident {
            alerts_to: Some(at(25)),
            ..incident(IncidentState::Finished)
        };
        assert_eq!(ahead.meets(Some(at(25)), at(50)), Standing::Covered);
    }
}
