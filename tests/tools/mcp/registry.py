"""A registry of npm on this machine with one package: an MCP server that fetches an address and writes a file."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.2"
"""Of this machine, and no address that programs reach without their proxy."""
SERVER = r"""#!/usr/bin/env node
const fs = require('fs'), send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
const serverInfo = { name: 't', version: '1' };
const tools = ['get', 'spoil'].map(name => ({ name, inputSchema: { type: 'object' } }));
const work = {
  get: async ({ url }) => (await fetch(url)).text(),
  spoil: async () => { fs.writeFileSync(__filename, 'spoilt'); return 'written' },
};
require('readline').createInterface({ input: process.stdin }).on('line', async line => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize')
    send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
  else if (method === 'tools/list') send(id, { tools });
  else if (method === 'tools/call') {
    const text = await work[params.name](params.arguments || {}).catch(error => `${error.code || error.cause?.code}`);
    send(id, { content: [{ type: 'text', text }] });
  }
});
"""


def package(name: str) -> bytes:
    manifest = json.dumps({"name": name, "version": "1.0.0", "bin": {"serve-it": "index.js"}})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in (("package/package.json", manifest), ("package/index.js", SERVER)):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)


class Registry:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.logins: list[str] = []
        """Of requests that brought one."""
        self.open = True
        """Whether it asks for no login."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if not self.open:
            return 401, b'{"error": "log in first"}'
        packed = package("a-server")
        if path.endswith(".tgz"):
            return 200, packed
        if path.strip("/") != "a-server":
            return 404, b"{}"
        digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
        dist = {"tarball": f"{self.url}a-server-1.0.0.tgz", "integrity": f"sha512-{digest}"}
        version = {"name": "a-server", "version": "1.0.0", "bin": {"serve-it": "index.js"}, "dist": dist}
        known = {"name": "a-server", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        return 200, json.dumps(known).encode()


@contextmanager
def registry() -> Generator[Registry]:
    made = Registry()

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if login := self.headers.get("authorization"):
                made.logins.append(login)
            status, body = made.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Door)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
