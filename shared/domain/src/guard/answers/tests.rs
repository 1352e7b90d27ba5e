use super::*;
use crate::guard::probe::{Probe, Unlike};
use crate::guard::proposal::propose;
use crate::guard::quarantine::{Kept, KeptCopy, SkippedRecord};
use crate::guard::rules::{judge, reads_uncommitted};
use crate::offset::{ClusterId, GroupId};
use crate::rights::Operation;
use crate::testing::guard::{History, failure, outline, probe};
use crate::testing::{Goal, Scene, at, id, p, plan_record};

fn dedupe_id(topic_id: Option<TopicId>, partition: &TopicPartition, offset: i64) -> DedupeId {
    let cluster = ClusterId("cluster-a".to_owned());
    let group = GroupId("shipment-sync".to_owned());
    DedupeId::of(&cluster, &group, topic_id, partition, offset)
}

/// A case: a history, and the instant at which the guard proposes.
struct Case {
    history: History,
    now: Timestamp,
    topic_id: Option<TopicId>,
}

impl Case {
    /// Partitions 0 and 1 stand at 100, where a record fails a validator.
    fn bad() -> Self {
        let mut history = History::of(2);
        history.stable(&[("a1", &[0, 1])]);
        history.runs(4);
        for partition in [0, 1] {
            history.probed(partition, probe(100, &[(100, true), (101, false)]));
        }
        assert_eq!(history.verdict(0), Verdict::PoisonLikely);
        Self {
            history,
            now: at("10:00:00"),
            topic_id: id(7),
        }
    }

    fn probed(mut self, probe: Probe) -> Self {
        self.history.probed(0, probe);
        self
    }

    fn at(mut self, now: &str) -> Self {
        self.now = at(now);
        self
    }

