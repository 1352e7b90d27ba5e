use super::*;
use crate::testing::*;

use AlterAnswer::{Accepted, GroupActive, Rejected};
use PartitionOutcome::{Applied, AppliedThenMoved, NotApplied, Overwritten, Unknown};

type Seen = Result<Option<CommittedOffset>, Fault>;

/// A plan for partition 1, from one commit to another.
fn one(from: Option<CommittedOffset>, to: Option<CommittedOffset>) -> Plan {
    let mut plan = Scene::incident().ready();
    plan.moves[0].from = from;
    plan.moves[0].to = to;
    plan
}

/// Judges the plan of one partition.
fn judged(
    plan: &Plan,
    stored: bool,
    answer: Option<AlterAnswer>,
    now: Option<Seen>,
) -> (Outcome, PartitionOutcome) {
    let before = pre_image(plan);
    let answers = answer.map(|answer| (p(1), answer)).into_iter().collect();
    let now = now.map(|now| (p(1), now)).into_iter().collect();
    let (outcome, mut each) = judge(plan, stored.then_some(&before), &answers, &now, false);
    (outcome, each.remove(&p(1)).unwrap())
}

/// What is said of a rewind from 43 to 31 where the group was seen without members afterwards.
fn judged_memberless(answer: Option<AlterAnswer>, now: i64) -> (Outcome, PartitionOutcome) {
    let plan = one(Some(commit(43)), Some(commit(31)));
    let answers = answer.map(|answer| (p(1), answer)).into_iter().collect();
    let now = [(p(1), Ok(Some(commit(now))))].into();
    let (outcome, mut each) = judge(&plan, Some(&pre_image(&plan)), &answers, &now, true);
    (outcome, each.remove(&p(1)).unwrap())
}

#[test]
fn no_consumer_has_gone_on_in_a_group_without_members() {
    let overwritten = |now| Overwritten { now: Some(now) };
    // What writes from outside may write anything, and what it writes is no consumer's progress.
    for now in [20, 36, 50] {
        assert_eq!(
            judged_memberless(Some(Accepted), now),
            (Outcome::Overwritten, overwritten(now))
        );
    }
    assert_eq!(
        judged_memberless(Some(Accepted), 31),
        (Outcome::Verified, Applied)
    );
    assert_eq!(
        judged_memberless(Some(Accepted), 43),
        (
            Outcome::Unknown,
            unknown("accepted by the broker, but still at 43")
        )
    );
    // Between target and pre-image, a lost reply: a consumer would have had to begin at the target. Others need not.
    assert_eq!(
        judged_memberless(timed_out(), 38),
        (Outcome::Unknown, unknown("38"))
    );
    assert_eq!(
        judged_memberless(rejected(), 43),
        (Outcome::NotApplied, NotApplied)
    );
}

fn seen_at(offset: i64) -> Option<Seen> {
    Some(Ok(Some(commit(offset))))
}

fn timed_out() -> Option<AlterAnswer> {
    Some(AlterAnswer::Unknown("REQUEST_TIMED_OUT".into()))
}

fn active() -> Option<AlterAnswer> {
    Some(GroupActive("UNKNOWN_MEMBER_ID".into()))
}

fn rejected() -> Option<AlterAnswer> {
    Some(Rejected("OFFSET_METADATA_TOO_LARGE".into()))
}

fn unknown(seen: &str) -> PartitionOutcome {
    Unknown {
        seen: seen.to_owned(),
    }
}

fn then_moved(now: i64) -> PartitionOutcome {
    AppliedThenMoved { now: Some(now) }
}

