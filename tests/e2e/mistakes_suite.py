#!/usr/bin/python3
"""What people get wrong: a place that cannot be written, a folder for a file, a number that is none, a flag that means
nothing here. Each is refused before anything is done, with a message that names it, and nothing else is touched."""
# suite: timeout=900

import os
import pathlib
import re
import subprocess
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from e2e.tessera_e2e import BIN, Service
from suite import check, check_equal, run


def start(service, *words):
    """How a tesserad ends that cannot serve with these words."""
    folder = service.scratch("wrong")
    done = subprocess.run([BIN / "tesserad", "--data-dir", folder, *map(str, words)], capture_output=True, text=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL, start_new_session=True)
    check("Traceback" not in done.stderr and done.returncode in (1, 2), f"tesserad {words}: {done}")
    check("ready on" not in done.stdout and "listening" not in done.stderr, f"tesserad {words} serves: {done}")
    check(not (folder / "tessera.db").exists(), f"tesserad {words} made a database")
    return done.stderr


# tesserad.

def addresses_are_checked(service):
    for flag in ("--listen", "--worker-listen", "--web-listen", "--metrics-listen"):
        for address in ("nonsense", "127.0.0.1:99999", "127.0.0.1:", "127.0.0.1:http"):
            said = start(service, "--workers", "0", "--listen", "127.0.0.1:0", flag, address)
            check(flag in said and address in said and "host:port" in said, f"{flag} {address}: {said}")


def certificates_are_read_at_the_start(service):
    keys, other, garbage = service.scratch("keys"), service.scratch("other"), service.scratch("garbage.pem")
    garbage.write_text("no PEM at all\n")
    for folder in (keys, other):
        service.cli("admin", "certificates", folder, "--host", "localhost")
    good = {"--tls-cert": keys / "server.pem", "--tls-key": keys / "server.key", "--tls-client-ca": keys / "ca.pem"}
    secret = service.scratch("secret.key")
    subprocess.run(["openssl", "pkey", "-in", keys / "server.key", "-aes256", "-passout", "pass:x", "-out", secret],
                   check=True, capture_output=True)
    for flag, file in (("--tls-cert", garbage), ("--tls-cert", keys / "server.key"), ("--tls-key", garbage),
                       ("--tls-key", other / "server.key"), ("--tls-key", secret), ("--tls-client-ca", garbage)):
        words = [word for pair in {**good, flag: file}.items() for word in pair]
        said = start(service, "--workers", "0", "--listen", "127.0.0.1:0", *words)
        check(f"{flag}: " in said and "PEM" in said, f"{flag} {file.name}: {said}")


def a_worker_that_is_no_program(service):
    text = service.scratch("text")
    text.write_text("#!/bin/sh\n")
    for binary in (text, service.folder, service.scratch("absent")):
        said = start(service, "--listen", "127.0.0.1:0", "--worker-binary", binary)
        check("--worker-binary" in said and str(binary) in said, said)


# The operator.

def no_backup_over_a_data_folder(service):
    """Its database would be exchanged under the running service, which would go on writing to one that is gone."""
    with Service(workers=0) as other:
        for place in (service.data, service.data / "backup", other.data):
            said = service.operator("admin", "backup", place, expect=1).err
            check(str(place) in said and "name" in said, said)
    check("(deleted)" not in open_files(service.process.pid), "the service writes to a file that has no name")
    check(not (service.data / "backup").exists(), "a backup within the data folder")
    service.operator("admin", "backup", service.scratch("backup"))


def open_files(pid):
    return " ".join(os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink())


def main():
    with Service(workers=1) as service:
        cases = (
            addresses_are_checked, certificates_are_read_at_the_start, a_worker_that_is_no_program,
            no_backup_over_a_data_folder,
        )
        return run("mistakes", [(case.__name__, lambda case=case: case(service)) for case in cases])


if __name__ == "__main__":
    sys.exit(main())
