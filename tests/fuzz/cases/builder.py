"""Compiles models without a service, in one process that keeps running (`build_models`); campaigns mostly use this."""

import subprocess

from e2e.tessera_e2e import BIN


class Builder:
    """A context manager for one thread."""

    def __enter__(self):
        self._process = subprocess.Popen([BIN / "build_models"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def built(self, model, target, flags, artifact):
        """Whether the artifact exists. If not, the service reports the reason."""
        level = flags[flags.index("-O") + 1] if "-O" in flags else "0"
        self._process.stdin.write(f"{model}\t{target}\t{level}\t{artifact}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"build_models ended with {self._process.wait()}")
        return answer == "built\n"
