"""The Debian packages: contents, dependencies, and that the installed files compile and run a model."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import pytest

from checks import check, check_equal
from e2e import tessera_e2e
from e2e.tessera_e2e import BUILD, ROOT, Service

pytestmark = pytest.mark.slow

LIBRARIES = "usr/lib/x86_64-linux-gnu"
FILES = {
    "tessera-server": {"usr/bin/tesserad", "usr/lib/systemd/system/tesserad.service", "etc/default/tesserad"},
    "tessera-worker": {"usr/bin/tessera-worker", "usr/bin/tessera-task", "usr/lib/systemd/system/tessera-worker.service",
                       "usr/lib/sysusers.d/tessera.conf", "etc/default/tessera-worker"},
    "tessera-cli": {"usr/bin/tessera", "usr/share/bash-completion/completions/tessera", "usr/share/zsh/vendor-completions/_tessera",
                    "usr/share/fish/vendor_completions.d/tessera.fish"},
    "libtessera-rt0": {f"{LIBRARIES}/libtessera_rt.so.0"},
    "libtessera-rt-dev": {"usr/include/tessera.h", f"{LIBRARIES}/libtessera_rt.so", f"{LIBRARIES}/pkgconfig/tessera-rt.pc"},
    "python3-tessera": {"usr/lib/python3/dist-packages/tessera/__init__.py",
                        "usr/lib/python3/dist-packages/tessera/_native/tessera-describe-host"},
}
NEEDED = {"tessera-server": {"tessera-worker", "libcurl4", "libpq5", "libsqlite3-0", "libssl3"}, "tessera-worker": {"libmlir-22", "libllvm22", "libseccomp2"},
          "tessera-cli": {"libgrpc++1.51", "libzip4"}, "libtessera-rt-dev": {"libtessera-rt0"},
          "python3-tessera": {"python3", "python3-grpcio", "python3-numpy", "python3-protobuf"}}
EXPECTED_OF_LINTIAN = {
    "custom-library-search-path",  # of libMLIR, which Debian keeps in its LLVM's folder
    "bogus-mail-host", "bogus-mail-host-in-debian-changelog",  # not published yet
    "unstripped-binary-or-object", "shared-library-is-executable",  # of the Python package, as in the wheel
}
GEMM = "input A[M, K], B[K, N]: f32;  C[i, j] += A[i, k] * B[k, j];\n"
SHAPES = ("--shape", "A=7x13", "--shape", "B=13x5")
PROGRAM = r"""
#include <stdio.h>
#include <tessera.h>
int main(int count, char** words) {
  tessera_artifact* model = 0;
  if (count != 2 || tessera_artifact_load(words[1], 0, &model) != 0) return 1;
  printf("%d inputs\n", (int)tessera_artifact_num_inputs(model));
  return 0;
}
"""
# A machine with the packages installed: this one, through a temporary overlay.
MACHINE = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root/packages"
cp "$2"/* "$1/root/packages"
"""
RUN_COMMANDS = MACHINE + 'exec chroot "$1/root" /bin/bash -e /packages/commands\n'
# The same, with systemd as its first process, which starts the server's unit and the checks.
BOOT = MACHINE + """
mount -t sysfs sysfs "$1/root/sys"
mount -t tmpfs tmpfs "$1/root/run"
mount --bind "$2" "$1/root/packages"
chroot "$1/root" /bin/bash -c 'cd /packages; DEBIAN_FRONTEND=noninteractive dpkg -i ./*.deb >log 2>&1' || { cat "$2/log"; exit 1; }
rm -rf "$1/root"/etc/systemd/system/*.wants
cat >"$1/root/etc/systemd/system/trial.target" <<END
[Unit]
Requires=tesserad.service trial.service
AllowIsolate=yes
END
cat >"$1/root/etc/systemd/system/trial.service" <<END
[Unit]
After=tesserad.service
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash /packages/commands
ExecStopPost=systemctl exit
END
container=lxc exec chroot "$1/root" /lib/systemd/systemd --system --unit=trial.target --log-target=console
"""
LOOK = f"""
exec >/packages/result 2>&1
echo booted
export HOME=/root
waited() {{ for i in $(seq 300); do "$@" >/packages/said 2>&1 && return; sleep 0.1; done; cat /packages/said; }}
shown() {{ systemctl show tesserad -p "$1" --value; }}
waited tessera workers && echo "$(shown ActiveState) as $(ps -o user= -p "$(shown MainPID)")"
grep -q '^NoNewPrivs:.*1' /proc/$(shown MainPID)/status && grep -q '^CapEff:.*0000000000000000' /proc/$(shown MainPID)/status && echo "held"
printf '%s' '{GEMM}' > /root/gemm.te
tessera compile /root/gemm.te {" ".join(SHAPES)} -o /root/gemm.tsra --quiet && tessera run /root/gemm.tsra --random --json >/root/ran && echo "ran"
kill -9 $(shown MainPID)
waited sh -c '[ "$(systemctl show tesserad -p NRestarts --value)" = 1 ]'
waited tessera workers && tessera compile /root/gemm.te {" ".join(SHAPES)} -o /root/gemm.tsra --json >/root/again && grep -q '"cached": *true' /root/again && echo "back with its cache"
systemctl stop tesserad
echo "$(shown ActiveState) $(shown Result)"
tessera admin certificates /root/keys --host localhost >/dev/null
install -m 0644 /root/keys/server.pem /root/keys/ca.pem /etc/default
install -m 0600 -o tessera /root/keys/server.key /etc/default
echo 'TESSERAD_OPTIONS="--workers 0 --worker-listen localhost:7401 --tls-cert /etc/default/server.pem --tls-key /etc/default/server.key"' >/etc/default/tesserad
systemctl start tesserad
export TESSERA_TLS_CA=/etc/default/ca.pem
waited tessera workers
(umask 077; tessera --operator-of /var/lib/tessera admin token create --name build-1 --role worker >/etc/default/token)
chown tessera /etc/default/token
echo 'TESSERA_WORKER_OPTIONS="--server localhost:7401 --tls-ca /etc/default/ca.pem --token-file /etc/default/token --id build-1"' >/etc/default/tessera-worker
systemctl start tessera-worker
worker() {{ systemctl show tessera-worker -p "$1" --value; }}
waited sh -c 'tessera workers | grep -q build-1' && echo "worker: $(worker ActiveState) as $(ps -o user= -p "$(worker MainPID)")"
tessera compile /root/gemm.te --shape A=5x11 --shape B=11x3 -o /root/gemm.tsra --quiet && echo "compiled by the worker's unit"
kill -9 $(worker MainPID)
waited sh -c '[ "$(systemctl show tessera-worker -p NRestarts --value)" = 1 ]'
tessera compile /root/gemm.te --shape A=3x2 --shape B=2x7 -o /root/gemm.tsra --quiet && echo "compiled by the next one"
systemctl stop tessera-worker
echo "worker: $(worker ActiveState) $(worker Result)"
systemctl stop tesserad
echo 'TESSERAD_OPTIONS="--no-such-flag"' >/etc/default/tesserad
systemctl reset-failed tesserad
systemctl start tesserad
sleep 7
echo "wrong flags: $(shown ActiveState) $(shown ExecMainStatus) $(shown NRestarts)"
echo 'TESSERAD_OPTIONS="--workers 0"' >/etc/default/tesserad
/usr/bin/python3 -c "import sqlite3; d = sqlite3.connect('/var/lib/tessera/tessera.db'); d.execute('INSERT INTO schema_version VALUES (999, ?, 0)', ('future',)); d.commit()"
chown tessera: /var/lib/tessera/tessera.db*
systemctl reset-failed tesserad
systemctl start tesserad
sleep 7
echo "newer data: $(shown ActiveState) $(shown ExecMainStatus) $(shown NRestarts)"
"""
CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text()
# The steps of the Containerfile except for fetching packages: it creates the folder, and starts this as this user.
FOLDER = re.search(r"&& (install -d .*)", CONTAINERFILE)[1]
USER = re.search(r"^USER (\w+)", CONTAINERFILE, re.MULTILINE)[1]
START = [word for line in ("ENTRYPOINT", "CMD") for word in json.loads(re.search(rf"^{line} (\[.*\])", CONTAINERFILE, re.MULTILINE)[1])]
ASK = re.search(r"podman exec tessera (tessera .*)", CONTAINERFILE)[1]
COMMANDS = f"""
cd /packages
export DEBIAN_FRONTEND=noninteractive
dpkg -i ./*.deb >log 2>&1 || {{ cat log; exit 1; }}
echo "user $(id -un tessera)"
echo "python $(/usr/bin/python3 -c 'import tessera; print(tessera.__version__)')"
systemd-analyze verify --man=no tesserad.service tessera-worker.service && echo "units verified"
. /etc/default/tesserad
{FOLDER}
runuser -u {USER} -- {shlex.join(START)} >log 2>&1 &
for i in $(seq 200); do runuser -u {USER} -- {ASK} >asked 2>&1 && break; sleep 0.1; done
runuser -u {USER} -- {ASK} --json >asked && echo "the container's service answers"
export TESSERA_SERVER={START[START.index("--listen") + 1]} HOME=/root
printf '%s' '{GEMM}' > gemm.te
tessera compile gemm.te {" ".join(SHAPES)} -o gemm.tsra --quiet || {{ cat log; exit 1; }}
tessera run gemm.tsra --random --json > ran.json && echo "ran"
echo 'TESSERAD_OPTIONS="--workers 3"' > /etc/default/tesserad
kill %1
wait
dpkg -r tessera-server >log 2>&1 || {{ cat log; exit 1; }}
[ ! -e /usr/bin/tesserad ] && [ -e /etc/default/tesserad ] && [ -e /var/lib/tessera/tessera.db ] && echo "removed, data and settings kept"
"""


