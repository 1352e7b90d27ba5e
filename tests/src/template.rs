//! `template.yaml` as data, and who may write what by it.

use std::path::Path;

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value, json};
use wildmatch::WildMatch;

/// Actions that change items.
pub const CHANGES: [&str; 3] = [
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
];

/// What one statement lets a role change of items with a key.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The role's name in the template.
    pub role: String,
    /// The actions, of [`CHANGES`].
    pub actions: Vec<String>,
    /// The attributes that the statement is held to; none for all.
    pub attributes: Option<Vec<String>>,
}

/// One statement of a policy.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// The resource that has it: a role or a policy.
    pub resource: &'a str,
    /// The policy's name.
    pub policy: &'a str,
    /// Whom it is for: the role's own name, or the roles that the policy is attached to.
    roles: Option<&'a Vec<Value>>,
    /// The statement itself.
    pub content: &'a Value,
}

impl<'a> Statement<'a> {
    /// The roles that it is for.
    #[must_use]
    pub fn roles(&self) -> Vec<&'a str> {
        match self.roles {
            None => vec![self.resource],
            Some(roles) => roles.iter().filter_map(named).collect(),
        }
    }

    /// The actions.
    #[must_use]
    pub fn actions(&self) -> Vec<&'a str> {
        texts(&self.content["Action"])
    }

    /// Whether it is about items with this partition key.
    #[must_use]
    pub fn reaches(&self, key: &str) -> bool {
        let condition = &self.content["Condition"]["ForAllValues:StringLike"];
        texts(&condition["dynamodb:LeadingKeys"])
            .iter()
            .any(|pattern| WildMatch::new(pattern).matches(key))
    }

    /// The attributes that it is held to; none for all.
    #[must_use]
    pub fn attributes(&self) -> Option<Vec<&'a str>> {
        let condition = &self.content["Condition"]["ForAllValues:StringEquals"];
        condition.get("dynamodb:Attributes").map(texts)
    }
}

/// A template as JSON. A short tag is an object of its own: `!Ref Table` is `{"Ref": "Table"}`.
///
/// # Errors
/// The text is not YAML, or not one document of text keys.
pub fn parse(text: &str) -> Result<Value, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let [document] = documents.as_slice() else {
        return Err(format!("{} documents", documents.len()));
    };
    to_json(document)
}

/// The template of this checkout.
///
/// # Errors
/// It cannot be read.
pub fn read() -> Result<Value, String> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml"));
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    parse(&text)
}

fn to_json(yaml: &Yaml<'_>) -> Result<Value, String> {
    Ok(match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Integer(value)) => json!(value),
        Yaml::Value(Scalar::FloatingPoint(value)) => json!(value.into_inner()),
        Yaml::Value(Scalar::String(value)) => json!(value),
        Yaml::Sequence(items) => items.iter().map(to_json).collect::<Result<_, _>>()?,
        Yaml::Mapping(fields) => {
            let mut object = Map::new();
            for (key, value) in fields {
                let key = key.as_str().ok_or("a key that is not a text")?;
                object.insert(key.to_owned(), to_json(value)?);
            }
            Value::Object(object)
        }
        Yaml::Tagged(tag, value) => json!({ &tag.suffix: to_json(value)? }),
        other => return Err(format!("unread: {other:?}")),
    })
}

/// The name that a `!Ref`, `!GetAtt` or `!Sub` begins with.
#[must_use]
pub fn named(value: &Value) -> Option<&str> {
    let mut fields = value.as_object()?.values();
    fields.next()?.as_str()?.split('.').next()
}

/// A text, or a list of texts.
#[must_use]
pub fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Every statement of every role and policy.
#[must_use]
pub fn statements(template: &Value) -> Vec<Statement<'_>> {
    let mut found = Vec::new();
    for (resource, content) in template["Resources"].as_object().into_iter().flatten() {
        let properties = &content["Properties"];
        let is_role = content["Type"] == "AWS::IAM::Role";
        let is_policy =
            content["Type"] == "AWS::IAM::Policy" || content["Type"] == "AWS::IAM::ManagedPolicy";
        let policies = match &properties["Policies"] {
            Value::Array(policies) if is_role => policies.iter().collect(),
            _ if is_policy => vec![properties],
            _ => Vec::new(),
        };
        for policy in policies {
            let statements = policy["PolicyDocument"]["Statement"].as_array();
            found.extend(statements.into_iter().flatten().map(|content| Statement {
                resource,
                policy: policy["PolicyName"].as_str().unwrap_or("itself"),
                roles: properties["Roles"].as_array().filter(|_| is_policy),
                content,
            }));
        }
    }
    found
}

/// Who may change items with this partition key, and which of their attributes.
#[must_use]
pub fn writers(template: &Value, key: &str) -> Vec<Grant> {
    let mut grants = Vec::new();
    for statement in statements(template) {
        let changes = |action: &&str| CHANGES.contains(action);
        let actions = statement.actions().into_iter().filter(changes);
        let actions: Vec<String> = actions.map(str::to_owned).collect();
        if actions.is_empty() || !statement.reaches(key) {
            continue;
        }
        let attributes = statement.attributes();
        let attributes = attributes.map(|all| all.into_iter().map(str::to_owned).collect());
        grants.extend(statement.roles().into_iter().map(|role| Grant {
            role: role.to_owned(),
            actions: actions.clone(),
            attributes: attributes.clone(),
        }));
    }
    grants
}
