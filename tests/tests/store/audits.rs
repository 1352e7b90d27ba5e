use offset_guard::app::{self, report};
use offset_guard::domain::audit::{Audit, AuditPartition, AuditStatus};
use offset_guard::domain::guard::answers::Answer;
use offset_guard::domain::identity::{Identity, Requester};
use offset_guard::domain::ids::GroupKey;
use offset_guard::domain::offset::{ClusterId, GroupId};
use offset_guard::domain::plan::{Plan, PlanDigest, PlanResult, Source};
use offset_guard::domain::recovery::{Claim, LONGEST_REQUEST, Outcome, PartitionOutcome, Recovery};
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::rights::{Operation, ResourceType, Right};
use offset_guard::failure::ErrorClass;
use offset_guard::store::{Closed, Opened, Reporter, Store};

use offset_guard_tests::context::context_without_cluster;
use serde_json::json;

use super::support::{
    Item, Kind, Table, at, claim, cluster, commit, execution, group, group_key, key_of,
    on_both_tables, partitions, plan, plan_id, race, record, recovery,
};

const PK: &str = "AUDIT#5L6g3nShT-eMCtK--X86sw#shipment-sync";

/// The end of the execution `n`.
pub(crate) fn audit(n: usize, outcome: Option<Outcome>) -> Audit {
    Audit {
        at: at(i64::try_from(n).unwrap()),
        plan: Some(plan_id(n)),
        execution: execution(n),
        cluster_id: Some(cluster()),
        group: Some(group()),
        status: AuditStatus::Succeeded,
        code: "VERIFIED".to_owned(),
        message: "every partition is at its target".to_owned(),
        requested_by: "ada".to_owned(),
        requester: Requester::Guard,
        from_dry_run: false,
        reason: "a bad release".to_owned(),
        decided_by: Some("grace".to_owned()),
        decider: Some(Identity::new("https://id.example", "7", "Grace")),
        decided_at: Some(at(0)),
        digest: Some(PlanDigest("c0ffee".to_owned())),
        refusals: vec![Refusal::ApplySwitchedOff],
        outcome,
        partitions: partitions(3)
            .map(|partition| AuditPartition {
                partition,
                from: Some(commit(43)),
                to: Some(commit(31)),
                before: None,
                outcome: Some(PartitionOutcome::Applied),
            })
            .collect(),
    }
}

async fn open(store: &Store, n: usize) {
    let opened = store
        .open_recovery(&recovery(n), &claim(n, at(1000)), at(0))
        .await;
    assert_eq!(opened.unwrap(), Opened::Yes);
}

async fn close(store: &Store, audit: &Audit) -> Closed {
    store.close(audit, Reporter::Itself(&[])).await.unwrap()
}

