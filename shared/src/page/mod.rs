//! temp
mod link;
pub use link::LinkId;
/// temp
pub async fn deliver(
    _: &crate::store::Store,
    _: &crate::executions::Executions,
    _: &crate::store::LinkHash,
    _: &crate::domain::approval::Approval,
    _: jiff::Timestamp,
) -> Result<(), crate::error::Error> {
    Ok(())
}
