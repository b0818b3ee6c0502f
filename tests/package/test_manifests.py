"""The manifests for Kubernetes: by the schemas of its API, and by what every pod of ours must keep."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.package import ROOT, release_tool

FOLDER = ROOT / "deploy" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
SECRETS = {"atc-store", "atc-model", "atc-sandbox-caller", "atc-sandbox-tenants"}
"""Those that docs/service.md makes."""


def documents() -> Iterator[dict[str, Any]]:
    for file in FILES:
        yield from yaml.safe_load_all(file.read_text())


def pods() -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"]["template"] for each in documents() if "template" in each.get("spec", {})
    }


def test_service_store_and_workers_are_there() -> None:
    assert set(pods()) == {"atc-sandbox", "atc-store", "atc-batch"}


@pytest.mark.parametrize("name", ["atc-sandbox", "atc-store", "atc-batch"])
def test_every_pod_is_restricted_and_bounded(name: str) -> None:
    pod = pods()[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert not any(pod.get(shared) for shared in ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    kinds = {key for volume in pod.get("volumes", ()) for key in volume} - {"name"}
    assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for bound in ("requests", "limits"):
            assert set(container["resources"][bound]) == {"cpu", "memory", "ephemeral-storage"}
        if name != "atc-batch":  # a worker ends by itself, and has nothing that could be asked
            assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)


@pytest.mark.parametrize("name", ["atc-sandbox", "atc-store", "atc-batch"])
def test_no_secret_stands_in_a_manifest(name: str) -> None:
    pod = pods()[name]["spec"]
    for variable in pod["containers"][0]["env"]:
        secret = any(word in variable["name"] for word in ("TOKEN", "PASSWORD", "KEY", "STORE"))
        assert not secret or variable["valueFrom"]["secretKeyRef"]["name"] in SECRETS
    assert not [each for each in documents() if each["kind"] == "Secret"]


def test_all_is_in_one_namespace_that_is_closed_by_default() -> None:
    (namespace,) = (each for each in documents() if each["kind"] == "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [each for each in documents() if each["kind"] != "Namespace"]
    assert {each["metadata"]["namespace"] for each in others} == {namespace["metadata"]["name"]}
    policies = {each["metadata"]["name"]: each["spec"] for each in others if each["kind"] == "NetworkPolicy"}
    assert policies["nothing-by-default"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    budgets = {each["metadata"]["name"] for each in others if each["kind"] == "PodDisruptionBudget"}
    assert set(pods()) <= set(policies)
    assert set(pods()) <= budgets


def test_who_is_called_lets_its_callers_in() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in documents() if each["kind"] == "NetworkPolicy"}
    caller = pods()["atc-batch"]["metadata"]["labels"]
    allowed = {
        (rule["to"][0]["podSelector"]["matchLabels"]["app"], rule["ports"][0]["port"])
        for rule in policies["atc-batch"]["egress"]
        if "app" in rule["to"][0].get("podSelector", {}).get("matchLabels", {})
    }
    for name, port in (("atc-store", 5432), ("atc-sandbox", 8700)):
        (rule,) = policies[name]["ingress"]
        assert rule["from"][0]["podSelector"]["matchLabels"].items() <= caller.items()
        assert [each["port"] for each in rule["ports"]] == [port]
        assert (name, port) in allowed
        assert policies[name]["egress"] == []


@pytest.mark.slow
def test_the_schemas_of_kubernetes_take_them(tmp_path: Path) -> None:
    validator = release_tool("kubernetes-validate")
    ran = subprocess.run([validator, "--strict", *map(str, FILES)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((FOLDER / "store.yaml").read_text().replace("readOnlyRootFilesystem", "readonlyRootFilesystem"))
    refused = subprocess.run([validator, "--strict", str(wrong)], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "readonlyRootFilesystem" in refused.stdout + refused.stderr
