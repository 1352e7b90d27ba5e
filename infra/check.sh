#!/usr/bin/env bash
# Check template.yaml and infra/recovery.asl.json without an AWS account. The project's own rules about both are tests
# (tests/tests/wiring).
# Installs what it needs, at fixed versions, into target/check; a second run installs nothing.
set -euo pipefail

SAM_CLI=1.170.0
CFN_LINT=1.58.0
ASL_VALIDATOR=4.0.0

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$project/target/check
failed=0

need() {
    command -v "$1" >/dev/null || {
        echo "infra/check.sh needs $1: $2" >&2
        exit 1
    }
}

install_tools() {
    local wanted="aws-sam-cli $SAM_CLI cfn-lint $CFN_LINT asl-validator $ASL_VALIDATOR"
    [[ -f $tools/installed && $(<"$tools/installed") == "$wanted" ]] && return
    echo "== installing $wanted into target/check (about a minute, once)"
    rm -rf "$tools/venv" "$tools/npm" "$tools/installed"
    mkdir -p "$tools"
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check \
        "aws-sam-cli==$SAM_CLI" "cfn-lint==$CFN_LINT"
    npm install --silent --no-fund --no-audit --prefix "$tools/npm" "asl-validator@$ASL_VALIDATOR"
    echo "$wanted" >"$tools/installed"
}

# Every check runs, so that one run shows all that is wrong.
check() {
    local what=$1
    shift
    echo "== $what"
    "$@" || {
        echo "FAILED: $what" >&2
        failed=1
    }
}

need python3 "apt install python3 python3-venv"
need npm "apt install npm"
install_tools
cd "$project"

# Only local rules are used; a region has to be named, and nothing is to be reported home.
export AWS_DEFAULT_REGION=eu-west-1 SAM_CLI_TELEMETRY=0
check "template.yaml: cfn-lint" "$tools/venv/bin/cfn-lint" template.yaml
check "template.yaml: the SAM transform" "$tools/venv/bin/sam" validate --template template.yaml
check "recovery.asl.json: the states language" \
    "$tools/npm/node_modules/.bin/asl-validator" --json-path infra/recovery.asl.json

exit $failed