class Packages:
    """Builds the packages with cpack and unpacks them into one folder."""

    def __init__(self, folder):
        self.folder, self.root = folder / "packages", folder / "root"
        # Another run may be using the build's CPACK_PACKAGE_DIRECTORY.
        done = subprocess.run(["cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", self.folder], cwd=folder,
                              capture_output=True, text=True, check=False)
        check_equal(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        shutil.rmtree(self.folder / "_CPack_Packages")
        self.paths = {path.name.split("_")[0]: path for path in self.folder.glob("*.deb")}
        for path in self.paths.values():
            subprocess.run(["dpkg", "-x", path, self.root], check=True)

    def field(self, package, name):
        return subprocess.run(["dpkg-deb", "-f", self.paths[package], name], capture_output=True, text=True, check=True).stdout.strip()

    def contents(self, package):
        """(permissions, owner, path) of each file."""
        listed = subprocess.run(["dpkg-deb", "-c", self.paths[package]], capture_output=True, text=True, check=True).stdout
        return [(line.split()[0], line.split()[1], line.split()[5].removeprefix("./")) for line in listed.splitlines()]


@pytest.fixture(scope="module")
def packages():
    with tempfile.TemporaryDirectory(prefix="tessera-packages-") as folder:
        yield Packages(pathlib.Path(folder))


def test_contents_are_right(packages):
    check_equal(set(packages.paths), set(FILES), "packages")
    owner_of = {}
    for package, wanted in FILES.items():
        entries = packages.contents(package)
        paths = {path for _, _, path in entries}
        check(wanted <= paths, f"{package} lacks {wanted - paths}")
        for name in ("copyright", "changelog.gz"):
            check(f"usr/share/doc/{package}/{name}" in paths, f"{package} has no {name}")
        for permissions, owner, path in entries:
            check(owner == "root/root" and permissions[5] != "w" and permissions[8] != "w" or permissions[0] == "l",
                  f"{package}: {permissions} {owner} {path}")
            if not path.endswith("/"):
                check(path not in owner_of, f"{path} is in {package} and in {owner_of.get(path)}")
                owner_of[path] = package


def test_control_fields_are_right(packages):
    version = packages.field("tessera-server", "Version")
    for package in FILES:
        check_equal(packages.field(package, "Version"), version, package)
        check(packages.field(package, "Description").count("\n") >= 1, f"{package} describes itself in one line")
        depends = {word.strip().split()[0] for part in packages.field(package, "Depends").split(",") for word in part.split("|")}
        check(NEEDED.get(package, set()) <= depends, f"{package} lacks {NEEDED.get(package, set()) - depends}")
    check_equal({word.split()[0] for word in packages.field("libtessera-rt0", "Depends").split(", ")}, {"libc6", "zlib1g"}, "of the runtime")
    # Programs of one release depend on each other; the server's package must not require the compiler's libraries
    # itself.
    check(f"tessera-worker (= {version})" in packages.field("tessera-server", "Depends"), packages.field("tessera-server", "Depends"))
    check("libmlir" not in packages.field("tessera-server", "Depends"), "the server links the compiler")


def test_lintian_finds_no_error(packages):
    if not shutil.which("lintian"):
        pytest.skip("there is no lintian")
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "none", *packages.paths.values()], capture_output=True, text=True,
                          check=False)
    check_equal(done.returncode, 0, done.stderr)
    errors = [line for line in done.stdout.splitlines() if line.startswith("E:") and line.split()[2] not in EXPECTED_OF_LINTIAN]
    check_equal(errors, [], "lintian")