async fn closing_ends_the_recovery_and_lets_the_group_go(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    open(&store, 1).await;
    let audit = audit(1, Some(Outcome::Verified));
    assert_eq!(close(&store, &audit).await, Closed::Now);
    let closed = store.recovery(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!(closed.closed_at, Some(at(1)));
    assert_eq!(store.claim(&group_key()).await.unwrap(), None);
    assert_eq!(store.open_recoveries().await.unwrap(), []);
    let moved = store.last_recovery_end(&group_key()).await;
    assert_eq!(moved.unwrap(), Some(at(1)));
    let kept = store.audit_of(&execution(1)).await.unwrap();
    assert_eq!(kept.as_ref(), Some(&audit));
    assert_eq!(store.audits(&group_key()).await.unwrap(), [audit]);
    // For ever.
    let items = table.items(PK).await;
    assert!(items.iter().all(|item: &Item| !item.contains_key("ttl")));

    // After the report nothing more can happen to it.
    let plan = plan_id(1);
    assert!(!store.may_send(&plan).await.unwrap().0);
    assert!(!store.begin_apply(&plan, at(60)).await.unwrap());
    let late = store.set_apply_by(&plan, at(60)).await.unwrap_err();
    assert_eq!(late.class, ErrorClass::Conflict);
    let again = store
        .open_recovery(&recovery(1), &claim(1, at(2000)), at(500))
        .await;
    assert_eq!(again.unwrap(), Opened::PlanUsed);
    // But the group can be recovered anew at once.
    open(&store, 2).await;
}

async fn of_twenty_ends_of_one_execution_one_is_written(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    open(&store, 1).await;
    let outcomes = race(|n| {
        let store = store.clone();
        async move {
            let mut audit = audit(1, Some(Outcome::Verified));
            audit.at = at(i64::try_from(n).unwrap());
            audit.message = format!("reporter {n}");
            close(&store, &audit).await
        }
    })
    .await;
    let written: Vec<_> = (0..20).filter(|n| outcomes[*n] == Closed::Now).collect();
    assert_eq!(written.len(), 1);
    let audits = store.audits(&group_key()).await.unwrap();
    assert_eq!(audits.len(), 1);
    assert_eq!(audits[0].message, format!("reporter {}", written[0]));
    assert_eq!(
        store.audit_of(&execution(1)).await.unwrap().as_ref(),
        audits.first()
    );
    let closed = store.recovery(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!(closed.closed_at, Some(audits[0].at));
}

async fn a_claim_that_another_execution_took_over_stays(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    open(&store, 1).await;
    let theirs = claim(2, at(9000));
    let taken = store.open_recovery(&recovery(2), &theirs, at(1000)).await;
    assert_eq!(taken.unwrap(), Opened::Yes);
    assert_eq!(close(&store, &audit(1, None)).await, Closed::Now);
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(theirs));
    let open = store.open_recoveries().await.unwrap();
    assert_eq!(open, [(plan_id(2), execution(2))]);
}

async fn a_claim_that_is_taken_over_at_the_same_moment_stays(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    for n in 0..10 {
        // Pairs: the owner ends while another takes its expired claim.
        let group = super::support::numbered_group(n);
        let (mine, theirs) = (n * 2, n * 2 + 1);
        let of = |n| Recovery {
            group: group.clone(),
            ..recovery(n)
        };
        let opened = store
            .open_recovery(&of(mine), &claim(mine, at(0)), at(-1))
            .await;
        assert_eq!(opened.unwrap(), Opened::Yes);
        let mut end = audit(mine, None);
        end.group = Some(group.clone());
        let claim: Claim = claim(theirs, at(9000));
        let next = of(theirs);
        let (closed, opened) = tokio::join!(
            store.close(&end, Reporter::Itself(&[])),
            store.open_recovery(&next, &claim, at(1000))
        );
        assert_eq!(
            (closed.unwrap(), opened.unwrap()),
            (Closed::Now, Opened::Yes)
        );
        let held = store.claim(&key_of(&group)).await.unwrap();
        assert_eq!(held, Some(claim));
    }
}

async fn an_execution_that_does_not_own_the_recovery_leaves_it_alone(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    open(&store, 1).await;
    // It was refused because the plan is used.
    let mut refused = audit(2, None);
    refused.plan = Some(plan_id(1));
    refused.status = AuditStatus::Failed;
    assert_eq!(close(&store, &refused).await, Closed::Now);
    let still = store.recovery(&plan_id(1)).await.unwrap().unwrap();
    assert_eq!(still.closed_at, None);
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(1, at(1000))));
    assert_eq!(store.open_recoveries().await.unwrap().len(), 1);
}

async fn what_never_came_to_a_recovery_or_to_a_group_is_recorded_all_the_same(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut dry_run = audit(1, None);
    dry_run.partitions.clear();
    assert_eq!(close(&store, &dry_run).await, Closed::Now);
    assert_eq!(close(&store, &dry_run).await, Closed::Already);
    let mut nowhere = audit(2, None);
    (nowhere.plan, nowhere.cluster_id, nowhere.group) = (None, None, None);
    assert_eq!(close(&store, &nowhere).await, Closed::Now);
    assert_eq!(store.audit_of(&execution(2)).await.unwrap(), Some(nowhere));
    assert_eq!(store.audit_of(&execution(3)).await.unwrap(), None);
    assert_eq!(store.audits(&group_key()).await.unwrap(), [dry_run]);
    assert_eq!(store.recovery(&plan_id(1)).await.unwrap(), None);
}

