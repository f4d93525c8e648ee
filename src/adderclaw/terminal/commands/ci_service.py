"""The CI service that a job runs on, GitHub or GitLab, as its environment describes it."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from adderclaw.core.errors import AdderClawError, PathRefused, UsageError
from adderclaw.core.types import Json

MOST_ANSWER = 1 << 20
FORK = (
    "the changes come from a fork, whose branch this job may not write to: use finish: comment, or run the job on a"
    " branch of this repository"
)


class Service(Protocol):
    def require_own_repository(self) -> None:
        """Refuses a job on the branch of a fork."""
        ...

    def require_thread(self) -> None:
        """Refuses a job that belongs to no pull request, merge request or issue."""
        ...

    def branch(self) -> str:
        """The checked-out branch if the service names it; otherwise empty."""
        ...

    def remote(self) -> str: ...
    def authorization(self) -> str:
        """What git sends as the value of a basic Authorization header."""
        ...

    def push_options(self) -> Sequence[str]:
        """Options of a push to the branch itself."""
        ...

    def job(self) -> str: ...
    def commit_address(self, commit: str) -> str: ...
    def request_merge(self, branch: str, into: str, title: str, body: str) -> str: ...
    def comment(self, body: str) -> str: ...


def service(env: Mapping[str, str]) -> Service:
    if env.get("GITHUB_ACTIONS") == "true":
        return GitHub(env)
    if env.get("GITLAB_CI") == "true":
        return GitLab(env)
    raise UsageError("this is not a job of GitHub Actions or GitLab CI: neither GITHUB_ACTIONS nor GITLAB_CI is `true`")


@dataclass(frozen=True)
class GitHub:
    env: Mapping[str, str]

    def require_own_repository(self) -> None:
        request = json_object_of(self._event().get("pull_request"))
        head = json_object_of(json_object_of(request.get("head")).get("repo")).get("full_name", "")
        if request and head != self.env["GITHUB_REPOSITORY"]:
            raise UsageError(FORK)

    def require_thread(self) -> None:
        self._number()

    def branch(self) -> str:
        return ""  # a pull request is checked out as a merge of its branch, unless the workflow names the branch

    def remote(self) -> str:
        return f"{self.env['GITHUB_SERVER_URL']}/{self.env['GITHUB_REPOSITORY']}.git"

    def authorization(self) -> str:
        return _basic("x-access-token", _token(self.env, "GITHUB_TOKEN"))

    def push_options(self) -> Sequence[str]:
        return ()  # a push with the job's own token starts no workflow

    def job(self) -> str:
        env = self.env
        return f"{env['GITHUB_SERVER_URL']}/{env['GITHUB_REPOSITORY']}/actions/runs/{env.get('GITHUB_RUN_ID', '')}"

    def commit_address(self, commit: str) -> str:
        return f"{self.env['GITHUB_SERVER_URL']}/{self.env['GITHUB_REPOSITORY']}/commit/{commit}"

    def request_merge(self, branch: str, into: str, title: str, body: str) -> str:
        pull_request = self._post("pulls", {"title": title, "head": branch, "base": into, "body": body})
        return str(pull_request.get("html_url", ""))

    def comment(self, body: str) -> str:
        return str(self._post(f"issues/{self._number()}/comments", {"body": body}).get("html_url", ""))

    def _post(self, path: str, body: Json) -> Json:
        address = f"{self.env['GITHUB_API_URL']}/repos/{self.env['GITHUB_REPOSITORY']}/{path}"
        headers = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
        headers["authorization"] = f"Bearer {_token(self.env, 'GITHUB_TOKEN')}"
        return _post_json(address, headers, body)

    def _number(self) -> int:
        event = self._event()
        number = json_object_of(event.get("pull_request") or event.get("issue")).get("number")
        if not isinstance(number, int):
            name = self.env.get("GITHUB_EVENT_NAME", "")
            raise UsageError(f"the event {name!r} has no pull request and no issue to comment on")
        return number

    def _event(self) -> Json:
        try:
            with open(self.env.get("GITHUB_EVENT_PATH", ""), encoding="utf-8") as file:
                return json_object_of(json.load(file))
        except (OSError, ValueError):
            return {}


@dataclass(frozen=True)
class GitLab:
    env: Mapping[str, str]

    def require_own_repository(self) -> None:
        source = self.env.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "")
        if source and source != self.env["CI_PROJECT_ID"]:
            raise UsageError(FORK)
        if self.env.get("CI_MERGE_REQUEST_EVENT_TYPE") in ("merged_result", "merge_train"):
            fix = "run the job in a branch pipeline, or switch merged results pipelines off"
            raise UsageError(f"a merged result is checked out, and nothing can be committed to that: {fix}")
        self.branch()

    def require_thread(self) -> None:
        if not self.env.get("CI_MERGE_REQUEST_IID"):
            raise UsageError("this pipeline has no merge request to comment on: let a merge request start it")

    def branch(self) -> str:
        name = self.env.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or self.env.get("CI_COMMIT_BRANCH")
        if not name:
            raise UsageError("this pipeline runs on no branch, so nothing can be committed to one")
        return name

    def remote(self) -> str:
        return f"{self.env['CI_SERVER_URL']}/{self.env['CI_PROJECT_PATH']}.git"

    def authorization(self) -> str:
        return _basic("oauth2", _token(self.env, "GITLAB_TOKEN"))

    def push_options(self) -> Sequence[str]:
        return ("--push-option=ci.skip",)  # or the commit would start this job again

    def job(self) -> str:
        return self.env.get("CI_JOB_URL", "")

    def commit_address(self, commit: str) -> str:
        return f"{self.env['CI_PROJECT_URL']}/-/commit/{commit}"

    def request_merge(self, branch: str, into: str, title: str, body: str) -> str:
        request = {"source_branch": branch, "target_branch": into, "title": title, "description": body}
        return str(self._post("merge_requests", {**request, "remove_source_branch": True}).get("web_url", ""))

    def comment(self, body: str) -> str:
        self._post(f"merge_requests/{self.env['CI_MERGE_REQUEST_IID']}/notes", {"body": body})
        return f"{self.env['CI_PROJECT_URL']}/-/merge_requests/{self.env['CI_MERGE_REQUEST_IID']}"

    def _post(self, path: str, body: Json) -> Json:
        address = f"{self.env['CI_API_V4_URL']}/projects/{self.env['CI_PROJECT_ID']}/{path}"
        return _post_json(address, {"private-token": _token(self.env, "GITLAB_TOKEN")}, body)


def json_object_of(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _token(env: Mapping[str, str], name: str) -> str:
    if not env.get(name):
        raise UsageError(f"{name} is empty: this step needs a token, as docs/ci.md describes")
    return env[name]


def _basic(user: str, token: str) -> str:
    return base64.b64encode(f"{user}:{token}".encode()).decode()


def _post_json(address: str, headers: Mapping[str, str], body: Json) -> Json:
    """Posts JSON. The service may be on this machine or in a private network."""
    import asyncio

    from adderclaw.models.http import client, urls

    url = urls.parse(address, "POST")
    all_headers = {"content-type": "application/json", **headers}
    hosts = urls.Hosts.named_by_operator(url)
    content = json.dumps(body).encode()
    asking = client.request(url, headers=all_headers, hosts=hosts, seconds=60.0, limit=MOST_ANSWER, content=content)
    try:
        answer = asyncio.run(asking)
    except (client.Failed, PathRefused) as error:
        raise AdderClawError(f"{address} cannot be reached: {error}") from error
    if answer.status >= 300:
        raise AdderClawError(f"{address} answered {answer.status}: {answer.body[:500].decode('utf-8', 'replace')}")
    try:
        return json_object_of(json.loads(answer.body))
    except ValueError:  # the request was accepted nevertheless
        return {}
