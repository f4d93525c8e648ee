"""Where logins are kept: never in the clear, never half written, and a changed byte is found."""

import json
import multiprocessing
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Literal

import pytest

from adderclaw.models.credentials import vault
from adderclaw.models.credentials.encrypted_file import SealedFile, VaultError
from adderclaw.models.credentials.vault import Vault, open_vault
from tests.models.credentials.secret_service import SecretService

SECRET = "the-refresh-token-4711"


def sealed(home: Path, passphrase: str = "") -> SealedFile:
    return SealedFile(str(home), lambda _new: passphrase)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("passphrase", ["", "correct horse"])
def test_what_is_kept_comes_back_and_is_not_readable(tmp_path: Path, passphrase: str) -> None:
    os.umask(0o000)
    try:
        sealed(tmp_path, passphrase).put("claude", SECRET)
    finally:
        os.umask(0o022)
    assert sealed(tmp_path, passphrase).get("claude") == SECRET
    assert sealed(tmp_path, passphrase).get("other") is None
    for path in tmp_path.iterdir():
        assert mode(path) == 0o600, path
        assert SECRET.encode() not in path.read_bytes()
        assert b"claude" not in path.read_bytes()
    assert (tmp_path / "credentials.key").exists() is not bool(passphrase)


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    sealed(tmp_path).put("claude", SECRET)
    path = tmp_path / "credentials.enc"
    whole = path.read_bytes()
    for index in range(len(whole) - 1):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        with pytest.raises(VaultError, match=r"credentials\.enc"):
            sealed(tmp_path).get("claude")


@pytest.mark.parametrize("passphrase", ["", "correct horse"])
def test_the_wrong_key_opens_nothing(tmp_path: Path, passphrase: str) -> None:
    sealed(tmp_path, passphrase).put("claude", SECRET)
    if not passphrase:
        (tmp_path / "credentials.key").write_bytes(os.urandom(32))
    with pytest.raises(VaultError, match="cannot be opened"):
        sealed(tmp_path, "wrong").get("claude")
    with pytest.raises(VaultError, match="cannot be opened"):
        sealed(tmp_path, "wrong").put("other", "x")


def test_a_locked_file_is_never_unlocked_by_a_key_file(tmp_path: Path) -> None:
    sealed(tmp_path, "correct horse").put("claude", SECRET)
    (tmp_path / "credentials.key").write_bytes(os.urandom(32))
    with pytest.raises(VaultError, match="locked with a passphrase"):
        sealed(tmp_path).get("claude")
    with pytest.raises(VaultError, match="locked with a passphrase"):
        sealed(tmp_path).put("claude", "other")


WEAKER = [{"cost": 2}, {"cost": 1 << 30}, {"cost": "131072"}, {"derivation": "none"}, {"version": 2}, {"salt": ""}]


@pytest.mark.parametrize("change", WEAKER)
def test_a_header_cannot_be_weakened(tmp_path: Path, change: dict[str, object]) -> None:
    sealed(tmp_path, "correct horse").put("claude", SECRET)
    path = tmp_path / "credentials.enc"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(VaultError, match="damaged"):
        sealed(tmp_path, "correct horse").get("claude")


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "x" * 2_000_000, '{"version":1}'])
def test_whatever_else_lies_there_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "credentials.enc").write_text(text)
    with pytest.raises(VaultError, match=r"credentials\.enc"):
        sealed(tmp_path).get("claude")


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    sealed(tmp_path).put("claude", SECRET)
    (tmp_path / "credentials.key").chmod(0o644)
    with pytest.raises(VaultError, match="chmod 600"):
        sealed(tmp_path).get("claude")


@pytest.mark.parametrize("name", ["credentials.enc", "credentials.key"])
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    sealed(tmp_path).put("claude", SECRET)
    (tmp_path / name).rename(tmp_path / "elsewhere")
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VaultError, match=name):
        sealed(tmp_path).get("claude")


def test_a_lost_key_is_said(tmp_path: Path) -> None:
    sealed(tmp_path).put("claude", SECRET)
    (tmp_path / "credentials.key").unlink()
    with pytest.raises(VaultError, match="logout --all"):
        sealed(tmp_path).get("claude")
    assert not (tmp_path / "credentials.key").exists()


def test_the_last_login_takes_the_files_with_it(tmp_path: Path) -> None:
    kept = sealed(tmp_path)
    assert kept.delete("claude") is False
    kept.put("claude", SECRET)
    kept.put("other", "x")
    assert kept.delete("claude") is True
    assert kept.get("other") == "x"
    assert kept.delete("other") is True
    assert {path.name for path in tmp_path.iterdir()} == {"credentials.lock"}
    kept.put("claude", "again")
    assert sealed(tmp_path).get("claude") == "again"