async fn only_what_moved_the_group_or_may_have_is_noted_as_that(on: Kind) {
    let cases = [
        (None, false),
        (Some(Outcome::NotApplied), false),
        (Some(Outcome::Verified), true),
        (Some(Outcome::AppliedThenMoved), true),
        (Some(Outcome::Overwritten), true),
        (Some(Outcome::PartiallyApplied), true),
        (Some(Outcome::Unknown), true),
    ];
    let table = Table::new(on).await;
    let store = table.store();
    for (n, (outcome, noted)) in cases.into_iter().enumerate() {
        let group = super::support::numbered_group(n);
        let r = Recovery {
            group: group.clone(),
            ..recovery(n)
        };
        let opened = store.open_recovery(&r, &claim(n, at(1000)), at(0)).await;
        assert_eq!(opened.unwrap(), Opened::Yes);
        let mut audit = audit(n, outcome);
        audit.group = Some(group.clone());
        assert_eq!(close(&store, &audit).await, Closed::Now);
        let moved = store.last_recovery_end(&key_of(&group)).await.unwrap();
        assert_eq!(moved, noted.then_some(audit.at), "{:?}", audit.outcome);
    }
}

async fn a_group_is_held_until_nothing_of_an_apply_can_be_under_way(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    // Nothing was proven, and Apply never said that it ended.
    open(&store, 1).await;
    assert!(store.begin_apply(&plan_id(1), at(60)).await.unwrap());
    assert_eq!(close(&store, &audit(1, None)).await, Closed::Now);
    let until = at(60) + LONGEST_REQUEST;
    let held = store.claim(&group_key()).await.unwrap();
    assert_eq!(held, Some(claim(1, until)));
    let next = |now| {
        let store = store.clone();
        async move {
            let claim = claim(2, at(9000));
            let opened = store.open_recovery(&recovery(2), &claim, now).await;
            opened.unwrap()
        }
    };
    assert_eq!(next(at(74)).await, Opened::HeldBy(claim(1, until)));
    let moved = store.last_recovery_end(&group_key()).await;
    assert_eq!(moved.unwrap(), Some(at(1)), "it may have been");

    assert_eq!(next(until).await, Opened::Yes);
    assert!(store.begin_apply(&plan_id(2), at(160)).await.unwrap());
    store.end_apply(&plan_id(2), at(160), at(0)).await.unwrap();
    let ended = audit(2, Some(Outcome::NotApplied));
    assert_eq!(close(&store, &ended).await, Closed::Now);
    assert_eq!(store.claim(&group_key()).await.unwrap(), None);
}

async fn a_plan_step_that_failed_after_its_claim_lets_the_group_go(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let plan = app::plan_id(&execution(1), at(0));
    let opened = Recovery {
        plan: plan.clone(),
        ..recovery(1)
    };
    let claim = Claim {
        plan: plan.clone(),
        ..claim(1, at(1000))
    };
    let opened = store.open_recovery(&opened, &claim, at(0)).await;
    assert_eq!(opened.unwrap(), Opened::Yes);

    let error = json!({"error": {"Error": "OffsetGuard.Transient", "Cause": "throttled"}});
    let state = serde_json::from_value(error).unwrap();
    let ctx = context_without_cluster(&store);
    let reported = report::report_execution(&ctx, &execution(1), Some(at(0)), &state).await;
    assert_eq!(reported.unwrap().code, "NOT_PLANNED");
    assert_eq!(store.claim(&group_key()).await.unwrap(), None);
    assert_eq!(store.open_recoveries().await.unwrap(), []);
    // A step of it that is late sends nothing.
    assert!(!store.may_send(&plan).await.unwrap().0);
    assert_eq!(store.recovery(&plan).await.unwrap().unwrap().fence, 1);
}

