"""Builds the package: its own files, and what generate.py makes of the protos."""
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent


class Build(build_py):
    def run(self):
        super().run()
        subprocess.run([sys.executable, str(HERE / "generate.py"), self.build_lib], check=True)


class Archive(sdist):
    """An archive has the protos with it: there is no repository around it."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        shutil.copy(HERE / "generate.py", base_dir)
        protos = pathlib.Path(base_dir) / "protos" / "dfsmr"
        shutil.copytree(HERE.parent / "dfsmr" / "v1", protos / "v1", dirs_exist_ok=True)
        shutil.copy(HERE.parent / "required.json", protos.parent)


setup(cmdclass={"build_py": Build, "sdist": Archive})
