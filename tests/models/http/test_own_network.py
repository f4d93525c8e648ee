"""The operator's own proxy, authorities and registries: what counts, and that no login and no project's word does."""

from pathlib import Path

import pytest

from adderclaw.models.http import own_network, upstream
from tests.rows import rows
from tests.storage.telemetry.receivers import certificate

TOKEN = "Kept-Outside-42"
NAMES = (*own_network.VARIABLES, "NPM_CONFIG_USERCONFIG", "NPM_CONFIG_REGISTRY", "NPM_CONFIG_CAFILE", "PIP_CONFIG_FILE")
MORE = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def nothing_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *MORE, "UV_CONFIG_FILE", "XDG_CONFIG_HOME", *PROXIES):
        for spelling in (name, name.lower(), name.upper()):
            monkeypatch.delenv(spelling, raising=False)


# ------------------------------------------------------------------ registries


def test_registries_of_the_operators_files_count_without_any_login(home: Path) -> None:
    (home / ".npmrc").write_text(
        f"registry=https://me:{TOKEN}@npm.corp.example/all/\n@team:registry = 'http://10.0.0.5:4873/'\n"
        f"//npm.corp.example/all/:_authToken={TOKEN}\n_auth={TOKEN}\n@x:registry=https://${{NPM_TOKEN}}.example/\n",
        encoding="utf-8",
    )
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text(
        f"[global]\nindex-url = https://me:{TOKEN}@pypi.corp.example/simple\n"
        f"extra-index-url =\n    https://more.corp.example/simple\n    file:///opt/wheels\n[list]\nindex-url = no\n",
        encoding="utf-8",
    )
    (home / ".config" / "uv").mkdir()
    (home / ".config" / "uv" / "uv.toml").write_text(
        f'[[index]]\nname = "corp"\nurl = "https://me:{TOKEN}@uv.corp.example/simple"\ndefault = true\n'
        '[[index]]\nname = "more"\nurl = "https://uv-more.corp.example:8443/simple"\n',
        encoding="utf-8",
    )
    found = own_network.indexes(())
    assert found.npm == {"registry": "https://npm.corp.example/all/", "@team:registry": "http://10.0.0.5:4873/"}
    assert found.pip == "https://pypi.corp.example/simple"
    assert "https://more.corp.example/simple" in found.pip_more
    assert found.uv == "https://uv.corp.example/simple"
    assert found.uv_more == ("more=https://uv-more.corp.example:8443/simple",)
    hosts = {"npm.corp.example:443", "10.0.0.5:4873", "pypi.corp.example:443", "uv.corp.example:443"}
    assert hosts < set(found.hosts)
    assert "uv-more.corp.example:8443" in found.hosts
    assert TOKEN not in str(found)


def test_files_in_a_workspace_name_no_registry_and_no_authority(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificate(tmp_path)
    (tmp_path / "npmrc").write_text(f"registry=https://evil.example/\ncafile={made.file}\n", encoding="utf-8")
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / "npmrc"))
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(made.file))
    assert own_network.indexes((str(tmp_path),)).npm.get("registry") != "https://evil.example/"
    found = own_network.bundle((str(tmp_path),))
    assert made.file.read_bytes().strip() not in found.text
    assert "it is not used: it lies in the workspace" in found.problems[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "cert.pem")
    assert "its path is not absolute" in own_network.bundle(()).problems[0]


# ------------------------------------------------------------------ authorities


@pytest.mark.parametrize("how", ["variable", "npmrc", "pip"])
def test_an_authority_is_found_where_the_operator_named_it_and_no_key_is_copied(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    made = certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(made.key.read_bytes() + made.file.read_bytes())
    if how == "variable":
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(both))
    elif how == "npmrc":
        (home / ".npmrc").write_text(f'cafile = "{both}"\n', encoding="utf-8")
    else:
        (home / ".pip").mkdir()
        (home / ".pip" / "pip.conf").write_text(f"[global]\ncert = {both}\n", encoding="utf-8")
    found = own_network.bundle(())
    assert made.file.read_bytes().strip() in found.text
    assert b"PRIVATE KEY" not in found.text
    subjects = [str(one["subject"]) for one in own_network.tls_context().get_ca_certs()]
    assert sum("localhost" in subject for subject in subjects) == 1


def test_a_file_without_a_certificate_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nno base64!\n-----END CERTIFICATE-----\n", encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(broken))
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "gone.pem"))
    problems = own_network.bundle(()).problems
    assert [text.split(" as a file")[0] for text in problems] == [
        f"SSL_CERT_FILE names {broken}",
        f"PIP_CERT names {tmp_path / 'gone.pem'}",
    ]


# ------------------------------------------------------------------ the proxy


@rows(
    ("given", "host", "port", "used"),
    [
        ("", "example.org", 443, True),
        ("example.org", "example.org", 443, False),
        ("example.org", "a.example.org", 443, False),
        (".example.org", "a.example.org", 443, False),
        ("*.example.org", "a.example.org", 443, False),
        ("example.org", "badexample.org", 443, True),
        ("other.org, example.org:8443", "example.org", 443, True),
        ("other.org, example.org:8443", "example.org", 8443, False),
        ("*", "example.org", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, False),
        ("10.0.0.0/8", "11.1.2.3", 443, True),
        ("EXAMPLE.org", "example.ORG.", 443, False),
        ("", "localhost", 443, False),
        ("", "127.0.0.2", 443, False),
        ("", "::1", 443, False),
        ("", "x.localhost", 443, False),
    ],
)
def test_no_proxy_and_this_machine_are_reached_directly(
    monkeypatch: pytest.MonkeyPatch, given: str, host: str, port: int, used: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", given)
    assert upstream.of("https", host, port) == (upstream.Upstream("proxy.example", 3128) if used else None)


def test_a_login_is_read_and_known_as_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://me%40corp:{TOKEN}%2F@proxy.example:8080/")
    found = upstream.of("https", "example.org", 443)
    assert found is not None
    assert found.request("example.org", 443).endswith(f"Basic {found.login}\r\n\r\n".encode())
    assert f"{TOKEN}/" in upstream.logins()


@rows("value", ["socks5://proxy.example:1080", "https://proxy.example", "http://", "http://x:y:z"])
def test_a_proxy_that_cannot_be_used_is_said_without_its_address(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(upstream.Unusable, match="HTTPS_PROXY"):
        upstream.of("https", "example.org", 443)
