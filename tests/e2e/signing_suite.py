"""Native code runs only if a trusted service signed the file: unsigned, foreign and changed artifacts are rejected,
including those with corrected checksums."""

import hashlib
import stat
import struct
import zipfile
import zlib

import pytest

from checks import check, check_equal
from e2e import python_package
from e2e.tessera_e2e import Service, model_path

pytestmark = pytest.mark.service(workers=1)

MODEL, DIM = "mlp", ("--dim", "N=1")


def signature_of(artifact):
    return artifact.with_name(artifact.name + ".sig")


def refused(service, artifact, words, **options):
    failure = service.cli("run", artifact, "--random", "--json", expect=3, **options).failure
    check_equal(failure["reason"], "INVALID_INPUT", "reason")
    check(words in failure["message"] and "--untrusted" in failure["fix"], failure)


def copy_of(service, artifact, signed=True):
    copy = service.scratch("copy.tsra")
    copy.write_bytes(artifact.read_bytes())
    if signed:
        signature_of(copy).write_bytes(signature_of(artifact).read_bytes())
    return copy


def mended(path, entry):
    """Changes a byte of a stored entry, and its checksum in both places."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(entry)
        start_of_directory = archive.start_dir
    name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
    start = info.header_offset + 30 + name + extra
    data[start + info.file_size // 2] ^= 1
    crc = zlib.crc32(data[start:start + info.file_size])
    struct.pack_into("<I", data, info.header_offset + 14, crc)
    at = start_of_directory
    while data[at + 46:at + 46 + len(entry)] != entry.encode():
        at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    struct.pack_into("<I", data, at + 16, crc)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def compiled(service):
    return service.compile(model_path(MODEL), None, *DIM)


@pytest.fixture(scope="module")
def artifact(compiled):
    return compiled.artifact


@pytest.fixture(scope="module")
def job(compiled):
    return compiled.job


def test_what_was_just_compiled_runs(service, artifact, job):
    check_equal(hashlib.sha256(artifact.read_bytes()).hexdigest(), job["compile_result"]["artifact_id"],
                "the file is the artifact, byte for byte")
    service.cli("run", artifact, "--random")
    fetched = service.scratch("fetched.tsra")
    service.cli("fetch", job["compile_result"]["artifact_id"], "-o", fetched)
    check_equal(signature_of(fetched).read_text(), signature_of(artifact).read_text(), "the signature, each time")
    service.cli("run", fetched, "--random")
    blob = service.scratch("blob")
    service.cli("fetch", "--blob", job["compile_result"]["artifact_id"], "-o", blob)
    check(not signature_of(blob).exists(), "a blob is a file like others")


def test_without_a_signature_it_does_not(service, artifact):
    copy = copy_of(service, artifact, signed=False)
    refused(service, copy, "no trusted signature")
    service.cli("run", copy, "--random", "--untrusted")
    for words in (("compare", copy, artifact), ("compare", artifact, copy)):
        answer = service.cli(*words, expect=3)
        check("no trusted signature" in answer.err, answer)
        service.cli(*words, "--untrusted", "--rounds", "5")
    signature_of(copy).write_text("tessera-signature 1\n")
    refused(service, copy, "is no signature")


def test_a_changed_one_does_not(service, artifact):
    for entry in ("manifest.json", "plan.pb", "weights.bin"):
        copy = copy_of(service, artifact)
        mended(copy, entry)
        refused(service, copy, "was changed")
    # Its checksums are correct: only the signature shows the change.
    copy = copy_of(service, artifact)
    mended(copy, "manifest.json")
    service.cli("run", copy, "--random", "--untrusted", "--verify")


def test_anothers_signature_does_not_count(service, artifact):
    with Service(workers=1) as other:
        twin = other.compile(model_path(MODEL), None, *DIM)
        check_equal(twin.artifact.read_bytes() == artifact.read_bytes(), True, "the same artifact of another service")
        check(signature_of(twin.artifact).read_text() != signature_of(artifact).read_text(), "keys differ")
        trusted = service.scratch("trusted-keys")
        env = {"TESSERA_TRUST": str(trusted)}
        refused(service, twin.artifact, f"there is no file {trusted} of trusted ones", env=env)
        key = service.cli("admin", "signing-key", "--trust", env=env).out.strip()
        check(trusted.read_text().startswith(key + " "), trusted.read_text())
        service.cli("run", artifact, "--random", env=env)
        refused(service, twin.artifact, "does not hold", env=env)
        copy = copy_of(service, artifact)
        signature_of(copy).write_text(signature_of(twin.artifact).read_text().replace(
            other.cli("admin", "signing-key").out.strip(), key))
        refused(service, copy, "was changed", env=env)
        other.cli("admin", "signing-key", "--trust", env=env)
        service.cli("run", twin.artifact, "--random", "--trust", trusted, env={"TESSERA_TRUST": ""})
        check_equal(len(trusted.read_text().splitlines()), 2, "keys")


PYTHON = """
import sys

