//! An execution that waits for somebody's decision, and the means to meddle with it.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use offset_guard::domain::approval::Approval;
use offset_guard::domain::audit::Audit;
use offset_guard::domain::ids::PlanId;
use offset_guard::domain::offset::GroupId;
use offset_guard::store::{LinkHash, TaskToken};
use offset_guard_local::client::Commit;
use offset_guard_local::operator::{Execution, Function, Invoked, form_token, link_in, text_of};
use offset_guard_tests::{PATIENCE, World};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::json;
use ulid::Ulid;

/// What most of this may fail with.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a browser sends with a form.
pub(crate) const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// How long the requests of one test may take in all.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// What a page answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Everything that a request which must change nothing leaves as it was.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    approval: HashMap<String, AttributeValue>,
    running: bool,
    offsets: Vec<Option<i64>>,
}

/// A rewind from 5 to 2 of one partition, whose execution waits for a decision.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) group: String,
    pub(crate) topic: String,
    pub(crate) execution: Execution,
    pub(crate) plan: PlanId,
    pub(crate) link: String,
    pub(crate) hash: LinkHash,
    http: reqwest::Client,
}

impl Asked {
    /// Asks for a rewind of a new group of this policy.
    pub(crate) async fn of(world: &World, policy: &str) -> Result<Self> {
        // One test may ask for several groups.
        let group = format!("{}-{}", world.group(policy), Ulid::generate());
        Self::with(world, group, "a test").await
    }

    /// Asks for a rewind of `group`, for `reason`.
    pub(crate) async fn with(world: &World, group: String, reason: &str) -> Result<Self> {
        let topic = world.topic(&format!("asked-{}", Ulid::generate()));
        world.filled_topic(&topic, 1, 5).await?;
        let commit = Commit::new(&topic, 0, 5);
        world.client.commit(&group, &[commit]).await?;
        let rewind = json!({"shift_by": -3, "reason": reason});
        let execution = world
            .operator
            .request(world.rewind(&group, &rewind))
            .await?;
        let link = link_of(world, &topic).await?;
        Self::known(world, group, topic, execution, link).await
    }

    /// An execution that was started otherwise, with the link that was told.
    pub(crate) async fn known(
        world: &World,
        group: String,
        topic: String,
        execution: Execution,
        link: String,
    ) -> Result<Self> {
        let hash = hash_of(&link);
        let approval = world.store.approval(&hash).await?;
        Ok(Self {
            plan: approval.ok_or("the link leads to no approval")?.plan,
            http: to_loopback(&link)?,
            group,
            topic,
            execution,
            link,
            hash,
        })
    }

    /// The approval as it is stored.
    pub(crate) async fn approval(&self, world: &World) -> Result<Approval> {
        let approval = world.store.approval(&self.hash).await?;
        Ok(approval.ok_or("the approval is gone")?)
    }

    /// The last word on the execution.
    pub(crate) async fn audit(&self, world: &World) -> Result<Audit> {
        let audit = world.store.audit_of(&self.execution.arn).await?;
        Ok(audit.ok_or("there is no audit record")?)
    }

    /// The token that ends the execution's wait.
    pub(crate) async fn task_token(&self, world: &World) -> Result<TaskToken> {
        let token = world.store.task_token(&self.hash).await?;
        Ok(token.ok_or("there is no task token")?)
    }

    /// The approval's item as the table holds it, the execution and the offsets.
    pub(crate) async fn state(&self, world: &World) -> Result<State> {
        let table = aws_sdk_dynamodb::Client::new(world.operator.sdk());
        let key = format!("APPROVAL#{}", self.hash.as_str());
        let found = table
            .get_item()
            .table_name(world.stack.output("TableName")?)
            .key("pk", AttributeValue::S(key))
            .key("sk", AttributeValue::S("-".to_owned()))
            .consistent_read(true)
            .send()
            .await?;
        Ok(State {
            approval: found.item.ok_or("the approval's item is gone")?,
            running: self.execution.ended().await?.is_none(),
            offsets: self.offsets(world).await?,
        })
    }

