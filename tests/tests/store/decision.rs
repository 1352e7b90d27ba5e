//! What was decided, against whatever any role may write. Who may write what is read from the template.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use offset_guard::app::approval::admit_plan;
use offset_guard::config::Config;
use offset_guard::domain::approval::{Approval, Decision, Evidence, People, authorize};
use offset_guard::domain::group::GroupObservation;
use offset_guard::domain::offset::Fault;
use offset_guard::domain::plan::{Plan, PlanRecord, PlanResult};
use offset_guard::domain::recovery::{Claim, Recovery};
use offset_guard::domain::rights::Rights;
use offset_guard::domain::testing::pending_approval;
use offset_guard::store::{Decided, Lapse, LinkHash, Store, TaskToken};
use offset_guard::wire::PlanStep;
use offset_guard_tests::context::context;
use offset_guard_tests::template;

use super::approvals::link;
use super::support::{
    Item, Kind, Table, claim, cluster, group, group_key, on_both_tables, plan, plan_id, record,
    recovery,
};

const EXECUTION: &str = "execution-1";
const PAGE: &str = "ApprovalPageRole";

/// What one statement of the template lets a role write.
struct Grant {
    role: String,
    puts: bool,
    updates: bool,
    /// `None` for all.
    attributes: Option<BTreeSet<String>>,
}

fn grants(key: &str) -> Vec<Grant> {
    let template = template::read().unwrap();
    let writers = template::writers(&template, key).into_iter();
    writers
        .map(|writer| {
            let may = |action: &str| writer.actions.iter().any(|found| found == action);
            assert!(!may("dynamodb:DeleteItem"), "{writer:?}");
            Grant {
                puts: may("dynamodb:PutItem"),
                updates: may("dynamodb:UpdateItem"),
                attributes: writer.attributes.map(|all| all.into_iter().collect()),
                role: writer.role,
            }
        })
        .collect()
}

fn config() -> Config {
    let text = "[clusters.local]\nbootstrap_servers = [\"127.0.0.1:1\"]\nauth = \"plaintext\"\n\
                [[groups]]\nname = \"shipment-sync\"\n";
    Config::parse(text).unwrap()
}

/// A recovery that waits for its approval, at the present instant.
struct Case {
    table: Table,
    store: Store,
    plan: Plan,
    approval: Approval,
    /// The approval as it is stored.
    item: Item,
}

impl Case {
    async fn of(on: Kind, how: &str) -> Self {
        let table = Table::new(on).await;
        let store = table.store();
        let now = Timestamp::now();
        let hour = SignedDuration::from_hours(1);
        let approve_by = match how {
            "expired" => now - SignedDuration::from_mins(1),
            _ => now + hour,
        };
        let plan = Plan {
            created_at: now - hour,
            approve_by,
            ..plan(plan_id(1), 3)
        };
        let ready = PlanResult::Ready(plan.clone());
        let made = PlanRecord {
            created_at: plan.created_at,
            ..record(1, ready)
        };
        store.put_plan(&made).await.unwrap();
        let opened = Recovery {
            opened_at: plan.created_at,
            ..recovery(1)
        };
        let held: Claim = claim(1, now + hour * 4);
        store.open_recovery(&opened, &held, now).await.unwrap();
        let approval = Approval {
            execution: EXECUTION.into(),
            created_at: plan.created_at,
            approve_by,
            ..pending_approval(&plan)
        };
        let token = TaskToken::new("token".to_owned());
        store
            .request_approval(&approval, &link(1), &token)
            .await
            .unwrap();
        match how {
            "approved" => decide(&store, &plan, Decision::Approve).await,
            "rejected" => decide(&store, &plan, Decision::Reject).await,
            "closed" => {
                store
                    .close_approval(&link(1), Lapse::Expired)
                    .await
                    .unwrap();
            }
            _ => {}
        }
        let item = stored(&table).await;
        Self {
            table,
            store,
            plan,
            approval,
            item,
        }
    }