def test_units_say_what_is_installed(packages):
    for package, unit in (("tessera-server", "tesserad"), ("tessera-worker", "tessera-worker")):
        text = (packages.root / f"usr/lib/systemd/system/{unit}.service").read_text()
        program = re.search(r"^ExecStart=/(\S+)", text, re.MULTILINE)[1]
        check(program in FILES[package], f"{unit}.service starts {program}")
        settings = re.search(r"^EnvironmentFile=-?/(\S+)", text, re.MULTILINE)[1]
        check(settings in FILES[package], f"{unit}.service reads {settings}")
        for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "User=tessera", "CapabilityBoundingSet="):
            check(line in text.splitlines(), f"{unit}.service lacks {line}")


def test_container_takes_what_there_is(packages):
    """All packages in the Containerfile are Debian's or ours."""
    words = re.search(r"apt-get install (.*?)&&", CONTAINERFILE, re.DOTALL)[1].replace("\\\n", " ").split()
    named = set()
    for word in (word for word in words if not word.startswith("-")):
        if word.startswith("/packages/"):
            found = list(packages.folder.glob(word.removeprefix("/packages/")))
            check_equal(len(found), 1, f"packages that {word} stands for")
            named.add(found[0].name.split("_")[0])
        else:
            shown = subprocess.run(["apt-cache", "show", word], capture_output=True, text=True, check=False)
            check_equal(shown.returncode, 0, f"{word} in Debian's archive")
    for package in named:
        depends = set(re.findall(r"[a-z][\w.+-]+", re.sub(r"\(.*?\)", "", packages.field(package, "Depends"))))
        check(depends & set(FILES) <= named, f"{package} needs {depends & set(FILES) - named}, which the image does not take")
    check(START[0].removeprefix("/") in FILES["tessera-server"], f"{START[0]} is not installed")