/// The table of a rewind from 43 to 31: what was stored and answered, what is seen, and what may be said of it.
#[test]
fn a_rewind() {
    let plan = one(Some(commit(43)), Some(commit(31)));
    type Case = (
        &'static str,
        bool,
        Option<AlterAnswer>,
        Option<Seen>,
        PartitionOutcome,
    );
    let cases: Vec<Case> = vec![
        // Never sent: there is no pre-image.
        (
            "not sent, still there",
            false,
            None,
            seen_at(43),
            NotApplied,
        ),
        (
            "a rewind never sent reads past its target too",
            false,
            None,
            seen_at(50),
            NotApplied,
        ),
        (
            "not sent, and it reads as if it had been applied",
            false,
            None,
            seen_at(38),
            NotApplied,
        ),
        ("not sent, not read", false, None, None, NotApplied),
        (
            "not sent, and somebody else moved it to the target",
            false,
            None,
            seen_at(31),
            unknown("at the target, though nothing was sent"),
        ),
        // May have been sent, and nothing was answered: killed, or its reply lost.
        ("no answer, at the target", true, None, seen_at(31), Applied),
        (
            "no answer, still there",
            true,
            None,
            seen_at(43),
            NotApplied,
        ),
        (
            "no answer, between: it was back, and consumers went on",
            true,
            None,
            seen_at(38),
            then_moved(38),
        ),
        (
            "no answer, beyond: 50 is no proof of having been at 31",
            true,
            None,
            seen_at(50),
            unknown("50"),
        ),
        (
            "no answer, before the target",
            true,
            None,
            seen_at(20),
            unknown("20"),
        ),
        (
            "no answer, at the target's offset with other metadata",
            true,
            None,
            Some(Ok(Some(with_metadata(31, "other")))),
            unknown("31"),
        ),
        (
            "no answer, at the pre-image's offset with other metadata",
            true,
            None,
            Some(Ok(Some(with_metadata(43, "other")))),
            unknown("43"),
        ),
        (
            "no answer, no commit",
            true,
            None,
            Some(Ok(None)),
            unknown("no commit"),
        ),
        (
            "timed out, at the target",
            true,
            timed_out(),
            seen_at(31),
            Applied,
        ),
        (
            "timed out, still there",
            true,
            timed_out(),
            seen_at(43),
            NotApplied,
        ),
        (
            "timed out, beyond",
            true,
            timed_out(),
            seen_at(44),
            unknown("44"),
        ),
        // Accepted, and that is on record.
        ("accepted", true, Some(Accepted), seen_at(31), Applied),
        (
            "accepted, and consumers went on",
            true,
            Some(Accepted),
            seen_at(38),
            then_moved(38),
        ),
        (
            "accepted, and consumers went on beyond the pre-image",
            true,
            Some(Accepted),
            seen_at(50),
            then_moved(50),
        ),
        (
            "accepted, and the same offset was committed again",
            true,
            Some(Accepted),
            Some(Ok(Some(with_metadata(31, "again")))),
            AppliedThenMoved { now: Some(31) },
        ),
        (
            "accepted, and nothing happened",
            true,
            Some(Accepted),
            seen_at(43),
            unknown("accepted by the broker, but still at 43"),
        ),
        (
            "accepted, and before the target: no consumer goes back",
            true,
            Some(Accepted),
            seen_at(20),
            unknown("20"),
        ),
        (
            "accepted, and the commit is gone",
            true,
            Some(Accepted),
            Some(Ok(None)),
            unknown("no commit"),
        ),
        // Rejected, and that is on record.
        (
            "rejected, still there",
            true,
            rejected(),
            seen_at(43),
            NotApplied,
        ),
        (
            "rejected because members are back, still there",
            true,
            active(),
            seen_at(43),
            NotApplied,
        ),
        (
            "rejected because members are back, and they went on",
            true,
            active(),
            seen_at(50),
            NotApplied,
        ),
        (
            "rejected, and between",
            true,
            active(),
            seen_at(38),
            unknown("38"),
        ),
        (
            "rejected, and the commit is gone",
            true,
            rejected(),
            Some(Ok(None)),
            unknown("no commit"),
        ),
        (
            "rejected, and at the target all the same",
            true,
            rejected(),
            seen_at(31),
            Applied,
        ),
        // Not seen.
        (
            "accepted, and not read back",
            true,
            Some(Accepted),
            None,
            unknown("the answer left it out"),
        ),
        (
            "accepted, and reading it back failed",
            true,
            Some(Accepted),
            Some(Err(Fault::NoLeader)),
            unknown("the partition has no leader"),
        ),
    ];
    for (n, (what, stored, answer, now, expected)) in cases.into_iter().enumerate() {
        let (_, outcome) = judged(&plan, stored, answer, now);
        assert_eq!(outcome, expected, "case {}: {what}", n + 1);
    }
}

/// Consumers reach what lies ahead by themselves, so a position there proves no move forward.
#[test]
fn a_move_forward() {
    let plan = one(Some(commit(31)), Some(commit(43)));
    let is = |answer, now| judged(&plan, true, answer, now).1;
    assert_eq!(is(None, seen_at(43)), Applied);
    assert_eq!(is(None, seen_at(31)), NotApplied);
    assert_eq!(is(None, seen_at(38)), unknown("38"));
    assert_eq!(is(None, seen_at(50)), unknown("50"));
    assert_eq!(is(Some(Accepted), seen_at(50)), then_moved(50));
    assert_eq!(is(Some(Accepted), seen_at(38)), unknown("38"));
    assert_eq!(is(active(), seen_at(38)), NotApplied);
}

#[test]
fn bringing_back_and_removing() {
    let back = one(None, Some(commit(31)));
    let is = |answer, now| judged(&back, true, answer, now).1;
    assert_eq!(is(None, seen_at(31)), Applied);
    assert_eq!(is(None, Some(Ok(None))), NotApplied);
    assert_eq!(is(None, seen_at(38)), unknown("38"));
    assert_eq!(is(Some(Accepted), seen_at(38)), then_moved(38));
    assert_eq!(
        is(Some(Accepted), Some(Ok(None))),
        unknown("accepted by the broker, but still at no commit")
    );
    assert_eq!(is(active(), seen_at(3)), unknown("3"));

    let removal = one(Some(commit(31)), None);
    let is = |answer, now| judged(&removal, true, answer, now).1;
    assert_eq!(is(None, Some(Ok(None))), Applied);
    assert_eq!(is(None, seen_at(31)), NotApplied);
    assert_eq!(is(Some(Accepted), seen_at(5)), then_moved(5));
    assert_eq!(is(None, seen_at(5)), unknown("5"));
}

