"""The Python stubs of both services, generated from proto/ when the tests start.

v1 is dfsmr/v1/runner.proto, schedule is schedule.proto beside it, agent is agent.proto, package is package.proto, view is view.proto, cluster is cluster.proto; original is dfsmr.proto, the service of the original dfsmr.
"""
import atexit
import pathlib
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROTO = REPOSITORY / "proto"


def _generate():
    folder = tempfile.mkdtemp(prefix="dfsmr-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plugin = shutil.which("grpc_python_plugin")
    if plugin is None:
        raise RuntimeError("grpc_python_plugin is missing: apt-get install protobuf-compiler-grpc")
    subprocess.run(
        ["protoc", "-I", str(PROTO), f"--python_out={folder}", f"--grpc_python_out={folder}",
         f"--plugin=protoc-gen-grpc_python={plugin}", "dfsmr.proto", "dfsmr/v1/runner.proto",
         "dfsmr/v1/admin.proto", "dfsmr/v1/schedule.proto", "dfsmr/v1/agent.proto",
         "dfsmr/v1/package.proto", "dfsmr/v1/view.proto", "dfsmr/v1/cluster.proto"],
        check=True)
    sys.path.insert(0, folder)


_generate()

import dfsmr_pb2 as original  # noqa: E402
import dfsmr_pb2_grpc as original_grpc  # noqa: E402
from dfsmr.v1 import admin_pb2 as admin  # noqa: E402
from dfsmr.v1 import admin_pb2_grpc as admin_grpc  # noqa: E402
from dfsmr.v1 import agent_pb2 as agent  # noqa: E402
from dfsmr.v1 import agent_pb2_grpc as agent_grpc  # noqa: E402
from dfsmr.v1 import cluster_pb2 as cluster  # noqa: E402
from dfsmr.v1 import cluster_pb2_grpc as cluster_grpc  # noqa: E402
from dfsmr.v1 import package_pb2 as package  # noqa: E402
from dfsmr.v1 import package_pb2_grpc as package_grpc  # noqa: E402
from dfsmr.v1 import runner_pb2 as v1  # noqa: E402
from dfsmr.v1 import runner_pb2_grpc as v1_grpc  # noqa: E402
from dfsmr.v1 import schedule_pb2 as schedule  # noqa: E402
from dfsmr.v1 import schedule_pb2_grpc as schedule_grpc  # noqa: E402
from dfsmr.v1 import view_pb2 as view  # noqa: E402
from dfsmr.v1 import view_pb2_grpc as view_grpc  # noqa: E402

__all__ = ["REPOSITORY", "PROTO", "admin", "admin_grpc", "agent", "agent_grpc", "cluster", "cluster_grpc",
           "original",
           "original_grpc", "v1", "schedule", "schedule_grpc", "v1_grpc",
           "view", "view_grpc"]
