"""The wheel; called by CMake in the folder where the package was put together. See README.md."""

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """It brings native code along, so it belongs to a platform; its extension has Python's stable interface."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


setup(cmdclass={"bdist_wheel": PlatformWheel})
