"""Package managers' caches outlast a session, belong to one project, and harm nothing when they are cleared."""

import json
import os

from tests.security.world import Den

FILL = """
import os
for name in ("npm_config_cache", "PIP_CACHE_DIR", "UV_CACHE_DIR", "CARGO_HOME", "GOCACHE", "GOMODCACHE"):
    os.makedirs(os.environ[name], exist_ok=True)
    open(os.path.join(os.environ[name], "kept"), "w").write("word-of-the-cache")
top = os.path.dirname(os.environ["PIP_CACHE_DIR"])
os.symlink(WHERE, os.path.join(top, "link"))
os.symlink(WHERE + "/.bashrc", os.path.join(top, "file"))
os.makedirs(os.path.join(top, "closed/deep"))
os.chmod(os.path.join(top, "closed"), 0o500)
print("filled")
"""
LOOK = """
import os
for name in ("npm_config_cache", "PIP_CACHE_DIR", "UV_CACHE_DIR", "CARGO_HOME", "GOCACHE", "GOMODCACHE"):
    path = os.path.join(os.environ[name], "kept")
    print(name, open(path).read() if os.path.exists(path) else "nothing")
"""


def test_they_outlast_a_session_and_stay_in_one_project(anyone: Den) -> None:
    anyone.configure("full")
    (anyone.workspace / "fill.py").write_text(FILL.replace("WHERE", repr(str(anyone.home))))
    (anyone.workspace / "look.py").write_text(LOOK)
    filled = anyone.attack("python3 fill.py", "pip cache dir; npm config get cache")
    assert "filled" in filled.results[0], filled
    assert "/var/cache/adderclaw/npm" in filled.last or "not found" in filled.last, filled.last
    again = anyone.attack("python3 look.py")
    assert again.last.count("word-of-the-cache") == 6, again
    other = anyone.base / "other"
    other.mkdir()
    (other / "look.py").write_text(LOOK)
    elsewhere = anyone.attack("python3 look.py", arguments=("--workspace", str(other)))
    assert elsewhere.last.count("nothing") == 6, elsewhere
    found = json.loads(anyone.cli("cache", "--output-format", "json").out)["caches"]
    assert {one["workspace"] for one in found} == {str(anyone.workspace), str(other)}
    done = anyone.cli("cache", "--clear")
    assert done.out.count("cleared") == 2, done
    assert os.listdir(anyone.canaries.ours / "caches") == []
    anyone.unharmed(filled, again, elsewhere)