    /// What an attacker could write into an attribute.
    fn values(&self, attribute: &str) -> Vec<AttributeValue> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let now = Timestamp::now();
        let hour = SignedDuration::from_hours(1);
        // As the store writes instants, taken from one that it wrote.
        let time = |at: Timestamp| text(&format!("{at:.9}"));
        match attribute {
            "status" => ["PENDING", "APPROVED", "REJECTED", "EXPIRED", "SUPERSEDED"]
                .map(text)
                .into(),
            "decision" => ["approve", "reject"].map(text).into(),
            "plan" => vec![text(&self.plan.id.0)],
            "digest" => vec![text(&self.plan.digest().0)],
            "execution" => vec![text(EXECUTION)],
            "created_at" | "delivered_at" | "decided_at" => vec![time(now)],
            "approve_by" => vec![time(now + hour)],
            "from_dry_run" => vec![AttributeValue::Bool(false)],
            "ttl" => vec![AttributeValue::N("4000000000".to_owned())],
            _ => vec![text("anything")],
        }
    }

    /// That no move follows from the approval as it is now.
    async fn admits_nothing(&self, how: &str) {
        let codes = self.refusals(how).await;
        assert!(!codes.is_empty(), "{how}: admitted");
        let door = self.door().await;
        assert!(
            door.iter().any(|code| codes.contains(code)),
            "{how}: Admit says {codes:?}, and the door {door:?}"
        );
    }

    /// Why Admit does not let it pass.
    async fn refusals(&self, how: &str) -> Vec<String> {
        let step = PlanStep {
            execution: EXECUTION.into(),
            plan_id: self.plan.id.clone(),
        };
        match admit_plan(&context(config(), &self.store, ()), &step).await {
            Ok(admission) => {
                assert_eq!(admission.admitted, admission.refused.is_empty(), "{how}");
                admission.refused
            }
            // What cannot be read admits nothing.
            Err(error) => vec![format!("{error}")],
        }
    }

    /// What the door says of the approval, in a world in which nothing could be read: never that all is well.
    async fn door(&self) -> Vec<String> {
        let approval = match self.store.approval_of(&self.plan.id).await {
            Ok(approval) => approval.map(|(_, approval)| approval),
            Err(error) => return vec![format!("{error}")],
        };
        let now = Timestamp::now();
        let recovery = self.store.recovery(&self.plan.id).await.unwrap().unwrap();
        let claim = self.store.claim(&group_key()).await.unwrap();
        let seen = GroupObservation {
            cluster_id: cluster(),
            group: group(),
            description: Err(Fault::missing()),
            topics: BTreeMap::new(),
            partitions: BTreeMap::new(),
            began_at: now,
            ended_at: now,
        };
        let evidence = Evidence {
            now,
            execution: &EXECUTION.into(),
            approval: approval.as_ref(),
            people: People {
                four_eyes: false,
                noted: None,
            },
            recovery: &recovery,
            claim: claim.as_ref(),
            apply_enabled: true,
            config_hash: &self.plan.config_hash,
            seen: &seen,
            rights: &Rights {
                group: None,
                topics: BTreeMap::new(),
            },
            pre_image: None,
            rereads: &BTreeMap::new(),
        };
        let refused = authorize(&self.plan, &evidence).unwrap_err();
        refused.iter().map(|refusal| refusal.code()).collect()
    }
}

async fn decide(store: &Store, plan: &Plan, decision: Decision) {
    let now = Timestamp::now();
    let decided = store
        .decide(&link(1), &plan.digest(), decision, "grace", "a test", now)
        .await;
    assert!(matches!(decided, Ok(Decided::Now(_))), "{decided:?}");
}

fn hash() -> LinkHash {
    link(1)
}

/// The approval as it is stored, without the token that lies beside it.
async fn stored(table: &Table) -> Item {
    let items = table.items(&format!("APPROVAL#{}", hash().as_str())).await;
    let approval = items.into_iter().find(|item| item.contains_key("status"));
    approval.unwrap()
}

async fn an_approved_plan_is_admitted_and_one_of_an_earlier_release_is_not(on: Kind) {
    let case = Case::of(on, "approved").await;
    assert_eq!(case.refusals("approved").await, Vec::<String>::new());
    let door = case.door().await;
    for code in ["NOT_APPROVED", "REJECTED", "APPROVAL_EXPIRED"] {
        assert!(!door.iter().any(|found| found == code), "{door:?}");
    }
    assert_eq!(
        case.item["decision"],
        AttributeValue::S("approve".to_owned())
    );
    let mut old = case.item.clone();
    old.remove("decision");
    case.table.put(old).await;
    case.admits_nothing("without a decision").await;
    assert_eq!(case.refusals("old").await, ["NOT_APPROVED"]);
}

