use offset_guard::ports::{Executions, NameUse, Started};
use offset_guard_tests::step_functions::SimulatedStepFunctions;
use serde_json::json;

#[tokio::test]
async fn the_same_request_is_told_from_another_while_it_runs_and_afterwards() {
    let aws = SimulatedStepFunctions::start().await.unwrap();
    let executions = aws.executions();
    let executions: &dyn Executions = &executions;
    let arn = executions.arn("k").unwrap();
    assert_eq!(
        arn.0,
        "arn:aws:states:us-east-1:000000000000:execution:recovery:k"
    );
    let (this, other) = (
        json!({"request": {"group": "g"}}),
        json!({"request": {"group": "h"}}),
    );
    let taken = async |input| executions.name_use(&arn, input).await.unwrap();
    let start = async |input| executions.start("k", input).await.unwrap();
    assert_eq!(
        (taken(&this).await, taken(&other).await),
        (NameUse::Free, NameUse::Free)
    );
    assert_eq!(start(&this).await, Started::Now(arn.clone()));
    for status in ["RUNNING", "SUCCEEDED", "ABORTED"] {
        aws.put_with(&arn.0, status, &this);
        assert_eq!(
            (taken(&this).await, taken(&other).await),
            (NameUse::SameInput, NameUse::OtherInput)
        );
        assert_eq!(start(&other).await, Started::NameTaken);
        // The service itself says of a repetition that it has begun, while it runs.
        let again = start(&this).await;
        assert_eq!(
            again == Started::Now(arn.clone()),
            status == "RUNNING",
            "{again:?}"
        );
    }
}
