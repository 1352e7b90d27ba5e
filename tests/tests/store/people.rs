//! The people behind a plan, whatever the plan says of them.

use jiff::{SignedDuration, Timestamp};
use offset_guard::app::approval::{Asking, admit_plan, request_approval};
use offset_guard::app::plan::{PlanTask, plan_recovery};
use offset_guard::config::Config;
use offset_guard::domain::approval::Decision;
use offset_guard::domain::identity::{Identity, Requester};
use offset_guard::domain::plan::{Plan, PlanRecord, PlanResult};
use offset_guard::domain::recovery::{Claim, Recovery};
use offset_guard::store::{Opened, Store, TaskToken};
use offset_guard::wire::{PlanStep, PlanVerdict};
use offset_guard_tests::context::{Connect, context, context_without_cluster};
use serde_json::json;
use url::Url;

use super::support::{Kind, Table, on_both_tables, plan, plan_id, record};

const MADE_BY: &str =
    "arn:aws:states:eu-west-1:111122223333:execution:offset-guard-recovery:made-by";
const STARTED: &str =
    "arn:aws:states:eu-west-1:111122223333:execution:offset-guard-recovery:started";

fn config(four_eyes: bool) -> Config {
    let text = format!(
        "[clusters.local]\nbootstrap_servers = [\"127.0.0.1:1\"]\nauth = \"plaintext\"\n\
         [[groups]]\nname = \"shipment-sync\"\nfour_eyes = {four_eyes}\n"
    );
    Config::parse(&text).unwrap()
}

fn person(subject: &str) -> Identity {
    Identity::new("https://id.example", subject, "Mara")
}

/// A plan on record, made now.
async fn made(store: &Store, requester: Requester, four_eyes: bool, dry_run: bool) -> Plan {
    let now = Timestamp::now();
    let plan = Plan {
        created_at: now,
        approve_by: now + SignedDuration::from_hours(1),
        requester,
        four_eyes,
        // Of another plan it would be asked whether the group is active.
        waits_for_empty: true,
        ..plan(plan_id(1), 2)
    };
    let made = PlanRecord {
        execution: MADE_BY.into(),
        created_at: now,
        dry_run,
        ..record(1, PlanResult::Ready(plan.clone()))
    };
    store.put_plan(&made).await.unwrap();
    plan
}

/// Starts an execution with the plan of another one: what came of it, and why not.
async fn take_over(config: Config, store: &Store) -> (PlanVerdict, String) {
    // A plan that is on record is not made again, so no broker is asked.
    let ctx = context(config, store, Connect::nowhere());
    let input = json!({ "plan_id": plan_id(1).0 });
    let step = PlanTask {
        execution: &STARTED.into(),
        started_at: Timestamp::now(),
        input: &input,
    };
    let answer = plan_recovery(&ctx, &step).await.unwrap();
    (answer.verdict, answer.summary)
}

/// Lets the approver be asked. Nobody is told, and the task that waits is none, so the step itself fails.
async fn ask(store: &Store) {
    let page = Url::parse("https://guard.example/").unwrap();
    let token = TaskToken::new("token".to_owned());
    let asking = Asking {
        public_url: &page,
        swept: false,
    };
    let ctx = context_without_cluster(store);
    let asked = request_approval(&ctx, asking, &STARTED.into(), &plan_id(1), &token).await;
    assert!(asked.is_err());
}

async fn nobody_turns_a_dry_run_into_a_plan_of_one_person(on: Kind) {
    let refused = (PlanVerdict::Refused, "REQUESTER_UNVERIFIED".to_owned());
    let asked = || Requester::Verified(person("1"));
    for (requester, plans_word, policy, dry_run, passes) in [
        // The guard said by its policy that it does not propose it.
        (Requester::Guard, true, true, true, false),
        (Requester::Guard, true, true, false, true),
        (asked(), true, true, true, false),
        (asked(), true, true, false, false),
        // The plan says that it needs no second person, and the policy says that it does; and the other way round.
        (Requester::Guard, false, true, true, false),
        (asked(), false, true, true, false),
        (Requester::Guard, true, false, true, false),
        (asked(), false, false, true, true),
        (Requester::Guard, false, false, true, true),
        (Requester::Unverified, false, false, true, true),
    ] {
        let table = Table::new(on).await;
        let store = table.store();
        let how = format!("{requester:?} {plans_word} {policy} {dry_run}");
        made(&store, requester, plans_word, dry_run).await;
        let answer = take_over(config(policy), &store).await;
        if passes {
            assert_eq!(answer.0, PlanVerdict::NeedsApproval, "{how}");
        } else {
            assert_eq!(answer, refused, "{how}");
        }
    }
}