import numpy as np
import tessera
from tessera import errors

where, good, bare, changed, trusted, empty, saved = sys.argv[1:]
key = open(trusted).read().split()[0]

def refused(path, words, trust):
    try:
        tessera.load(path, trust=trust)
    except errors.InvalidInput as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{path} was loaded")

for trust in (True, trusted, [key], {key}):
    model = tessera.load(good, trust=trust)
    assert model(**{t.name: np.zeros(t.shape, np.float32) for t in model.inputs})
for strange, words in ((bare, "no trusted signature"), (changed, "was changed")):
    tessera.load(strange, trust=False)
    refused(strange, words, True)
    for load in (tessera.load, tessera.InferenceSession):
        try:
            load(strange)
        except errors.InvalidInput as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{strange} was loaded unasked")
    tessera.InferenceSession(strange, trust=False)
for nobody in (empty, [], ["0" * 64]):
    refused(good, "does not hold", nobody)
refused(good, "there is no file /nowhere/keys of trusted ones", "/nowhere/keys")
with tessera.connect(where) as client:
    artifact = client.compile(open(sys.argv[0] + ".te", "rb").read(), format="te", shapes={"A": (2, 3), "B": (3, 2)}).artifact
    artifact.save(saved)
tessera.load(saved, trust=True)
print("checked")
"""


def test_python_checks_the_same(service, artifact):
    bare = copy_of(service, artifact, signed=False)
    bare = bare.rename(bare.with_name("bare.tsra"))
    changed = copy_of(service, artifact)
    mended(changed, "manifest.json")
    keys, empty = service.scratch("own-keys"), service.scratch("no-keys")
    env = {"TESSERA_TRUST": str(keys)}
    service.cli("admin", "signing-key", "--trust", env=env)
    empty.write_text("# none\n")
    script = service.scratch("check.py")
    script.write_text(PYTHON)
    script.with_name(script.name + ".te").write_text("input A[M, K], B[K, N]: f32; C[i, j] += A[i, k] * B[k, j];")
    saved = service.scratch("saved.tsra")
    ended, out, err = python_package.run(script, service.address, artifact, bare, changed, keys, empty, saved, env=env)
    check(ended == 0 and out.strip() == "checked", f"{ended}: {out} {err}")
    service.cli("run", saved, "--random", env=env)


def test_without_a_home_the_artifact_is_there(service):
    artifact = service.scratch("homeless.tsra")
    nowhere = {"TESSERA_TRUST": "", "XDG_CONFIG_HOME": "", "HOME": ""}
    answer = service.cli("compile", model_path(MODEL), "--target", "host", *DIM, "-o", artifact, env=nowhere)
    check("set TESSERA_TRUST" in answer.err, f"no advice: {answer}")
    refused(service, artifact, "no home folder", env=nowhere)
    service.cli("run", artifact, "--random", "--untrusted", env=nowhere)


def test_the_key_stays(service, artifact):
    key = service.data / "signing.key"
    check_equal(stat.S_IMODE(key.stat().st_mode), 0o600, "who may read the key")
    before = service.cli("admin", "signing-key", "--json").json["public_key"]
    service.stop()
    service.start()
    check_equal(service.cli("admin", "signing-key", "--json").json["public_key"], before, "the key after a restart")
    service.cli("run", artifact, "--random")
