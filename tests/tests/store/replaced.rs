//! What is said in the end of a recovery whose plan another one was put over.

use std::collections::BTreeMap;

use offset_guard::app::report;
use offset_guard::domain::approval::{Approval, Decision};
use offset_guard::domain::offset::GroupId;
use offset_guard::domain::plan::{Plan, PlanRecord, PlanResult};
use offset_guard::domain::recovery::{Outcome, PreImage};
use offset_guard::domain::refusal::Refusal;
use offset_guard::domain::testing::pending_approval;
use offset_guard::store::TaskToken;
use offset_guard_tests::context::context_without_cluster;
use serde_json::json;

use super::approvals::link;
use super::support::{
    Kind, Table, at, claim, execution, group, on_both_tables, plan, plan_id, record, recovery,
};

async fn a_move_is_not_hidden_by_another_plan_in_the_place_of_the_one_that_was_approved(on: Kind) {
    let approved = plan(plan_id(1), 3);
    let emptied = Plan {
        moves: Vec::new(),
        ..approved.clone()
    };
    let hidden = ("OUTCOME_UNKNOWN", Some(Outcome::Unknown));
    for (on_record, found, (code, outcome)) in [
        (
            PlanResult::Ready(approved.clone()),
            Outcome::Verified,
            ("VERIFIED", Some(Outcome::Verified)),
        ),
        (
            PlanResult::Refused(vec![Refusal::ApplySwitchedOff]),
            Outcome::Verified,
            hidden.clone(),
        ),
        (
            PlanResult::NothingToDo(vec![]),
            Outcome::Verified,
            hidden.clone(),
        ),
        (PlanResult::Ready(emptied), Outcome::NotApplied, hidden),
    ] {
        let table = Table::new(on).await;
        let store = table.store();
        // Beside the plan its record says more, which no digest covers.
        let stored = PlanRecord {
            group: GroupId("another".to_owned()),
            reason: "another".to_owned(),
            ..record(1, on_record)
        };
        store.put_plan(&stored).await.unwrap();
        let (opened, held) = (recovery(1), claim(1, at(1000)));
        store.open_recovery(&opened, &held, at(0)).await.unwrap();
        let approval = Approval {
            execution: execution(1),
            created_at: at(0),
            ..pending_approval(&approved)
        };
        let (link, token) = (link(1), TaskToken::new("token".to_owned()));
        let asked = store.request_approval(&approval, &link, &token);
        asked.await.unwrap();
        let approve = Decision::Approve;
        let decided = store.decide(&link, &approval.digest, approve, "grace", "", at(10));
        decided.await.unwrap();
        assert!(store.begin_apply(&plan_id(1), at(20)).await.unwrap());
        let before = approved.moves.iter();
        let before = before.map(|m| (m.partition.clone(), m.from.clone()));
        let image = PreImage::of(before.collect());
        store.keep_pre_image(&plan_id(1), &image).await.unwrap();
        let nothing = BTreeMap::new();
        store
            .set_outcome(&plan_id(1), &found, &nothing)
            .await
            .unwrap();

        let state = serde_json::from_value(json!({ "plan_id": plan_id(1) })).unwrap();
        let (own, began) = (execution(1), Some(at(0)));
        let ctx = context_without_cluster(&store);
        let ended = report::report_execution(&ctx, &own, began, &state).await;
        assert_eq!(ended.unwrap().code, code);
        let audit = store.audit_of(&own).await.unwrap().unwrap();
        assert_eq!(audit.outcome, outcome, "{code}");
        assert_eq!(audit.group, Some(group()), "{code}");
        assert_ne!(audit.reason, "another", "{code}");
    }
}

on_both_tables! {
    a_move_is_not_hidden_by_another_plan_in_the_place_of_the_one_that_was_approved,
}
