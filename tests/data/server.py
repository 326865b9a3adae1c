"""A server on this machine that hands out bytes, well or badly."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """What is served, how, and what was asked for.

    Attributes:
        files: Content by path.
        ranges: Whether a part of a file can be asked for.
        breaks: For each request to come, after how many bytes the connection breaks; None for never.
        sized: Whether the length is told.
        asked: For each request, its path and the range that it asked for.
    """

    def __init__(self, url):
        self.url, self.files, self.ranges, self.breaks, self.sized, self.asked = url, {}, True, [], True, []


@contextmanager
def serving():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            section = self.headers.get("Range")
            server.asked.append((self.path, section))
            content = server.files.get(self.path)
            if content is None:
                return self.send_error(404)
            start = int(section.removeprefix("bytes=").removesuffix("-")) if section and server.ranges else 0
            if start and start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if server.sized:
                self.send_header("Content-Length", str(len(content) - start))
            self.send_header("Content-Encoding", "gzip")  # as some servers say of .gz files: it must not be unpacked
            self.end_headers()
            end = server.breaks.pop(0) if server.breaks else None
            self.wfile.write(content[start:] if end is None else content[start : start + end])

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = Server(f"http://127.0.0.1:{http.server_port}/")
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