    /// What the group has committed.
    pub(crate) async fn offsets(&self, world: &World) -> Result<Vec<Option<i64>>> {
        world.offsets(&self.group, &self.topic, 1).await
    }

    /// Whether the group is claimed for a recovery.
    pub(crate) async fn is_claimed(&self, world: &World) -> Result<bool> {
        let group = GroupId(self.group.clone());
        let claim = world.store.claim(&world.key_of(&group)).await?;
        Ok(claim.is_some())
    }

    /// Lets the sweep look after this execution alone.
    pub(crate) async fn sweep(&self, world: &World) -> Result<serde_json::Value> {
        let event = json!({"step": "sweep", "execution": self.execution.arn});
        let swept = world
            .operator
            .invoke(&world.stack, Function::ApprovalTask, &event);
        match swept.await? {
            Invoked::Returned(swept) => Ok(swept),
            Invoked::Failed { message, .. } => Err(message.into()),
        }
    }

    /// Sends any request to this approval's page.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<Answer> {
        request(&self.http, method, &self.link, headers, body).await
    }

    /// Reads the page.
    pub(crate) async fn get(&self) -> Result<Answer> {
        self.send(Method::GET, &[], None).await
    }

    /// Posts a form as this page's own browser window would.
    pub(crate) async fn post(&self, fields: &[(&str, &str)]) -> Result<Answer> {
        let origin = origin(&self.link)?;
        let headers = [FORM, ("origin", origin.as_str())];
        self.send(Method::POST, &headers, Some(form(fields))).await
    }

    /// The token of the form that the page shows for a decision.
    pub(crate) async fn token(&self, decision: &str) -> Result<String> {
        let page = self.get().await?.body;
        let token = form_token(&page, decision);
        Ok(token.ok_or_else(|| format!("the page has no form to {decision}"))?)
    }

    /// Decides through the page's own form.
    pub(crate) async fn decide(&self, decision: &str, reason: &str) -> Result<Answer> {
        let token = self.token(decision).await?;
        let fields = [
            ("decision", decision),
            ("token", &token),
            ("group", &self.group),
            ("reason", reason),
        ];
        self.post(&fields).await
    }
}

/// The link in the newest message that names `word`.
pub(crate) async fn link_of(world: &World, word: &str) -> Result<String> {
    let named = |message: &serde_json::Value| text_of(message).contains(word);
    let message = world.stack.slack().until(PATIENCE, named).await?;
    let text = text_of(&message);
    Ok(link_in(&text).ok_or("the message has no link")?.to_owned())
}

/// Under which hash a link's approval is stored.
pub(crate) fn hash_of(link: &str) -> LinkHash {
    LinkHash::of(link_id(link))
}

/// The secret part of a link.
pub(crate) fn link_id(link: &str) -> &str {
    link.rsplit('/').next().unwrap_or_default()
}

/// The origin of a page, as browsers write it.
pub(crate) fn origin(link: &str) -> Result<String> {
    Ok(url::Url::parse(link)?.origin().ascii_serialization())
}

/// Fields as a form's body.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

/// A client for which the page's name is loopback: browsers know that of every `*.localhost`, resolvers need not.
pub(crate) fn to_loopback(link: &str) -> Result<reqwest::Client> {
    let url = url::Url::parse(link)?;
    let host = url.host_str().ok_or("the link has no host")?;
    let port = url.port_or_known_default().ok_or("the link has no port")?;
    Ok(reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(REQUEST_LIMIT)
        .resolve(host, ([127, 0, 0, 1], port).into())
        .build()?)
}

/// Sends one request.
pub(crate) async fn request(
    http: &reqwest::Client,
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<String>,
) -> Result<Answer> {
    let mut request = http.request(method, url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.body(body);
    }
    let answer = request.send().await?;
    Ok(Answer {
        status: answer.status().as_u16(),
        headers: answer.headers().clone(),
        body: answer.text().await?,
    })
}