def _puts(home: str, number: int) -> None:
    for round_ in range(5):
        SealedFile(home, lambda _new: "").put(f"{number}-{round_}", SECRET)


def test_processes_do_not_lose_each_others_writes(tmp_path: Path) -> None:
    workers = [multiprocessing.get_context("spawn").Process(target=_puts, args=(str(tmp_path), n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert all(sealed(tmp_path).get(f"{n}-{r}") == SECRET for n in range(4) for r in range(5))


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this machine")
    kept = sealed(tmp_path)
    kept.put("claude", SECRET)
    before = (tmp_path / "credentials.enc").read_bytes()
    limit = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))\n"
        "from adderclaw.models.credentials.encrypted_file import SealedFile, VaultError\n"
        "try:\n    SealedFile(sys.argv[1], lambda new: '').put('other', 'x')\n"
        "except VaultError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", limit, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert (tmp_path / "credentials.enc").read_bytes() == before
    assert not list(tmp_path.glob("*.tmp"))


# ------------------------------------------------------------------ keyrings

UNREAL = (
    "keyring.backends.null.Keyring",
    "keyring.backends.fail.Keyring",
    "keyrings.alt.file.PlaintextKeyring",
    "keyring.backends.chainer.ChainerBackend",
)


@pytest.mark.parametrize("chosen", UNREAL)
def test_a_keyring_that_is_none_is_not_used(tmp_path: Path, home: Path, chosen: str) -> None:
    """Whatever keyring itself was told to use: ours come by name."""
    script = (
        "import sys\nfrom adderclaw.models.credentials.vault import open_vault, system_ring\n"
        "assert system_ring('/h') is None\n"
        "kept = open_vault('auto', sys.argv[1], lambda new: '')\nkept.put('a', 'secret-1')\nprint(kept.place)\n"
    )
    env = {"PATH": os.defpath, "HOME": str(home), "PYTHON_KEYRING_BACKEND": chosen}
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the encrypted file" in done.stdout
    assert not any("keyring" in path.name for path in home.rglob("*"))


def test_every_back_end_is_the_systems_own() -> None:
    assert all(module.startswith("keyring.backends.") for module, _ in vault.BACK_ENDS)
    assert not {"null", "fail", "chainer"} & {module.rpartition(".")[2] for module, _ in vault.BACK_ENDS}


def test_without_a_keyring_the_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
    with pytest.raises(VaultError, match="no keyring answers"):
        open_vault("keyring", str(tmp_path), lambda _new: "")


@pytest.fixture
def service(tmp_path: Path, needs: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Generator[SecretService]:
    needs("dbus-daemon")
    pytest.importorskip("keyring")
    with SecretService(tmp_path) as running:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", running.address)
        yield running


@pytest.mark.parametrize("storage", ["auto", "keyring"])
def test_a_real_keyring_keeps_logins(home: Path, service: SecretService, storage: Literal["auto", "keyring"]) -> None:
    def opened(where: Path = home) -> Vault:
        return open_vault(storage, str(where), lambda _new: "")

    assert "SecretService" in opened().place
    assert opened().get("claude") is None
    opened().put("claude", "first-secret")
    opened().put("claude", SECRET)
    assert opened().get("claude") == SECRET
    assert [secret for _, secret in service.items.values()] == [SECRET.encode()]
    assert opened(home / "another").get("claude") is None
    assert opened().delete("claude") is True
    assert opened().delete("claude") is False
    assert not service.items
    assert not list(home.rglob("credentials.enc"))


def test_what_was_in_the_file_moves_to_the_keyring(home: Path, service: SecretService) -> None:
    sealed(home).put("claude", SECRET)
    both = open_vault("auto", str(home), lambda _new: "")
    assert both.get("claude") == SECRET
    both.put("claude", "newer-secret")
    assert not (home / "credentials.enc").exists()
    sealed(home).put("claude", SECRET)
    assert both.delete("claude") is True
    assert not service.items
    assert sealed(home).get("claude") is None


def test_a_locked_keyring_is_said(home: Path, service: SecretService) -> None:
    ring = open_vault("keyring", str(home), lambda _new: "")
    service.locked = True
    with pytest.raises(VaultError, match="unlock it") as caught:
        ring.put("claude", SECRET)
    assert SECRET not in str(caught.value)
