use offset_guard::aws::step_functions::{Started, Taken};
use offset_guard::domain::ids::ExecutionArn;
use offset_guard_tests::step_functions::StepFunctions;
use serde_json::json;

const MACHINE: &str = "arn:aws:states:us-east-1:000000000000:stateMachine:recovery";

#[tokio::test]
async fn the_same_request_is_told_from_another_while_it_runs_and_afterwards() {
    let aws = StepFunctions::start().await.unwrap();
    let executions = aws.executions();
    let arn = ExecutionArn::child(MACHINE, "k").unwrap();
    let (this, other) = (
        json!({"request": {"group": "g"}}),
        json!({"request": {"group": "h"}}),
    );
    let taken = async |input| executions.taken(&arn, input).await.unwrap();
    let start = async |input| executions.start(MACHINE, "k", input).await.unwrap();
    assert_eq!(
        (taken(&this).await, taken(&other).await),
        (Taken::No, Taken::No)
    );
    assert_eq!(start(&this).await, Started::Now(arn.clone()));
    for status in ["RUNNING", "SUCCEEDED", "ABORTED"] {
        aws.put_with(&arn.0, status, &this);
        assert_eq!(
            (taken(&this).await, taken(&other).await),
            (Taken::ByThis, Taken::ByAnother)
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
