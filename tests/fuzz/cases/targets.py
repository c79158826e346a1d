"""Targets to compile for: "host" and each built-in x86-64 target. A target whose vector instructions this machine lacks
is replaced by a stand-in: its registers, caches and layouts, hence its loops and remainders, with x86-64-v3
instructions."""

import os
import pathlib
import re

BUILTIN = pathlib.Path(__file__).resolve().parents[3] / "compiler" / "target" / "builtin"
CODE = re.compile(r"^code \{.*?^\}", re.DOTALL | re.MULTILINE)
FEATURE = re.compile(r'features: "((?:avx|amx|sse4a)[^"]*)"')


def missing_instructions(text, flags):
    """Vector instructions of a target description that no CPU flag implies, or that the host is declared to lack."""
    known = {flag.replace("_", "") for flag in flags}
    limit = os.environ.get("TESSERA_HOST_FEATURES")
    return [name for name in FEATURE.findall(text)
            if name.replace("-", "").replace(".", "") not in known or (limit and name not in limit.split(","))]


def runnable(folder):
    """Values of --target. Writes descriptions of stand-ins to `folder`."""
    info = pathlib.Path("/proc/cpuinfo").read_text(errors="replace")
    found = re.search(r"^flags\s*:(.*)$", info, re.MULTILINE)
    flags = found.group(1).split() if found else []
    targets = ["host"]
    spare = CODE.search((BUILTIN / "x86-64-v3.textproto").read_text()).group(0)
    for path in sorted(BUILTIN.glob("*.textproto")):
        text = path.read_text()
        if "family: X86_64" not in text or missing_instructions(spare, flags):
            continue
        if not missing_instructions(text, flags):
            targets.append(path.stem)
            continue
        name = f"{path.stem}-stand-in"
        stand_in = pathlib.Path(folder) / f"{name}.textproto"
        stand_in.write_text(CODE.sub(lambda _: spare, text).replace(f'name: "{path.stem}"', f'name: "{name}"', 1))
        targets.append(str(stand_in))
    return targets


def name_of(target):
    return pathlib.Path(target).stem