async fn whatever_any_role_but_the_pages_writes_no_move_follows(on: Kind) {
    let grants = grants(&format!("APPROVAL#{}", hash().as_str()));
    let roles: BTreeSet<_> = grants.iter().map(|grant| grant.role.as_str()).collect();
    assert!(roles.contains(PAGE) && roles.len() > 2, "{roles:?}");
    for how in ["rejected", "pending", "expired", "closed"] {
        let case = Case::of(on, how).await;
        case.admits_nothing(how).await;
        for grant in grants.iter().filter(|grant| grant.role != PAGE) {
            let role = &grant.role;
            let attributes = grant.attributes.as_ref();
            let attributes = attributes.unwrap_or_else(|| panic!("{role} may write everything"));
            let of_value = |name: &str| !matches!(name, "pk" | "sk");
            let open: Vec<_> = attributes.iter().filter(|name| of_value(name)).collect();
            // One at a time, and with every status all others at once.
            for name in &open {
                for value in case.values(name) {
                    let flipped = case.item.clone();
                    let flipped = with(flipped, [(name.as_str(), value.clone())]);
                    try_item(
                        &case,
                        grant,
                        flipped,
                        &format!("{how}: {role}, {name} {value:?}"),
                    )
                    .await;
                }
            }
            for status in case.values("status") {
                let all = open.iter().map(|name| {
                    let value = case.values(name).remove(0);
                    (name.as_str(), value)
                });
                let mut flipped = with(case.item.clone(), all);
                if attributes.contains("status") {
                    flipped = with(flipped, [("status", status.clone())]);
                }
                try_item(
                    &case,
                    grant,
                    flipped,
                    &format!("{how}: {role}, all, {status:?}"),
                )
                .await;
            }
        }
    }
}

/// Roles that may close an approval may set its status to what it was before.
async fn what_is_decided_stays_so_whatever_its_status_says(on: Kind) {
    let case = Case::of(on, "rejected").await;
    let open = [("status", AttributeValue::S("PENDING".to_owned()))];
    case.table.put(with(case.item.clone(), open)).await;
    let digest = case.plan.digest();
    let (decision, now) = (Decision::Approve, Timestamp::now());
    let again = case
        .store
        .decide(&hash(), &digest, decision, "heidi", "a test", now)
        .await;
    let Ok(Decided::Already(stands)) = again else {
        panic!("{again:?}");
    };
    assert_eq!(stands.decision, Some(Decision::Reject));
    case.admits_nothing("decided again").await;
}

fn with<'a>(mut item: Item, values: impl IntoIterator<Item = (&'a str, AttributeValue)>) -> Item {
    for (name, value) in values {
        item.insert(name.to_owned(), value);
    }
    item
}

/// Writes what a role makes of the approval, as an update and as an item of its own, and puts the approval back.
async fn try_item(case: &Case, grant: &Grant, flipped: Item, how: &str) {
    if grant.updates {
        case.table.put(flipped.clone()).await;
        case.admits_nothing(&format!("{how}, updated")).await;
    }
    if grant.puts {
        // An item that is put has the attributes that the role may write, and no other.
        let attributes = grant.attributes.as_ref();
        let mut put = flipped;
        put.retain(|name, _| attributes.is_some_and(|all| all.contains(name)));
        case.table.put(put).await;
        case.admits_nothing(&format!("{how}, put")).await;
    }
    case.table.put(case.item.clone()).await;
}

async fn every_step_writes_no_more_of_an_approval_than_its_role_may(on: Kind) {
    let grants = grants(&format!("APPROVAL#{}", hash().as_str()));
    let may = |role: &str, puts: bool| -> BTreeSet<String> {
        grants
            .iter()
            .filter(|grant| grant.role == role && if puts { grant.puts } else { grant.updates })
            .flat_map(|grant| grant.attributes.clone().unwrap_or_default())
            .collect()
    };
    let case = Case::of(on, "pending").await;
    let from_dry_run = Approval {
        from_dry_run: true,
        plan: plan_id(2),
        ..case.approval.clone()
    };
    let token = TaskToken::new("token".to_owned());
    case.store
        .request_approval(&from_dry_run, &link(2), &token)
        .await
        .unwrap();
    let asked = may("ApprovalTaskRole", true);
    for n in [1, 2] {
        for item in case
            .table
            .items(&format!("APPROVAL#{}", link(n).as_str()))
            .await
        {
            for name in item.keys() {
                assert!(asked.contains(name), "asking writes {name}");
            }
        }
    }
    let before = stored(&case.table).await;
    case.store
        .close_approval(&link(1), Lapse::Expired)
        .await
        .unwrap();
    case.store
        .mark_delivered(&link(1), Timestamp::now())
        .await
        .unwrap();
    let after = stored(&case.table).await;
    let changed = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value));
    let changed: BTreeSet<_> = changed.map(|(name, _)| name.clone()).collect();
    assert_eq!(
        changed,
        BTreeSet::from(["delivered_at".to_owned(), "status".to_owned()])
    );
    for role in ["ApprovalTaskRole", "RewindRole"] {
        assert!(may(role, false).contains("status"), "{role}");
    }
    assert!(may("ApprovalTaskRole", false).is_superset(&changed));
}

on_both_tables! {
    an_approved_plan_is_admitted_and_one_of_an_earlier_release_is_not,
    whatever_any_role_but_the_pages_writes_no_move_follows,
    what_is_decided_stays_so_whatever_its_status_says,
    every_step_writes_no_more_of_an_approval_than_its_role_may,
}