async fn an_end_that_is_reported_late_does_not_move_the_last_recovery_back(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    store.note_moved(&group_key(), at(99)).await.unwrap();
    open(&store, 1).await;
    assert_eq!(
        close(&store, &audit(1, Some(Outcome::Verified))).await,
        Closed::Now
    );
    let moved = store.last_recovery_end(&group_key()).await;
    assert_eq!(moved.unwrap(), Some(at(99)));
}

async fn audits_come_newest_first_however_big(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut audits = Vec::new();
    for n in [1, 3, 2] {
        let mut audit = audit(n, Some(Outcome::Verified));
        audit.partitions = partitions(10_000)
            .zip(0_i64..)
            .map(|(partition, offset)| AuditPartition {
                partition,
                from: Some(commit(offset * 7919)),
                to: Some(commit(offset * 7907)),
                before: Some(commit(offset * 7919)),
                outcome: Some(PartitionOutcome::AppliedThenMoved {
                    now: Some(offset * 7917),
                }),
            })
            .collect();
        assert_eq!(close(&store, &audit).await, Closed::Now);
        audits.push(audit);
    }
    audits.sort_by_key(|audit| std::cmp::Reverse(audit.at));
    assert_eq!(store.audits(&group_key()).await.unwrap(), audits);
    let body = &table.items(PK).await[0]["body"];
    println!(
        "an audit of 10,000 partitions: {} bytes",
        body.as_b().unwrap().as_ref().len()
    );
    let (other, none) = (ClusterId("other".to_owned()), GroupId("none".to_owned()));
    assert_eq!(
        store.audits(&GroupKey::new(other, group())).await.unwrap(),
        []
    );
    assert_eq!(store.audits(&key_of(&none)).await.unwrap(), []);
}

async fn an_execution_that_is_reported_on_opens_nothing_any_more(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let mut ended = audit(1, None);
    (ended.plan, ended.cluster_id, ended.group) = (None, None, None);
    assert_eq!(close(&store, &ended).await, Closed::Now);
    let late = store
        .open_recovery(&recovery(1), &claim(1, at(1000)), at(0))
        .await;
    assert_eq!(late.unwrap_err().class, ErrorClass::Conflict);
    assert_eq!(store.claim(&group_key()).await.unwrap(), None);
    assert_eq!(store.open_recoveries().await.unwrap(), []);
}

async fn what_was_opened_right_before_the_report_is_ended_by_the_next(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    open(&store, 1).await;
    // Whoever wrote it had not seen the recovery.
    let mut blind = audit(1, None);
    (blind.plan, blind.cluster_id, blind.group) = (None, None, None);
    assert_eq!(close(&store, &blind).await, Closed::Now);
    assert_eq!(store.open_recoveries().await.unwrap().len(), 1);
    assert_eq!(close(&store, &audit(1, None)).await, Closed::Already);
    assert_eq!(store.open_recoveries().await.unwrap(), []);
    assert_eq!(store.claim(&group_key()).await.unwrap(), None);
    assert_eq!(store.audit_of(&execution(1)).await.unwrap(), Some(blind));
}

async fn skips_are_counted_by_partition_where_they_moved_it_or_may_have(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let keep = async |n: usize, source: Source, audit: &Audit| {
        let plan = Plan {
            source,
            ..plan(plan_id(n), 3)
        };
        let record = record(n, PlanResult::Ready(plan));
        store.put_plan(&record).await.unwrap();
        assert_eq!(close(&store, audit).await, Closed::Now);
    };
    // The first is older than what is asked for, and of the rest these count.
    let outcomes = [
        Some(Outcome::Verified),
        Some(Outcome::Verified),
        Some(Outcome::AppliedThenMoved),
        Some(Outcome::Unknown),
        Some(Outcome::NotApplied),
        None,
    ];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        keep(n, Source::Skip, &audit(n, outcome)).await;
    }
    let mut partial = audit(6, Some(Outcome::PartiallyApplied));
    partial.partitions[1].outcome = Some(PartitionOutcome::NotApplied);
    keep(6, Source::Skip, &partial).await;
    keep(7, Source::Earliest, &audit(7, Some(Outcome::Verified))).await;
    // An Apply that began and that nothing was proven of.
    open(&store, 8).await;
    assert!(store.begin_apply(&plan_id(8), at(60)).await.unwrap());
    keep(8, Source::Skip, &audit(8, None)).await;
    // A plan of which nothing is known, and no plan at all.
    assert_eq!(
        close(&store, &audit(9, Some(Outcome::Verified))).await,
        Closed::Now
    );
    let mut planless = audit(10, None);
    planless.plan = None;
    assert_eq!(close(&store, &planless).await, Closed::Now);

    let skips = store.skips_since(&group_key(), at(1)).await;
    let counted: Vec<_> = partitions(3).zip([5, 4, 5]).collect();
    assert_eq!(skips.unwrap().into_iter().collect::<Vec<_>>(), counted);
    let none = store.skips_since(&group_key(), at(11)).await;
    assert!(none.unwrap().is_empty());
}

