"""Services that were drawn by hash (``benchmarks/probing/services_drawn.txt``): how they start and what they list.

``make probed-services`` installs them, each in an environment of its own under ``.venv-probed``. Their reads are all
that a router or a document of theirs lists with ``GET`` and JSON, with the names of the query's arguments after ``?``;
they are not chosen by what works. Paths that files, pages or pictures are behind are left out.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import httpx

from benchmarks.common import ROOT
from benchmarks.probing.started_services import Other

PROBED = ROOT / ".venv-probed"


def _bin(service: str, program: str) -> str:
    return str(PROBED / service / "bin" / program)


def _moto(folder: Path, port: int) -> list[str]:
    return [_bin("moto", "moto_server"), "-H", "127.0.0.1", "-p", str(port)]


def _fill_moto(base: str) -> None:
    """A pool of users and a topic; what is not signed reaches only the reads below."""
    signed = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/{}/aws4_request, SignedHeaders=host, Signature=b"
    with httpx.Client(base_url=base, trust_env=False) as client:
        pool = {
            "Authorization": signed.format("cognito-idp"),
            "X-Amz-Target": "AWSCognitoIdentityProviderService.CreateUserPool",
            "Content-Type": "application/x-amz-json-1.1",
        }
        client.post("/", headers=pool, content=b'{"PoolName": "town"}').raise_for_status()
        topic = {"Authorization": signed.format("sns")}
        client.post("/", headers=topic, data={"Action": "CreateTopic", "Name": "lamps"}).raise_for_status()


def _luigi(folder: Path, port: int) -> list[str]:
    return [_bin("luigi", "luigid"), "--address", "127.0.0.1", "--port", str(port)]


def _fill_luigi(base: str) -> None:
    tasks: list[dict[str, object]] = [
        {"task_id": "Harvest_2025", "family": "Harvest", "status": "DONE", "params": {"year": "2025"}},
        {"task_id": "Bake_12", "family": "Bake", "deps": ["Harvest_2025"], "params": {"loaves": "12"}},
        {"task_id": "Sell_1", "family": "Sell", "status": "FAILED", "expl": "no stall", "deps": ["Bake_12"]},
    ]
    with httpx.Client(base_url=base, trust_env=False) as client:
        for task in tasks:
            client.post("/api/add_task", data={"data": json.dumps({"worker": "mill", **task})}).raise_for_status()
        client.post(
            "/api/update_resource", data={"data": json.dumps({"resource": "oven", "amount": 2})}
        ).raise_for_status()


_TENSORBOARD = """
import sys
import numpy
from tensorboard.compat.proto import event_pb2, graph_pb2, node_def_pb2
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

for run, rate in (("north", 0.1), ("south", 0.2)):
    writer = EventFileWriter(f"{sys.argv[1]}/{run}")
    def add(summary, step=0):
        writer.add_event(event_pb2.Event(wall_time=1.7e9 + step, step=step, summary=summary))
    for step in range(3):
        add(scalar_pb("loss", rate / (step + 1)), step)
        add(histogram_pb("weights", numpy.arange(10.0) * step), step)
    add(text_pb("notes", "a lamp"))
    rates = hparams.HParam("rate", hparams.RealInterval(0.0, 1.0))
    add(hparams.hparams_config_pb([rates], [hparams.Metric("loss")]))
    add(hparams.hparams_pb({"rate": rate}))
    nodes = [node_def_pb2.NodeDef(name="x", op="Placeholder"), node_def_pb2.NodeDef(name="y", op="Relu", input=["x"])]
    graph = graph_pb2.GraphDef(node=nodes)
    writer.add_event(event_pb2.Event(wall_time=1.7e9, graph_def=graph.SerializeToString()))
    writer.close()
