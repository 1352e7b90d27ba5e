//! Approvals that nobody was told of yet.

use super::item::{Attributes, item, text, ttl};
use super::plans::KEPT;
use super::table::Write;
use super::{LinkHash, Result, Store, keys, operation};
use crate::domain::approval::Approval;

impl Store {
    /// Notes by which link nobody could be told of an approval; `None`: somebody was. It is good for this link alone, since
    /// the next one is told anew.
    ///
    /// # Errors
    /// The table cannot be reached.
    pub async fn note_untold(&self, approval: &Approval, link: Option<&LinkHash>) -> Result<()> {
        let note = item(keys::untold(&approval.plan))
            .with_some("link", link.map(|link| text(&link.0)))
            .with("ttl", ttl(approval.approve_by + KEPT));
        operation("note_untold", async {
            self.table.transact(&[Write::put(note)]).await?;
            Ok(())
        })
        .await
    }

    /// Whether nobody was told of an approval.
    ///
    /// # Errors
    /// The table cannot be reached, or the note is damaged.
    pub async fn is_untold(&self, approval: &Approval, link: &LinkHash) -> Result<bool> {
        operation("is_untold", async {
            match self.table.get(&keys::untold(&approval.plan)).await? {
                None => Ok(false),
                Some(note) => Ok(note.some_text("link")? == Some(&link.0)),
            }
        })
        .await
    }
}