/// What people answered is read from the audit records, which every end writes: nothing of its own could be lost.
async fn what_was_rejected_or_not_answered_is_read_with_its_plan(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let answered = |n: usize, code: &str, refusals: Vec<Refusal>| Audit {
        code: code.to_owned(),
        refusals,
        ..audit(n, None)
    };
    let no = Refusal::Rejected {
        by: "grace".to_owned(),
        reason: "not during the sale".to_owned(),
    };
    let missing = vec![Right {
        operation: Operation::Read,
        resource: ResourceType::Topic,
        name: "shipments".to_owned(),
    }];
    let lacking = Refusal::NotAuthorisedToAlter {
        group: group().0,
        missing: missing.clone(),
    };
    for n in 1..=6 {
        let record = record(n, PlanResult::Ready(plan(plan_id(n), 1)));
        store.put_plan(&record).await.unwrap();
    }
    for audit in [
        answered(1, "REJECTED", vec![no.clone()]),
        answered(2, "REJECTED", vec![no]),
        answered(3, "APPROVAL_EXPIRED", vec![]),
        answered(4, "VERIFIED", vec![]),
        // Of before the reason was a value of its own.
        answered(5, "REJECTED", vec![]),
        // Its plan is gone.
        answered(7, "REJECTED", vec![]),
        answered(6, "REFUSED", vec![lacking]),
    ] {
        close(&store, &audit).await;
    }
    let found = store.answered_since(&group_key(), at(2)).await.unwrap();
    let rejected = |reason: &str| Answer::Rejected {
        by: "grace".to_owned(),
        reason: reason.to_owned(),
    };
    let found: Vec<_> = found
        .into_iter()
        .map(|answered| (answered.record.id, answered.answer, answered.at))
        .collect();
    assert_eq!(
        found,
        [
            (plan_id(2), rejected("not during the sale"), at(2)),
            (plan_id(3), Answer::Unanswered, at(3)),
            (plan_id(5), rejected(""), at(5)),
            (plan_id(6), Answer::NotAsked { missing }, at(6)),
        ]
    );
}

on_both_tables! {
    closing_ends_the_recovery_and_lets_the_group_go,
    of_twenty_ends_of_one_execution_one_is_written,
    a_claim_that_another_execution_took_over_stays,
    a_claim_that_is_taken_over_at_the_same_moment_stays,
    an_execution_that_does_not_own_the_recovery_leaves_it_alone,
    what_never_came_to_a_recovery_or_to_a_group_is_recorded_all_the_same,
    only_what_moved_the_group_or_may_have_is_noted_as_that,
    a_group_is_held_until_nothing_of_an_apply_can_be_under_way,
    a_plan_step_that_failed_after_its_claim_lets_the_group_go,
    an_end_that_is_reported_late_does_not_move_the_last_recovery_back,
    audits_come_newest_first_however_big,
    an_execution_that_is_reported_on_opens_nothing_any_more,
    what_was_opened_right_before_the_report_is_ended_by_the_next,
    skips_are_counted_by_partition_where_they_moved_it_or_may_have,
    what_was_rejected_or_not_answered_is_read_with_its_plan,
}