"""


def _tensorboard(folder: Path, port: int) -> list[str]:
    logs = str(folder / "logs")
    subprocess.run([_bin("tensorboard", "python"), "-c", _TENSORBOARD, logs], check=True, capture_output=True)
    flags = ["--host", "127.0.0.1", "--port", str(port), "--load_fast", "false"]
    return [_bin("tensorboard", "tensorboard"), "--logdir", logs, *flags]


def _fill_tensorboard(base: str) -> None:
    with httpx.Client(base_url=base, trust_env=False, timeout=30) as client:
        while len(client.get("/data/plugin/text/tags").json()) < 2:
            pass


def _titiler(folder: Path, port: int) -> list[str]:
    uvicorn = _bin("titiler-application", "uvicorn")
    return [uvicorn, "titiler.application.main:app", "--host", "127.0.0.1", "--port", str(port)]


def _devpi(folder: Path, port: int) -> list[str]:
    data = str(folder / "data")
    made = [_bin("devpi-server", "devpi-init"), "--serverdir", data, "--no-root-pypi"]
    subprocess.run(made, check=True, capture_output=True)
    where = ["--host", "127.0.0.1", "--port", str(port), "--offline-mode"]
    return [_bin("devpi-server", "devpi-server"), "--serverdir", data, *where]


def _fill_devpi(base: str) -> None:
    with httpx.Client(base_url=base, trust_env=False, headers={"Accept": "application/json"}) as client:
        token = client.post("/+login", json={"user": "root", "password": ""}).json()["result"]["password"]
        client.headers["X-Devpi-Auth"] = base64.b64encode(f"root:{token}".encode()).decode()
        client.put("/root/town", json={"type": "stage", "title": "The town's"}).raise_for_status()
        released = {
            "name": "lamp",
            "version": "1.2",
            "filetype": "sdist",
            "metadata_version": "2.1",
            "summary": "Light",
        }
        content = {"content": ("lamp-1.2.tar.gz", b"no archive, and nobody looks")}
        upload = {":action": "file_upload", **released}
        client.post("/root/town/", data=upload, files=content).raise_for_status()


_LUIGI_READS = (
    "has_task_history is_pause_enabled is_paused graph worker_list resource_list task_list?data count_pending?data "
    "dep_graph?data inverse_dep_graph?data task_search?data fetch_error?data get_task_status_message?data "
    "get_task_progress_percentage?data get_running_task_resources?data"
)
_LUIGI_CHANGES = (
    "add_scheduler_message_response?data add_task?data add_task_batcher?data add_worker?data "
    "announce_scheduling_failure?data decrease_running_task_resources?data disable_worker?data forgive_failures?data "
    "get_scheduler_message_response?data get_work?data mark_as_done?data pause ping?data prune re_enable_task?data "
    "report_task_statistics?data send_scheduler_message?data set_task_progress_percentage?data "
    "set_task_status_message?data set_worker_processes?data unpause update_metrics_task_started?data "
    "update_resource?data update_resources?data"
)
_TENSORBOARD_READS = (
    "environment logdir runs experiments experiment_runs notifications window_properties plugins_listing "
    "plugin/scalars/tags plugin/scalars/scalars?run&tag&format plugin/histograms/tags "
    "plugin/histograms/histograms?run&tag plugin/distributions/tags plugin/distributions/distributions?run&tag "
    "plugin/text/tags plugin/text/text?run&tag&markdown plugin/images/tags plugin/images/images?run&tag&sample "
    "plugin/audio/tags plugin/audio/audio?run&tag&sample plugin/pr_curves/tags plugin/pr_curves/pr_curves?run&tag "
    "plugin/custom_scalars/layout plugin/custom_scalars/scalars?run&tag "
    "plugin/custom_scalars/download_data?run&tag&format plugin/mesh/tags plugin/mesh/meshes?run&tag "
    "plugin/graphs/info plugin/hparams/experiment?request plugin/hparams/session_groups?request "
    "plugin/hparams/metric_evals?request plugin/hparams/download_data?request&format&columnsVisibility "
    "plugin/timeseries/tags plugin/timeseries/timeSeries?requests plugin/projector/runs plugin/projector/info?run "
    "plugin/projector/bookmarks?run&name plugin/debugger-v2/runs plugin/debugger-v2/alerts?run&begin&end&alert_type "
    "plugin/debugger-v2/execution/digests?run&begin&end plugin/debugger-v2/execution/data?run&begin&end "
    "plugin/debugger-v2/graph_execution/digests?run&begin&end plugin/debugger-v2/graph_execution/data?run&begin&end "
    "plugin/debugger-v2/graphs/graph_info?run&graph_id plugin/debugger-v2/graphs/op_info?run&graph_id&op_name "
    "plugin/debugger-v2/source_files/list?run plugin/debugger-v2/source_files/file?run&index "
    "plugin/debugger-v2/stack_frames/stack_frames?run&stack_frame_ids"
)
DRAWN = (
    Other(
        "moto",
        (
            "/moto-api/config", "/moto-api/data.json", "/moto-api/state-manager/get-transition?model_name",
            "/latest/meta-data/iam", "/latest/meta-data/iam/security-credentials/{role}",
            "/{user_pool_id}/.well-known/jwks.json", "/{user_pool_id}/.well-known/openid-configuration",
        ),
        _moto, _fill_moto,
    ),
    Other(
        "luigi", tuple(f"/api/{name}" for name in _LUIGI_READS.split()), _luigi, _fill_luigi,
        changes=tuple(f"/api/{name}" for name in _LUIGI_CHANGES.split()),
    ),
    Other(
        "tensorboard", tuple(f"/data/{name}" for name in _TENSORBOARD_READS.split()), _tensorboard, _fill_tensorboard
    ),
    Other("titiler-application", (), _titiler, own_document="/api"),
    Other(
        "devpi-server",
        (
            "/", "/+api", "/+status", "/{user}", "/{user}/+api", "/{user}/{index}", "/{user}/{index}/+api",
            "/{user}/{index}/+simple/", "/{user}/{index}/+simple/{project}/", "/{user}/{index}/{project}",
            "/{user}/{index}/{project}/{version}",
        ),
        _devpi, _fill_devpi,
    ),
)  # fmt: skip
