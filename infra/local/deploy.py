#!/usr/bin/env python3
"""Deploy template.yaml, as it is, to an AWS-compatible endpoint.

Does what `sam package` and `sam deploy` do, with binaries that are already built: every local path in the template is
zipped, put into a bucket under its hash (so that a change is a change to CloudFormation) and replaced by its S3 address.
Creates the stack, or updates it when it exists, and prints the outputs as JSON on stdout. Everything else goes to stderr.

Needs boto3 and PyYAML.
"""

import argparse
import hashlib
import io
import json
import sys
import time
import zipfile
from pathlib import Path

import boto3
import yaml
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

PROJECT = Path(__file__).resolve().parents[2]


class Failure(Exception):
    """What went wrong, in words for the person who ran this."""


class TemplateLoader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags, read as their long forms."""


def short_tag(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else "Fn::" + suffix: value}


TemplateLoader.add_multi_constructor("!", short_tag)


def zipped(files):
    """A zip of (name, mode, bytes) that is the same for the same files, whenever it is made."""
    buffer = io.BytesIO()
    # Not compressed: a debug binary is large, and the emulator unpacks it at once.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, mode, data in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_STORED
            archive.writestr(entry, data)
    return buffer.getvalue()


def read(path, what):
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failure(f"{what}: {path}: {error.strerror}") from error


class Packager:
    def __init__(self, s3, bucket, root, binaries):
        self.s3, self.bucket, self.root, self.binaries = s3, bucket, root, binaries
        self.uploaded = {}

    def upload(self, data, suffix):
        key = hashlib.sha256(data).hexdigest() + suffix
        if key not in self.uploaded:
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=data)
            self.uploaded[key] = f"s3://{self.bucket}/{key}"
        return self.uploaded[key]

    def function(self, uri):
        crate = Path(uri).name
        binary = read(self.binaries / crate / "bootstrap", f"the binary of {crate} is missing")
        return self.upload(zipped([("bootstrap", 0o100755, binary)]), ".zip")

    def layer(self, uri):
        directory = self.root / uri
        files = sorted(p for p in directory.rglob("*") if p.is_file())
        if not files:
            raise Failure(f"the layer's directory holds no file: {directory}")
        return self.upload(
            zipped([(str(p.relative_to(directory)), 0o100644, p.read_bytes()) for p in files]), ".zip"
        )

    def definition(self, uri):
        return self.upload(read(self.root / uri, "the state machine's definition is missing"), ".json")

    def package(self, template):
        """Replace the local paths of a template, in place."""
        packers = {
            "AWS::Serverless::Function": ("CodeUri", self.function),
            "AWS::Serverless::LayerVersion": ("ContentUri", self.layer),
            "AWS::Serverless::StateMachine": ("DefinitionUri", self.definition),
        }
        seen = {}
        for resource in template["Resources"].values():
            name, pack = packers.get(resource["Type"], (None, None))
            if name is None:
                continue
            uri = resource["Properties"][name]
            if uri not in seen:
                seen[uri] = pack(uri)
            resource["Properties"][name] = seen[uri]


def parameters(template, given):
    unknown = set(given) - set(template["Parameters"])
    if unknown:
        raise Failure(f"the template has no parameter {', '.join(sorted(unknown))}")
    return [{"ParameterKey": k, "ParameterValue": v} for k, v in given.items()]


def put_secret(secrets, name, value):
    """Create the secret, or give it a new value; its ARN."""
    try:
        return secrets.create_secret(Name=name, SecretString=value)["ARN"]
    except secrets.exceptions.ResourceExistsException:
        return secrets.put_secret_value(SecretId=name, SecretString=value)["ARN"]


def find_stack(cfn, name):
    try:
        return cfn.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise


def events(cfn, name):
    """The stack's events, newest first."""
    pages = cfn.get_paginator("describe_stack_events").paginate(StackName=name)
    return [e for page in pages for e in page["StackEvents"]]


def failures(cfn, name, known):
    """Why resources failed, oldest first, without the events that were there before."""
    return [
        f"  {e['LogicalResourceId']} ({e['ResourceType']}): {e.get('ResourceStatusReason', e['ResourceStatus'])}"
        for e in reversed(events(cfn, name))
        if e["EventId"] not in known and e["ResourceStatus"].endswith("_FAILED")
    ]