class Installed(Service):
    """The service whose programs come from the packages."""

    def __init__(self, packages):
        super().__init__(workers=1)
        self._programs = packages.root / "usr" / "bin"

    def __enter__(self):
        self._built, tessera_e2e.BIN = tessera_e2e.BIN, self._programs
        return super().__enter__()

    def __exit__(self, *rest):
        super().__exit__(*rest)
        tessera_e2e.BIN = self._built


def test_unpacked_programs_work(packages):
    with Installed(packages) as service:
        check_equal(os.readlink(f"/proc/{service.process.pid}/exe"), str(packages.root / "usr/bin/tesserad"), "what runs")
        model = service.folder / "gemm.te"
        model.write_text(GEMM)
        service.cli("compile", model, *SHAPES, "-o", packages.root / "gemm.tsra")
        ran = service.cli("run", packages.root / "gemm.tsra", "--random", "--json").json
        check("latency_ms" in ran, ran)


def test_programs_link_the_runtime(packages):
    folder = packages.root.parent
    (folder / "program.c").write_text(PROGRAM)
    libraries = packages.root / LIBRARIES
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tessera-rt"], capture_output=True, text=True, check=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(packages.root),
                                "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}).stdout.split()
    subprocess.run(["cc", "-Wall", "-Werror", folder / "program.c", "-o", folder / "program", *flags], check=True)
    done = subprocess.run([folder / "program", packages.root / "gemm.tsra"], capture_output=True, text=True, check=False,
                          env={"LD_LIBRARY_PATH": str(libraries)})
    check_equal((done.returncode, done.stdout), (0, "2 inputs\n"), done.stderr)


def test_installed_machine_works(packages):
    if os.geteuid() != 0:
        pytest.skip("only root can install packages, on an overlay of this machine")
    with tempfile.TemporaryDirectory(prefix="tessera-machine-") as folder:
        (packages.folder / "commands").write_text(COMMANDS)
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", RUN_COMMANDS, "sh", folder, packages.folder],
                              capture_output=True, text=True, check=False, timeout=600)
        if "mount:" in done.stderr and "user " not in done.stdout:
            pytest.skip(f"no overlay here: {done.stderr.strip()[-200:]}")
    for line in ("user tessera", "python 0.", "units verified", "the container's service answers", "ran", "removed, data and settings kept"):
        check(line in done.stdout, f"'{line}' is missing:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def test_systemd_starts_the_units(packages):
    if os.geteuid() != 0 or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("only root can start a systemd, if it is installed")
    result = packages.folder / "result"
    with tempfile.TemporaryDirectory(prefix="tessera-machine-") as folder:
        (packages.folder / "commands").write_text(LOOK)
        done = subprocess.run(["timeout", "-k", "5", "400", "unshare", "--mount", "--pid", "--cgroup", "--uts", "--ipc", "--fork", "--kill-child",
                               "/bin/sh", "-c", BOOT, "sh", folder, packages.folder], capture_output=True, text=True, errors="replace",
                              check=False)
    said = result.read_text() if result.exists() else ""
    if "booted" not in said:
        pytest.skip(f"systemd does not come up in a namespace here: {(done.stdout + done.stderr).strip()[-200:]}")
    for line in ("active as tessera", "held", "ran", "back with its cache", "inactive success", "worker: active as tessera",
                 "compiled by the worker's unit", "compiled by the next one", "worker: inactive success", "wrong flags: failed 2 0",
                 "newer data: failed 4 0"):
        check(line in said.splitlines(), f"'{line}' is missing:\n{said}\n{done.stdout[-2000:]}")
