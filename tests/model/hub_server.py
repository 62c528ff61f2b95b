"""A stand-in for the Hugging Face hub on this machine: one repository, its files from a directory."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serve(name: str, files: Path, mode: str = "open") -> Iterator[tuple[str, list[str]]]:
    """The server's address and the paths asked for. mode: open, gated, broken (500), or silent (never answers)."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            asked.append(path)
            if mode == "silent":
                time.sleep(3)
                return
            if mode == "broken":
                self.answer(500, b"{}")
            elif path.startswith(f"/api/models/{name}") and mode == "gated":
                self.answer(403, b"{}", {"X-Error-Code": "GatedRepo"})
            elif path.startswith(f"/api/models/{name}/tree/"):
                self.answer(200, json.dumps([{**entry, "type": "file"} for entry in self.listing()]).encode())
            elif path.startswith(f"/api/models/{name}"):
                siblings = [{"rfilename": entry["path"], "size": entry["size"]} for entry in self.listing()]
                self.answer(200, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())
            elif (file := files / path.rpartition(f"/{name}/resolve/{COMMIT}/")[2]).is_file():
                body = file.read_bytes()
                digest = hashlib.sha256(body).hexdigest()
                self.answer(200, body, {"ETag": f'"{digest}"', "X-Repo-Commit": COMMIT})
            else:
                self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET

        def listing(self) -> list[dict[str, object]]:
            return [
                {"path": str(file.relative_to(files)), "size": file.stat().st_size, "oid": "0" * 40}
                for file in sorted(files.rglob("*"))
                if file.is_file()
            ]

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