async fn a_dry_run_that_was_taken_over_is_approved_as_one(on: Kind) {
    for dry_run in [true, false] {
        let table = Table::new(on).await;
        let store = table.store();
        let plan = made(&store, Requester::Guard, false, dry_run).await;
        let (verdict, _) = take_over(config(false), &store).await;
        assert_eq!(verdict, PlanVerdict::NeedsApproval);
        ask(&store).await;
        let (_, approval) = store.approval_of(&plan.id).await.unwrap().unwrap();
        assert_eq!(approval.from_dry_run, dry_run);
        let shown = plan.asked_by(approval.from_dry_run);
        assert_eq!(
            shown.contains("started by somebody who is not verified"),
            dry_run
        );
    }
}

async fn admit_asks_the_note_and_the_configuration_and_not_the_plan(on: Kind) {
    let mara = person("1");
    for (requester, noted, policy, code) in [
        (Requester::Unverified, None, false, None),
        (Requester::Guard, None, false, None),
        (
            Requester::Verified(mara.clone()),
            Some(mara.clone()),
            false,
            None,
        ),
        // Whoever may write a plan may write any name into it.
        (
            Requester::Verified(mara.clone()),
            None,
            false,
            Some("NOT_APPROVED"),
        ),
        (
            Requester::Verified(mara.clone()),
            Some(person("2")),
            false,
            Some("NOT_APPROVED"),
        ),
        // And that it needs no second person.
        (Requester::Guard, None, true, Some("FOUR_EYES_MISSING")),
        (Requester::Unverified, None, true, Some("FOUR_EYES_MISSING")),
    ] {
        let table = Table::new(on).await;
        let store = table.store();
        let how = format!("{requester:?} {noted:?} {policy}");
        let plan = made(&store, requester, false, false).await;
        if let Some(noted) = noted {
            let now = Timestamp::now();
            let noted = store.note_requester("made-by", "hash", &noted, now).await;
            assert!(noted.unwrap(), "{how}");
        }
        let (verdict, _) = take_over(config(false), &store).await;
        assert_eq!(verdict, PlanVerdict::NeedsApproval, "{how}");
        ask(&store).await;
        let (link, _) = store.approval_of(&plan.id).await.unwrap().unwrap();
        let approve = Decision::Approve;
        let now = Timestamp::now();
        let digest = plan.digest();
        let decided = store.decide(&link, &digest, approve, "grace", "", now);
        decided.await.unwrap();
        let step = PlanStep {
            execution: STARTED.into(),
            plan_id: plan.id.clone(),
        };
        let admission = admit_plan(&context(config(policy), &store, ()), &step)
            .await
            .unwrap();
        let codes: Vec<_> = admission.refused.iter().map(String::as_str).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{how}");
        assert_eq!(admission.admitted, code.is_none(), "{how}");
    }
}

async fn with_four_eyes_the_note_is_of_the_execution_that_carries_the_plan_out(on: Kind) {
    let mara = person("1");
    for (noted, code) in [
        ("started", None),
        // Whoever may write a plan's record may write there that another execution made it.
        ("made-by", Some("NOT_APPROVED")),
    ] {
        let table = Table::new(on).await;
        let store = table.store();
        let now = Timestamp::now();
        let plan = made(&store, Requester::Verified(mara.clone()), true, false).await;
        let note = store.note_requester(noted, "hash", &mara, now).await;
        assert!(note.unwrap(), "{noted}");
        let opened = Recovery::open(&plan, &STARTED.into(), now);
        let held = Claim {
            execution: STARTED.into(),
            plan: plan.id.clone(),
            expires_at: now + SignedDuration::from_hours(2),
        };
        let opened = store.open_recovery(&opened, &held, now).await.unwrap();
        assert_eq!(opened, Opened::Yes);
        ask(&store).await;
        let (link, _) = store.approval_of(&plan.id).await.unwrap().unwrap();
        let (digest, approve) = (plan.digest(), Decision::Approve);
        let decided = store.decide(&link, &digest, approve, person("2"), "", now);
        decided.await.unwrap();
        let step = PlanStep {
            execution: STARTED.into(),
            plan_id: plan.id.clone(),
        };
        let admission = admit_plan(&context(config(true), &store, ()), &step)
            .await
            .unwrap();
        let codes: Vec<_> = admission.refused.iter().map(String::as_str).collect();
        assert_eq!(codes, code.into_iter().collect::<Vec<_>>(), "{noted}");
    }
}

on_both_tables! {
    nobody_turns_a_dry_run_into_a_plan_of_one_person,
    a_dry_run_that_was_taken_over_is_approved_as_one,
    admit_asks_the_note_and_the_configuration_and_not_the_plan,
    with_four_eyes_the_note_is_of_the_execution_that_carries_the_plan_out,
}