/// What is said of the whole, from what is said of its partitions.
#[test]
fn the_whole() {
    use Outcome as O;
    let (a, m, n) = (Applied, then_moved(38), NotApplied);
    let u = unknown("50");
    let cases: [(&[&PartitionOutcome], Outcome); 11] = [
        (&[&a, &a], O::Verified),
        (&[&a], O::Verified),
        (&[&n, &n], O::NotApplied),
        (&[&m, &m], O::AppliedThenMoved),
        (&[&a, &m], O::AppliedThenMoved),
        (&[&a, &n], O::PartiallyApplied),
        (&[&m, &n], O::PartiallyApplied),
        (&[&a, &m, &n], O::PartiallyApplied),
        (&[&a, &u], O::Unknown),
        (&[&n, &u], O::Unknown),
        (&[&u], O::Unknown),
    ];
    for (each, expected) in cases {
        assert_eq!(overall(each.iter().copied()), expected, "{each:?}");
        let settled = matches!(expected, O::Verified | O::NotApplied | O::AppliedThenMoved);
        assert_eq!(expected.is_settled(), settled, "{expected:?}");
    }
}

#[test]
fn a_partition_that_the_pre_image_lacks_proves_nothing() {
    let plan = one(Some(commit(43)), Some(commit(31)));
    let now = [(p(1), Ok(Some(commit(31))))].into();
    let (outcome, each) = judge(
        &plan,
        Some(&PreImage::default()),
        &BTreeMap::new(),
        &now,
        false,
    );
    assert_eq!(outcome, Outcome::Unknown);
    assert_eq!(each[&p(1)], unknown("it is not in the pre-image"));
}

/// Of two tries, the answer that leaves more open stands, whichever came first.
#[test]
fn a_later_rejection_does_not_take_back_what_a_lost_request_may_have_done() {
    let lost = || AlterAnswer::Unknown("REQUEST_TIMED_OUT".into());
    let no = || GroupActive("UNKNOWN_MEMBER_ID".into());
    for (one, other, stands) in [
        (lost(), no(), lost()),
        (no(), lost(), lost()),
        (Accepted, lost(), Accepted),
        (lost(), Accepted, Accepted),
        (Accepted, no(), Accepted),
        (no(), Rejected("B".into()), no()),
    ] {
        assert_eq!(one.or(other), stands);
    }
}

#[test]
fn a_pre_image_survives_json_whose_keys_are_text() {
    let image = pre_image(&Scene::incident().ready());
    let json = serde_json::to_string(&image).unwrap();
    assert_eq!(serde_json::from_str::<PreImage>(&json).unwrap(), image);
}

/// The stored form of earlier releases is read, and written while they can understand it.
#[test]
fn a_pre_image_says_what_was_sent_and_keeps_its_old_form_where_that_is_the_plans_own() {
    let p = |n| TopicPartition::new("t", n);
    let old = r#"[[{"topic":"t","partition":0},{"offset":43,"leader_epoch":4,"metadata":[97]}]]"#;
    let read: PreImage = serde_json::from_str(old).unwrap();
    let then = CommittedOffset {
        metadata: b"a".to_vec(),
        ..commit(43)
    };
    assert_eq!(read, PreImage::of([(p(0), Some(then))].into()));
    let json = |image: &PreImage| serde_json::to_value(image).unwrap();
    assert!(json(&read).is_array());
    let raised = PreImage {
        raised: [(p(0), 9)].into(),
        ..read
    };
    assert!(json(&raised).is_object());
    let back: PreImage = serde_json::from_value(json(&raised)).unwrap();
    assert_eq!(back, raised);
}

#[test]
fn a_target_that_rose_is_judged_by_what_was_sent() {
    let plan = one(Some(commit(43)), Some(CommittedOffset::bare(7)));
    let at = plan.moves[0].partition.clone();
    let mut image = pre_image(&plan);
    image.raised.insert(at.clone(), 9);
    let judged = |now: i64, answer: Option<AlterAnswer>| {
        let answers = answer.map(|answer| (at.clone(), answer));
        let now = Ok(Some(CommittedOffset::bare(now)));
        let (_, mut each) = judge(
            &plan,
            Some(&image),
            &answers.into_iter().collect(),
            &[(at.clone(), now)].into(),
            false,
        );
        each.remove(&at).unwrap()
    };
    let accepted = || Some(Accepted);
    assert_eq!(judged(9, accepted()), Applied);
    assert_eq!(judged(11, accepted()), then_moved(11));
    assert_eq!(judged(7, accepted()), unknown("7"), "nobody sent that");
    assert_eq!(
        judged(8, timed_out()),
        unknown("8"),
        "not between what was sent and before"
    );
    assert_eq!(judged(11, timed_out()), then_moved(11));
}