    fn known<T>(&self, with: impl FnOnce(Known<'_>, Proposals) -> T) -> T {
        let history = &self.history;
        let (probes, policy) = (&history.probes, &history.policy);
        let assessment = judge(&history.samples, probes, policy, history.now());
        let reads_uncommitted = reads_uncommitted(&history.samples, &history.policy);
        let skips = BTreeMap::new();
        let proposals = propose(
            &assessment,
            &history.probes,
            &history.policy,
            reads_uncommitted,
            None,
            &skips,
        );
        let known = Known {
            assessment: &assessment,
            probes: &history.probes,
            reads_uncommitted,
            policy: &history.policy,
            now: self.now,
        };
        with(known, proposals)
    }

    /// The plan that comes of what is proposed for partition 0 now, and the answer that it got.
    fn answered(&self, answer: Answer, at: Timestamp) -> Answered {
        self.known(|known, proposals| {
            let range = proposals.skips.iter().find(|range| range.partition == p(0));
            let range = range.unwrap();
            let skipped = |offset| SkippedRecord {
                partition: p(0),
                record: outline(offset),
                failure: Some(failure(offset)),
                dedupe_id: dedupe_id(self.topic_id, &p(0), offset),
                kept: Kept::No,
            };
            let skips = (range.first..=range.last).map(skipped).collect();
            let mut scene = Scene::from(Goal::skip(&[(0, 100)], skips));
            scene.seen = self.history.seen.clone();
            scene.policy.wait_for_empty_seconds = Some(900);
            Answered {
                record: PlanRecord {
                    grounds: vec![(p(0), grounds(known.finding(&p(0)).unwrap()))],
                    ..record(scene.ready())
                },
                answer,
                at,
            }
        })
    }

    /// What is proposed after these answers, and the refusals.
    fn proposes(&self, answered: &[Answered]) -> (Vec<i32>, Vec<Refusal>) {
        self.known(|known, proposals| {
            let proposals = known.without_answered(
                proposals,
                answered,
                |partition, offset| dedupe_id(self.topic_id, partition, offset),
                |_| self.topic_id,
            );
            let skips = proposals
                .skips
                .iter()
                .map(|range| range.partition.partition);
            let rewinds = proposals.rewinds.keys().map(|p| p.partition);
            (skips.chain(rewinds).collect(), proposals.withheld)
        })
    }
}

fn record(plan: Plan) -> PlanRecord {
    PlanRecord {
        execution: "run-1".into(),
        requested_by: "guard".to_owned(),
        ..plan_record(plan)
    }
}

fn no() -> Answer {
    Answer::Rejected {
        by: "bo".to_owned(),
        reason: "billing needs it".to_owned(),
    }
}

#[test]
fn a_no_holds_for_its_record_until_its_time_is_over_and_for_no_other_partition() {
    let case = Case::bad();
    assert_eq!(case.proposes(&[]), (vec![0, 1], vec![]));
    let rejected = case.answered(no(), case.now);
    let expected = Refusal::RejectedBefore {
        partition: p(0),
        plan: rejected.record.id.clone(),
        rejection: Box::new(Rejection {
            by: "bo".to_owned(),
            reason: "billing needs it".to_owned(),
            at: case.now,
            until: case.now + SignedDuration::from_hours(7 * 24),
        }),
    };
    assert_eq!(
        case.proposes(std::slice::from_ref(&rejected)),
        (vec![1], vec![expected])
    );
    let week = SignedDuration::from_hours(7 * 24);
    for (later, proposed) in [
        (week - SignedDuration::from_secs(1), vec![1]),
        (week, vec![0, 1]),
    ] {
        let mut case = Case::bad();
        case.now += later;
        assert_eq!(case.proposes(std::slice::from_ref(&rejected)).0, proposed);
    }
    let mut case = Case::bad();
    case.history
        .policy(|policy| policy.rejected_for_seconds = 0);
    assert_eq!(case.proposes(&[rejected]).0, [0, 1]);
}

#[test]
fn another_record_at_the_commit_is_another_proposal() {
    let rejected = || Case::bad().answered(no(), at("10:00:00"));
    // The commit moved on to the next one.
    let mut case = Case::bad().at("10:05:00");
    case.history.committed(0, 101).runs(12);
    let case = case.probed(probe(101, &[(101, true)]));
    assert_eq!(case.proposes(&[rejected()]).0, [0, 1]);
    // The topic was made anew, or its log cut off: the same offset is another record.
    let mut case = Case::bad().at("10:05:00");
    case.topic_id = id(8);
    assert_eq!(case.proposes(&[rejected()]).0, [0, 1]);
    let mut other = probe(100, &[(100, true)]);
    let mut outline = outline(100);
    outline.fingerprint = Fingerprint("f".repeat(64));
    other.committed = First::Record(outline.clone());
    other.uncommitted = First::Record(outline);
    assert_eq!(Case::bad().probed(other).proposes(&[rejected()]).0, [0, 1]);
    // More that fail right behind the same record are no other proposal.
    let more = probe(100, &[(100, true), (101, true)]);
    assert_eq!(Case::bad().probed(more).proposes(&[rejected()]).0, [1]);
}

/// Rejected on a suspicion, and then a validator shows what is wrong with the record.
#[test]
fn other_evidence_is_another_proposal_and_less_of_the_same_is_not() {
    let suspicion = || {
        let mut case = Case::bad().at("10:05:00");
        let policy = &mut case.history;
        policy.policy(|policy| policy.skip_on = crate::guard::policy::SkipOn::Suspected);
        let mut history = History::of(2);
        history.policy = policy.policy.clone();
        history.stable(&[("a1", &[0, 1])]);
        for _ in 0..3 {
            history.run().work(&[1]);
        }
        assert_eq!(history.verdict(0), Verdict::PoisonSuspected);
        case.history = history;
        case.probed(probe(100, &[(100, false)]))
    };
    let on_suspicion = suspicion().answered(no(), at("10:00:00"));
    assert_eq!(
        suspicion().proposes(std::slice::from_ref(&on_suspicion)).0,
        [0; 0]
    );
    assert_eq!(Case::bad().proposes(&[on_suspicion]).0, [0, 1]);

    let on_proof = Case::bad().answered(no(), at("10:00:00"));
    assert_eq!(suspicion().proposes(&[on_proof]).0, [0; 0]);
    // What an old plan rested on is not known: its no counts all the same.
    let mut old = suspicion().answered(no(), at("10:00:00"));
    old.record.grounds.clear();
    assert_eq!(Case::bad().proposes(&[old]).0, [1]);

    let of = |evidence| Finding {
        evidence: vec![evidence],
        ..Case::bad().history.finding(0)
    };
    let unlike = Unlike {
        failure: failure(100),
        passing: 9,
    };
    let unlike = grounds(&of(Evidence::UnlikeThoseBefore {
        offset: 100,
        validator: unlike.failure.validator,
        problem: unlike.failure.problem,
        passing: unlike.passing,
    }));
    assert!(
        unlike.contains(&Ground::Unlike("json".to_owned())),
        "{unlike:?}"
    );
    let moving = grounds(&of(Evidence::NothingMoved));
    assert_eq!(moving, grounds(&of(Evidence::FirstSample)));
}

/// A plan that nobody decides on within 59 minutes does not come again every 59 minutes, day and night.
#[test]
fn what_nobody_answered_is_asked_again_after_six_hours() {
    let case = Case::bad();
    let unanswered = case.answered(Answer::Unanswered, at("10:00:00"));
    let expected = Refusal::UnansweredBefore {
        partition: p(0),
        plan: unanswered.record.id.clone(),
        at: at("10:00:00"),
        until: at("16:00:00"),
        missing: Vec::new(),
    };
    let again = std::slice::from_ref(&unanswered);
    assert_eq!(case.proposes(again), (vec![1], vec![expected]));
    assert_eq!(Case::bad().at("15:59:59").proposes(again).0, [1]);
    assert_eq!(Case::bad().at("16:00:00").proposes(again).0, [0, 1]);
    // A no is stronger, whatever came later.
    let rejected = case.answered(no(), at("09:30:00"));
    let (_, withheld) = case.proposes(&[rejected, unanswered]);
    assert_eq!(withheld[0].code(), "REJECTED_BEFORE");
}

/// What the applying principal may not do is said as such, and keeps nothing else back.
#[test]
fn what_nobody_was_asked_about_for_a_missing_right_waits_and_no_other_topic_does() {
    let case = Case::bad();
    let lacks = |resource, name: &str| Right {
        operation: Operation::Read,
        resource,
        name: name.to_owned(),
    };
    let refused = |right: &Right| {
        let missing = vec![right.clone()];
        case.answered(Answer::NotAsked { missing }, at("09:00:00"))
    };
    for right in [
        lacks(ResourceType::Topic, "shipments"),
        lacks(ResourceType::Group, "shipment-sync"),
    ] {
        let (proposed, withheld) = case.proposes(&[refused(&right)]);
        assert_eq!(proposed, [1]);
        let text = withheld[0].to_string();
        let why = format!("since the applying principal lacks {right}; grant it that");
        assert!(text.contains(&why), "{text}");
    }
    let other = refused(&lacks(ResourceType::Topic, "returns"));
    assert_eq!(case.proposes(&[other]).0, [0, 1]);
    // The topic that keeps the record is needed for it as well.
    let mut kept = refused(&lacks(ResourceType::Topic, "kept"));
    if let PlanResult::Ready(plan) = &mut kept.record.result {
        plan.skips[0].kept = Kept::In(KeptCopy {
            partition: TopicPartition::new("kept", 0),
            offset: 4,
        });
    }
    assert_eq!(case.proposes(&[kept]).0, [1]);
}

#[test]
fn a_rejected_rewind_is_not_made_again_from_the_same_commit() {
    let ahead = |committed: i64| {
        let mut case = Case::bad();
        case.history = History::of(2);
        let rewinds = RemediationAction::RewindOffset;
        case.history
            .policy(|policy| policy.remediation_action = rewinds);
        case.history.committed(0, committed).runs(3);
        assert_eq!(case.history.verdict(0), Verdict::Ahead);
        case
    };
    use crate::guard::policy::RemediationAction;
    let case = ahead(300);
    let of_guard = |grounds: Vec<(TopicPartition, Grounds)>| {
        let mut scene = Scene::from(Goal::Offsets([(p(0), 199)].into()));
        scene.seen = case.history.seen.clone();
        scene.policy.wait_for_empty_seconds = Some(900);
        Answered {
            record: PlanRecord {
                grounds,
                ..record(scene.ready())
            },
            answer: no(),
            at: at("10:00:00"),
        }
    };
    let grounds = vec![(p(0), grounds(&case.history.finding(0)))];
    let rejected = [of_guard(grounds)];
    let (proposed, withheld) = case.proposes(&rejected);
    assert_eq!(
        (proposed, withheld[0].code()),
        (vec![], "REJECTED_BEFORE".to_owned())
    );
    assert_eq!(ahead(301).proposes(&rejected).0, [0]);
    let mut anew = ahead(300);
    anew.topic_id = id(8);
    assert_eq!(anew.proposes(&rejected).0, [0]);
    // A rewind to offsets of a person's own is another thing.
    assert_eq!(case.proposes(&[of_guard(vec![])]).0, [0]);
}
