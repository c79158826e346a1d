"""Builds the wheel; CMake calls it in the folder with the assembled package. See README.md."""

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """The wheel contains native code and is therefore platform-specific; its extension uses Python's stable ABI."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


setup(cmdclass={"bdist_wheel": PlatformWheel})