def deploy(cfn, name, template_url, params, timeout):
    request = dict(
        StackName=name,
        TemplateURL=template_url,
        Parameters=params,
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    known = set()
    if find_stack(cfn, name) is None:
        cfn.create_stack(**request)
    else:
        known = {e["EventId"] for e in events(cfn, name)}
        try:
            cfn.update_stack(**request)
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise
            print(f"{name} is up to date", file=sys.stderr)
            return find_stack(cfn, name)

    deadline = time.monotonic() + timeout
    while True:
        stack = find_stack(cfn, name)
        if stack is None:
            raise Failure(f"{name} disappeared while it was being deployed")
        status = stack["StackStatus"]
        if not status.endswith("_IN_PROGRESS"):
            break
        if time.monotonic() > deadline:
            raise Failure(f"{name} is still {status} after {timeout} s")
        time.sleep(0.2)
    if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        reasons = failures(cfn, name, known) or [f"  {stack.get('StackStatusReason', 'no reason given')}"]
        raise Failure("\n".join([f"{name} ended as {status}:", *reasons]))
    return stack


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--endpoint", required=True, help="address of the AWS API, e.g. http://127.0.0.1:4566")
    parser.add_argument("--region", default="eu-west-1")
    parser.add_argument("--stack", default="offset-guard", help="name of the stack")
    parser.add_argument("--template", type=Path, default=PROJECT / "template.yaml")
    parser.add_argument("--binaries", type=Path, required=True, help="directory that holds CRATE/bootstrap")
    parser.add_argument("--config-path", help="configuration file that the functions read (parameter ConfigPath)")
    parser.add_argument("--slack-url", help="put this webhook URL into a secret and pass its ARN (parameter SlackSecretArn)")
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", help="any other parameter of the template")
    parser.add_argument("--secret", action="append", default=[], metavar="NAME=VALUE", help="put the value into a secret and pass its ARN as this parameter")
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS")
    return parser.parse_args()


def pairs(option, given):
    for pair in given:
        if "=" not in pair:
            # Not the pair itself: it may be a secret.
            raise Failure(f"{option} takes NAME=VALUE")
    return dict(pair.split("=", 1) for pair in given)


def run(args):
    given, secrets = pairs("--parameter", args.parameter), pairs("--secret", args.secret)
    template = yaml.load(read(args.template, "the template is missing"), TemplateLoader)

    def client(service):
        # The credentials of a local endpoint are not checked; none of this machine's are sent to it.
        return boto3.client(
            service,
            endpoint_url=args.endpoint,
            region_name=args.region,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(connect_timeout=5, read_timeout=60, retries={"max_attempts": 2}, s3={"addressing_style": "path"}),
        )

    if args.config_path:
        given["ConfigPath"] = args.config_path
    if args.slack_url:
        given["SlackSecretArn"] = put_secret(client("secretsmanager"), f"{args.stack}-slack", args.slack_url)
    for name, value in secrets.items():
        given[name] = put_secret(client("secretsmanager"), f"{args.stack}-{name}", value)
    params = parameters(template, given)

    s3, bucket = client("s3"), f"{args.stack}-artifacts"
    try:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": args.region})
    except (s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists):
        pass
    started = time.monotonic()
    packager = Packager(s3, bucket, args.template.resolve().parent, args.binaries)
    packager.package(template)
    # In the bucket too: as a part of the request it may have 51,200 bytes.
    template_url = packager.upload(json.dumps(template).encode(), ".json").replace("s3://", "https://s3.amazonaws.com/")
    packaged = time.monotonic()
    print(f"packaged {args.template} in {packaged - started:.1f} s", file=sys.stderr)
    stack = deploy(client("cloudformation"), args.stack, template_url, params, args.timeout)
    print(f"{args.stack}: {stack['StackStatus']} in {time.monotonic() - packaged:.1f} s", file=sys.stderr)
    return {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])}


def main():
    try:
        outputs = run(arguments())
    except (Failure, BotoCoreError, ClientError, yaml.YAMLError) as failure:
        print(f"deploy: {failure}", file=sys.stderr)
        return 1
    print(json.dumps(outputs, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
