//! The commands in README.md and the pages of infra/docs, and how each of them is proved.

use std::fs;
use std::path::{Path, PathBuf};

/// A page for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its path in the project, such as `infra/docs/guard.md`.
    pub name: String,
    /// Its Markdown.
    pub text: String,
}

/// An indented block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The name of its page.
    pub page: String,
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
pub const BLOCKS: [(&str, Proof); 25] = [
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
        "cargo test --package offset-guard --test config",
        Proof::NotRun("it is a part of what runs this"),
    ),
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
        "cargo run -p offset-guard-tests --bin situations",
        Proof::NotRun("it plays for many minutes; the tests play a part of the situations"),
    ),
    (
        "sam build && sam deploy --guided",
        Proof::NotRun("it needs an AWS account and answers"),
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

/// README.md and every page of infra/docs, by name.
///
/// # Errors
/// The folder or a page cannot be read.
pub fn pages() -> std::io::Result<Vec<Page>> {
    let folder = "infra/docs";
    let mut names = vec!["README.md".to_owned()];
    for entry in fs::read_dir(project().join(folder))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            names.push(format!("{folder}/{name}"));
        }
    }
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(project().join(&name))?;
        Ok(Page { name, text })
    };
    names.into_iter().map(read).collect()
}

/// Every block of these pages, in order.
#[must_use]
pub fn blocks(pages: &[Page]) -> Vec<Block> {
    pages.iter().flat_map(blocks_of_page).collect()
}

fn blocks_of_page(page: &Page) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (line, text) in (1..).zip(page.text.lines()) {
        match (text.strip_prefix("    "), blocks.last_mut()) {
            (Some(text), Some(block)) if open => {
                block.text.push_str(text);
                block.text.push('\n');
            }
            (Some(text), _) => {
                blocks.push(Block {
                    page: page.name.clone(),
                    line,
                    text: format!("{text}\n"),
                });
                open = true;
            }
            // A blank line ends a block: each command is its own block.
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

/// The code spans of a page that are commands.
#[must_use]
pub fn inline(page: &Page) -> Vec<&str> {
    let prose = page.text.lines().filter(|line| !line.starts_with("    "));
    let spans = prose.flat_map(|line| line.split('`').skip(1).step_by(2));
    let tools = ["cargo ", "sam ", "aws ", "curl ", "sudo "];
    spans
        .filter(|span| tools.iter().any(|tool| span.starts_with(tool)))
        .collect()
}
