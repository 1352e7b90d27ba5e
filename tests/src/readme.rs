//! The commands of README.md, and how each of them is proved.

use std::fs;
use std::path::{Path, PathBuf};

/// An indented block of README.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its first line, counted from 1.
    pub line: usize,
    /// Its text, without the indentation.
    pub text: String,
}

/// How a block is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It is what the product says, not what a person types.
    Shown,
    /// It is run as it stands against the local AWS, by `tests/real/readme.rs`.
    Run,
    /// The same where people sign in, by `tests/real/sign_in.rs`.
    RunWithSignIn,
    /// It is not run, for this reason.
    NotRun(&'static str),
}

/// Every block by what it begins with. One that is not here is not proved, and fails the tests.
pub const BLOCKS: [(&str, Proof); 22] = [
    ("Approval needed:", Proof::Shown),
    ("✖ REFUSED:", Proof::Shown),
    ("✔ VERIFIED:", Proof::Shown),
    (
        "cargo demo",
        Proof::NotRun(
            "it plays for minutes what the tests of the incident and of poisoned groups play in parts",
        ),
    ),
    ("cargo test\n", Proof::NotRun("it is what runs this")),
    (
        "cargo test-pure",
        Proof::NotRun("it is a part of what runs this"),
    ),
    (
        "sudo apt-get install",
        Proof::NotRun(
            "it changes the machine; .ci/run installs the same packages, and preflight's tests hold the list",
        ),
    ),
    (
        "aws secretsmanager create-secret --name offset-guard/slack",
        Proof::Run,
    ),
    (
        "sam build\n",
        Proof::NotRun(
            "it needs an AWS account; its parameters are held to the template's, and the local stack deploys that template",
        ),
    ),
    ("output()", Proof::Run),
    (
        "aws lambda invoke --function-name offset-guard-checkpoint",
        Proof::Run,
    ),
    ("aws dynamodb put-item", Proof::Run),
    (
        "aws stepfunctions start-execution --state-machine-arn \"$MACHINE\" --input '{\"request\"",
        Proof::Run,
    ),
    (
        "aws stepfunctions start-execution --state-machine-arn \"$MACHINE\" --input '{\"plan_id\"",
        Proof::Run,
    ),
    ("aws dynamodb query", Proof::Run),
    (
        "curl -X POST \"$(output ApiUrl)/v1/rewinds\"",
        Proof::RunWithSignIn,
    ),
    ("curl \"$(output ApiUrl)/v1/me\"", Proof::RunWithSignIn),
    (
        "aws secretsmanager put-secret-value --secret-id \"$(output FormKeyArn)\"",
        Proof::RunWithSignIn,
    ),
    (
        "aws lambda invoke --function-name offset-guard-guard --cli-binary-format raw-in-base64-out \\\n",
        Proof::Run,
    ),
    (
        "aws lambda invoke --function-name offset-guard-guard --cli-binary-format raw-in-base64-out --payload",
        Proof::Run,
    ),
    (
        "aws secretsmanager create-secret --name offset-guard/alertmanager",
        Proof::Run,
    ),
    ("curl -X POST \"$(output ApiUrl)/rewinds\"", Proof::Run),
];

/// Commands that stand within a sentence, with why they are not run.
pub const INLINE: [(&str, &str); 5] = [
    ("cargo demo", "see the block"),
    ("cargo test", "a part of what runs this"),
    ("sam build", "see the block"),
    ("sam deploy", "see the block"),
    ("sam delete", "it needs an AWS account"),
];

/// The project's folder.
#[must_use]
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README.md.
///
/// # Errors
/// It cannot be read.
pub fn text() -> std::io::Result<String> {
    fs::read_to_string(project().join("README.md"))
}

/// Every block, in order.
#[must_use]
pub fn blocks(readme: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (line, text) in (1..).zip(readme.lines()) {
        match (text.strip_prefix("    "), blocks.last_mut()) {
            (Some(text), Some(block)) if open => {
                block.text.push_str(text);
                block.text.push('\n');
            }
            (Some(text), _) => {
                blocks.push(Block {
                    line,
                    text: format!("{text}\n"),
                });
                open = true;
            }
            // A blank line within a block ends it: each command is a block of its own.
            (None, _) => open = false,
        }
    }
    blocks
}

/// How a block is proved; `None` for one that nobody knows.
#[must_use]
pub fn proof(block: &Block) -> Option<Proof> {
    let known = BLOCKS
        .iter()
        .find(|(begins, _)| block.text.starts_with(begins));
    known.map(|(_, proof)| *proof)
}

/// The code spans of README.md that are commands.
#[must_use]
pub fn inline(readme: &str) -> Vec<&str> {
    let prose = readme.lines().filter(|line| !line.starts_with("    "));
    let spans = prose.flat_map(|line| line.split('`').skip(1).step_by(2));
    let tools = ["cargo ", "sam ", "aws ", "curl ", "sudo "];
    spans
        .filter(|span| tools.iter().any(|tool| span.starts_with(tool)))
        .collect()
}
