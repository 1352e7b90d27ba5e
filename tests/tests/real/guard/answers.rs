//! What the guard does after a person said no.

use offset_guard::domain::guard::quarantine::Kept;
use offset_guard::domain::refusal::Refusal;
use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::rig::Rig;

on_kafka_4!(
    a_rejected_skip_is_not_proposed_again_unless_a_person_asks,
    a_rejected_rewind_is_not_proposed_again,
);

async fn a_rejected_skip_is_not_proposed_again_unless_a_person_asks(world: &World) -> Outcome {
    let log = ["{}", "not JSON", "{}", "not JSON", "{}"];
    let rig = Rig::new(world, &[], &[&log]).await?;
    rig.bench.commit(&[1]).await?;
    let (id, plan) = rig.until_planned().await?;
    let audit = rig.bench.rejected_plan(&id, "billing needs it").await?;
    assert_eq!(audit.code, "REJECTED");

    let mut started = None;
    for _ in 0..3 {
        let result = rig.tick().await?;
        assert_eq!(
            (&result.withheld[..], result.plan),
            (&["REJECTED_BEFORE".to_owned()][..], None)
        );
        // Told once that it is not proposed, and why; and then not again.
        let now = rig.started().await?;
        assert_eq!(started.get_or_insert_with(|| now.clone()), &now);
    }
    let run = rig.last_run().await?;
    let [
        Refusal::RejectedBefore {
            plan: rejected,
            rejection,
            ..
        },
    ] = &run.withheld[..]
    else {
        return Err(format!("{:?}", run.withheld).into());
    };
    let said = (rejection.by.as_str(), rejection.reason.as_str());
    assert_eq!((rejected, said), (&id, ("somebody", "billing needs it")));

    // Whoever asks for it gets it, with the copy that there is.
    let result = rig.run(&rig.ask("skip_poison_record", &json!({}))).await?;
    let (asked, again) = rig.planned(result).await?;
    assert_eq!(again.skips, plan.skips);
    assert!(matches!(again.skips[0].kept, Kept::In(_)));
    assert_eq!(rig.copies().await?.len(), 1);
    let next = rig.bench.again();
    next.approved_plan(&asked).await?;
    assert_eq!(next.apply(&asked, &[]).await?.accepted, 1);
    next.verify(&asked).await?;
    next.report(&asked).await?;

    // The next record is another one.
    let (group, topic) = (&rig.bench.group, &rig.bench.topic);
    assert_eq!(world.consume(group, topic, 1, 3).await?.len(), 3);
    rig.bench.commit(&[3]).await?;
    for _ in 0..15 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let result = rig.tick().await?;
        if result.plan.is_some() {
            let (_, plan) = rig.planned(result).await?;
            assert_eq!(plan.skips[0].record.offset, 3);
            return Ok(());
        }
    }
    Err("another record is not proposed".into())
}

async fn a_rejected_rewind_is_not_proposed_again(world: &World) -> Outcome {
    let rewind = [("remediation_action", "\"REWIND_OFFSET\"")];
    let rig = Rig::new(world, &rewind, &[&["{}", "{}", "{}"]]).await?;
    rig.bench.commit(&[9]).await?;
    let (id, _) = rig.planned(rig.tick().await?).await?;
    rig.bench.rejected_plan(&id, "").await?;
    for _ in 0..2 {
        let result = rig.tick().await?;
        assert_eq!(
            (&result.withheld[..], result.plan),
            (&["REJECTED_BEFORE".to_owned()][..], None)
        );
    }
    // From another place it is another one.
    rig.bench.commit(&[8]).await?;
    rig.planned(rig.tick().await?).await?;
    Ok(())
}
