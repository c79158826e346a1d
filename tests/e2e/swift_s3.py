"""OpenStack Swift with its S3 API (Debian's python3-swift) in one process: an S3 service for tests. Objects are in memory, or
in files that outlive the process. Run as a program, it prints "ready PORT" and serves until it is killed; `Swift` starts it and
ends it.
"""
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

KEY, SECRET, REGION = "test:tester", "testing", "us-east-1"

CONFIGURATIONS = {
    "account": "[app:main]\nuse = egg:swift#account\n",
    "container": "[app:main]\nuse = egg:swift#container\nallowed_sync_hosts =\n",
    "object": "[app:main]\nuse = egg:swift#{objects}\n",
    "proxy": f"""[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:s3api]
use = egg:swift#s3api
location = {REGION}
[filter:tempauth]
use = egg:swift#tempauth
user_{KEY.replace(":", "_")} = {SECRET} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
""",
}


class Cache:
    """What Swift needs of memcached."""

    def __init__(self) -> None:
        self.values: dict = {}

    def get(self, key: str, **_options: object) -> object:
        return self.values.get(key)

    def set(self, key: str, value: object, **_options: object) -> None:
        self.values[key] = value

    def incr(self, key: str, delta: int = 1, **_options: object) -> int:
        self.values[key] = int(self.values.get(key, 0)) + delta
        return self.values[key]

    def delete(self, key: str, **_options: object) -> None:
        self.values.pop(key, None)


def serve(folder: pathlib.Path, objects: str) -> None:
    """Runs the four servers as green threads of this process, on the ports that they had before in this folder."""
    import eventlet
    eventlet.monkey_patch()
    import eventlet.wsgi
    from swift.common import utils
    # As /etc/swift/swift.conf would set it; not read, so that the host's configuration does not matter.
    utils.HASH_PATH_SUFFIX = b"tests"
    utils.SWIFT_CONF_FILE = str(folder / "swift.conf")
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = tests\n")
    from swift.common.ring import RingBuilder
    from swift.common.wsgi import loadapp

    class Quiet:
        def write(self, _text: str) -> None:
            pass

    kept = folder / "ports.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    ports = {}
    pool = eventlet.GreenPool()
    for kind, text in CONFIGURATIONS.items():
        if kind == "proxy":
            for each, port in ports.items():
                ring = RingBuilder(4, 1, 1)
                ring.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": port,
                              "device": "disk"})
                ring.rebalance()
                ring.get_ring().save(str(folder / f"{each}.ring.gz"))
        path = folder / f"{kind}.conf"
        path.write_text(f"[DEFAULT]\nswift_dir = {folder}\ndevices = {folder}\nmount_check = false\n"
                        f"log_level = ERROR\nworkers = 0\n{text.replace('{objects}', objects)}")
        (folder / "disk").mkdir(exist_ok=True)
        socket = eventlet.listen(("127.0.0.1", before.get(kind, 0)))
        ports[kind] = socket.getsockname()[1]
        inner, cache = loadapp(str(path)), Cache()

        def application(env: dict, start: object, inner=inner, cache=cache) -> object:
            env["swift.cache"] = cache
            return inner(env, start)

        pool.spawn_n(eventlet.wsgi.server, socket, application, log=Quiet(), log_output=False)
    kept.write_text(json.dumps(ports))
    print("ready", ports["proxy"], flush=True)
    pool.waitall()


class Swift:
    """A running service with one bucket. Use it as a context manager.

    With `files`, objects outlive the process; the folder's file system needs extended attributes. Objects in memory do not.
    """

    def __init__(self, bucket: str = "tessera", files: bool = False) -> None:
        self.bucket = bucket
        self.folder = tempfile.mkdtemp(prefix="tessera-swift-")
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self._objects = "object" if files else "mem_object"
        self.start()
        self.url = f"s3://{bucket}?endpoint={self.endpoint}&region={REGION}"
        self.environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        self.request("PUT", f"/{bucket}")

    def start(self) -> None:
        """Starts the service; again at the same address, after its process has ended."""
        self.process = subprocess.Popen(["/usr/bin/python3", __file__, self.folder, self._objects], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        ready = self.process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            self.log.seek(0)
            raise RuntimeError(f"Swift did not start: {self.log.read()[-2000:]}")
        self.port = int(ready[1])
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, query: str = "", body: bytes = b"") -> bytes:
        """Sends a signed request. The signature is computed here, independently of Tessera. `query` is sorted."""
        now = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
        host, payload = self.endpoint.removeprefix("http://"), hashlib.sha256(body).hexdigest()
        headers = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": now}
        canonical = "\n".join([method, path, query, *(f"{name}:{value}" for name, value in headers.items()), "",
                               ";".join(headers), payload])
        scope = [now[:8], REGION, "s3", "aws4_request"]
        text = "\n".join(["AWS4-HMAC-SHA256", now, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
        key = b"AWS4" + SECRET.encode()
        for part in [*scope, text]:
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={KEY}/{'/'.join(scope)}, "
                                    f"SignedHeaders={';'.join(sorted(set(headers)))}, Signature={key.hex()}")
        request = urllib.request.Request(self.endpoint + path + ("?" + query if query else ""), method=method,
                                         data=body or None, headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=20) as answer:
            return answer.read()

    def names(self) -> list[str]:
        """Names of all objects in the bucket."""
        text = self.request("GET", f"/{self.bucket}", "list-type=2").decode()
        return re.findall("<Key>([^<]*)</Key>", text)

    def remove(self, name: str) -> None:
        self.request("DELETE", f"/{self.bucket}/{name}")

    def __enter__(self) -> "Swift":
        return self

    def __exit__(self, *_unused: object) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    serve(pathlib.Path(sys.argv[1]), sys.argv[2])
