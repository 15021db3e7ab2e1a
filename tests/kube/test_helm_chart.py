"""The chart as text: what it makes of its values, whether a real API server takes every word of it, and what it refuses."""
import json
import os
import re
import runpy
import tomllib
from collections import Counter
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufairy import __version__
from gpufairy.wire.config import Config, load_config
from gpufairy.wire.kubernetes_config import KubernetesConfig
from kube.cluster import Cluster
from kube.definitions import define
from kube.dra_scene import DRIVER_RIGHTS
from kube.helm import CHART, Admin, CommandFailed
from kube.start import programs_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
NAMESPACE, SESSIONS = (f"{name}-{os.getpid()}" for name in ("chart", "chart-sessions"))
GUIDE = {"gpu-session-monitoring": {"enabled": True}}
EVERYTHING: dict[str, Any] = {
    "server": {"enabled": True, "settings": {"policy": {"half_life": "3d"}, "presets": {"small": {"gpus": "0.25", "cpus": 1}}, "watch": {"name_rules": ["USER_*"]}},
               "podDisruptionBudget": {"enabled": True}, "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "core", "operator": "Exists"}], "env": [{"name": "A", "value": "1"}],
               "affinity": {"nodeAffinity": {}}, "podAnnotations": {"a": "b"}, "serviceAccount": {"annotations": {"a": "b"}}},
    "database": {"url": "postgresql://fairy@db:5432/gpufairy", "passwordSecret": {"name": "db"}},
    "service": {"type": "LoadBalancer", "port": 80, "sshPort": 22, "nodePort": 30080, "sshNodePort": 30022, "loadBalancerSourceRanges": ["192.0.2.0/24"], "annotations": {"a": "b"}},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}}, "apps": {"domain": "apps.example.org", "tlsSecret": "apps"},
    "sessions": {
        "podDisruptionBudget": {"enabled": True}, "teams": ["nlp", "vision"], "toolsImage": {"repository": "registry.lab/tools", "tag": "2", "by": "copy"},
        "pullPolicy": "Always", "pullSecret": "registry", "registry": {"prefix": "registry.lab:5000/fairy", "loginsSecret": "logins", "plainHttp": True}, "homes": {"access": "one", "storageClass": "fast", "size": "20Gi"}, "sharedClaim": "common",
        "folders": {"datasets": {"claim": "datasets", "path": "imagenet"}, "scratch": {"claim": "scratch", "write": True}},
        "gpus": {"fractions": "hami", "replicas": 8}, "labels": {"kueue.x-k8s.io/queue-name": "lab"}, "tolerations": ["gpu", "spot"], "nodes": "gpufairy.io/sessions=yes",
        "runtimeClassName": "nvidia", "networkPolicy": {"also": [{"cidr": "10.1.2.3/32", "port": 5000}, {"cidr": "fd00::5/128"}]},
    },
    "agents": {"dra": {"enabled": True}, "nvidia": {"runtimeClassName": "nvidia", "driverPath": "/opt/driver"}, "names": ["USER_*"], "priorityClassName": "system-node-critical", "podAnnotations": {"a": "b"}},
    "image": {"pullSecrets": ["registry"]}, "networkPolicy": {"prometheus": {"namespaceSelector": {"matchLabels": {"a": "b"}}, "podSelector": {"matchLabels": {"c": "d"}}}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "p"}, "server": {"tokenSecret": "t"}}, "prometheusRule": {"enabled": True, "labels": {"release": "p"}},
    "dashboards": {"enabled": True, "annotations": {"folder": "GPUs"}},
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "as it comes": {}, "everything": EVERYTHING, "the guide's": GUIDE,
    "the guide's, by the clock": {"gpu-session-monitoring": {"enabled": True, "collection": {"mode": "cronjob", "nodes": 3}}},
    "a namespace for each team": {"sessions": {"teams": ["nlp"]}, "persistence": {"enabled": False}},
    "server alone": {"agents": {"enabled": False}, "server": {"engine": "process"}, "persistence": {"existingClaim": "old"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def admin(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Admin:
    for name in (NAMESPACE, SESSIONS, *(f"{SESSIONS}-{team}" for team in ("nlp", "vision"))):
        cluster.namespace(name)
    for chosen in ("*servicemonitors", "*prometheusrules"):
        define(cluster, programs_of("monitor-crds")["monitor-crds"], chosen)
    return Admin(cluster, tmp_path_factory.mktemp("admin"))


def kinds(documents: list[dict[str, Any]]) -> Counter[str]:
    return Counter(one["kind"] for one in documents)


def one(documents: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = [document for document in documents if document["kind"] == kind and document["metadata"]["name"].endswith(name)]
    return found


def test_lint_finds_nothing(admin):
    assert "1 chart(s) linted, 0 chart(s) failed" in admin.helm("lint", ".", "--strict")


def test_the_version_is_the_package_s():
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (told["appVersion"], told["version"]) == (__version__, __version__)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_api_server_takes_every_document_and_knows_every_field(admin, shape):
    values = SHAPES[shape]
    documents = admin.rendered(namespace=NAMESPACE, values={**values, "sessions": {**values.get("sessions", {}), "namespace": SESSIONS}})
    text = "\n---\n".join(json.dumps(document) for document in documents)
    told = admin.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "--field-manager=tests", "--force-conflicts", "-f", "-", said=text)
    assert told.count("serverside-applied (server dry run)") == len(documents)


def test_a_packaged_chart_says_the_same(admin, tmp_path):
    admin.helm("package", ".", "--destination", str(tmp_path))
    packed = admin.helm("template", "gpufairy", str(tmp_path / f"gpufairy-{__version__}.tgz"), "--namespace", "lab", values=EVERYTHING)
    assert [document for document in yaml.safe_load_all(packed) if document] == admin.rendered(values=EVERYTHING)


def test_everything_comes_from_the_folders_of_deploy(admin):
    documents = admin.rendered(values=EVERYTHING)
    deploy = CHART.parents[1]
    for path in (deploy / "grafana").glob("*.json"):
        assert json.loads(one(documents, "ConfigMap", f"dashboard-{path.stem}")["data"][path.name]) == json.loads(path.read_text())
    for part in ("alerts", "records"):
        assert one(documents, "PrometheusRule", part)["spec"] == yaml.safe_load((deploy / "prometheus" / f"fairy.{part}.yml").read_text())


def settings_of(documents: list[dict[str, Any]], folder: Path) -> Config:
    """As the server reads them."""
    (folder / "fairy.toml").write_text(one(documents, "ConfigMap", "settings")["data"]["fairy.toml"])
    return load_config(folder / "fairy.toml")


def test_the_settings_are_a_fairy_toml_that_the_server_reads(admin, tmp_path):
    read = settings_of(admin.rendered(values=EVERYTHING), tmp_path)
    assert (read.policy.half_life, read.watch.name_rules, read.server.store) == ("3d", ["USER_*"], "postgresql://fairy@db:5432/gpufairy")
    assert tomllib.loads((tmp_path / "fairy.toml").read_text())["presets"] == {"small": {"gpus": "0.25", "cpus": 1}}
    kube = read.kubernetes
    assert (kube.namespace, kube.team_namespaces, kube.tools_image, kube.tools) == ("gpufairy-sessions", True, "registry.lab/tools:2", "copy")
    assert (kube.pull_policy, kube.pull_secret, kube.runtime_class, kube.nodes, kube.pool_label) == ("Always", "registry", "nvidia", "gpufairy.io/sessions=yes", "role")
    assert (kube.registry, kube.registry_logins, kube.registry_http) == ("registry.lab:5000/fairy", "/etc/gpufairy-registry/.dockerconfigjson", True)
    assert (kube.homes.access, kube.homes.storage_class, kube.homes.size, kube.shared_claim) == ("one", "fast", "20Gi", "common")
    assert {name: (folder.claim, folder.path, folder.write) for name, folder in kube.folders.items()} == {"datasets": ("datasets", "imagenet", False), "scratch": ("scratch", "", True)}
    assert (kube.gpus.fractions, kube.gpus.replicas, kube.labels, kube.tolerate) == ("hami", 8, {"kueue.x-k8s.io/queue-name": "lab"}, ["gpu", "spot"])
    assert kube.server_url == "http://gpufairy.lab.svc:80"


def test_unless_told_otherwise_the_settings_are_the_server_s_own(admin, tmp_path):
    told, usual = settings_of(admin.rendered(), tmp_path).kubernetes, KubernetesConfig()
    ours = {"namespace": "gpufairy-sessions", "server_url": "http://gpufairy.lab.svc:8420", "tools_image": f"ghcr.io/gpufairy/gpufairy-tools:{__version__}"}
    assert told == usual.model_copy(update=ours)
    assert told.model_fields_set == set(KubernetesConfig.model_fields) - {"kubeconfig", "context"}, "each can be said by a value of its own"
    assert settings_of(admin.rendered(values={"server": {"engine": "process"}}), tmp_path).kubernetes == usual


def test_settings_win_over_values(admin, tmp_path):
    said = {"server": {"settings": {"kubernetes": {"homes": {"size": "5Gi"}}}}, "sessions": {"homes": {"storageClass": "fast"}}}
    homes = settings_of(admin.rendered(values=said), tmp_path).kubernetes.homes
    assert (homes.size, homes.storage_class) == ("5Gi", "fast")


def test_no_password_is_in_any_document(admin):
    documents = admin.rendered(values={"database": EVERYTHING["database"]})
    assert "password" not in one(documents, "ConfigMap", "settings")["data"]["fairy.toml"]
    env = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}} in env
    with pytest.raises(CommandFailed, match=r"'/database/url'.*does not match"):
        admin.rendered("--set", "database.url=postgresql://fairy:secret@db/gpufairy")


def test_the_guide_s_line_gives_agents_and_no_server(admin):
    documents = admin.rendered("--set", "gpu-session-monitoring.enabled=true", namespace="monitoring")
    assert kinds(documents) == {"DaemonSet": 1, "Service": 1, "ServiceAccount": 1, "ClusterRole": 1, "ClusterRoleBinding": 1, "NetworkPolicy": 1}
    pod = one(documents, "DaemonSet")["spec"]["template"]["spec"]
    assert (pod["hostPID"], pod["nodeSelector"], pod["tolerations"][0]["key"]) == (True, {"accelerator": "nvidia"}, "nvidia.com/gpu")
    container = pod["containers"][0]
    assert container["args"][0] == "exporter"
    assert container["resources"] == {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "256Mi"}}
    assert "--textfile=/var/lib/node_exporter/textfile_collector" in container["args"]


GUIDE_VALUES: dict[str, Any] = {
    "collection": {"mode": "cronjob", "schedule": "*/5 * * * *", "resources": {"limits": {"memory": "128Mi"}}},
    "nodeSelector": {"gpu": "yes"}, "tolerations": [{"key": "lab", "operator": "Exists"}],
}  # fmt: skip


@pytest.mark.parametrize("values", [{"gpu-session-monitoring": {"enabled": True, **GUIDE_VALUES}}, {**GUIDE, **GUIDE_VALUES}], ids=["below the guide's name", "at the top"])
def test_the_guide_s_values_count(admin, values):
    made = one(admin.rendered(values=values), "CronJob")
    pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (made["metadata"]["name"], made["spec"]["schedule"]) == ("gpu-session-metrics-collector", "*/5 * * * *")
    assert (pod["nodeSelector"], pod["tolerations"]) == (GUIDE_VALUES["nodeSelector"], GUIDE_VALUES["tolerations"])
    assert pod["containers"][0]["resources"]["limits"]["memory"] == "128Mi"
    assert {"exporter", "--once", "--textfile=/var/lib/node_exporter/textfile_collector"} <= set(pod["containers"][0]["args"])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("agents.collection.schedul=x", r"'/agents/collection': additional properties 'schedul' not allowed"),
        ("server.engine=docker", r"'/server/engine': value must be one of 'kubernetes', 'process'"),
        ("service.port=http", r"'/service/port': got string, want integer"),
        ("agents.collection.mode=often", r"'/agents/collection/mode': value must be one of 'daemonset', 'cronjob'"),
        ("collection.schedule=hourly", r"'/collection/schedule': 'hourly' does not match"),
        ("sessions.namespace=Sessions", r"'/sessions/namespace': 'Sessions' does not match"),
        ("sessions.homes.access=some", r"'/sessions/homes/access': value must be one of 'many', 'one', 'none'"),
        ("sessions.folders.data.path=x", r"'/sessions/folders/data': missing property 'claim'"),
        ("sessions.gpus.replicas=1", r"'/sessions/gpus/replicas': minimum: got 1, want 2"),
        ("sessions.tolerations[0].key=gpu", r"'/sessions/tolerations/0': got object, want string"),
        ("gpu-session-monitoring.enable=true", r"additional properties 'enable' not allowed"),
        ("agents.collection.mode=cronjob,agents.collection.textfile=", r"mode cronjob writes nothing else. Name node-exporter's folder"),
    ],
)
def test_what_cannot_be_is_refused_in_words(admin, said, words):
    with pytest.raises(CommandFailed, match=words):
        admin.rendered("--set", said)


def test_every_value_has_its_place_in_the_schema_and_a_word_about_it():
    values, schema = yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text())
    missing, known = [], {"enabled", "name", "annotations", "labels", "key"}

    def walk(told: dict[str, Any], place: dict[str, Any], path: str) -> None:
        place = schema["definitions"][place["$ref"].rpartition("/")[2]] if "$ref" in place else place
        if "properties" not in place:
            return
        assert place.get("additionalProperties") is False, path
        for name in told.keys() ^ place["properties"].keys():
            missing.append(f"{path}.{name}")
        for name, value in told.items():
            if isinstance(value, dict) and value and name in place["properties"]:
                walk(value, place["properties"][name], f"{path}.{name}")

    walk(values, schema, "")
    assert [name for name in missing if name.rpartition(".")[2] not in known | {"global", "claims"}] == []


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["as it comes", "everything"])
def test_the_server_has_no_right_outside_its_sessions_but_to_look(admin, values):
    documents = admin.rendered(values=values)
    for rule in one(documents, "ClusterRole", "cluster")["rules"]:
        assert set(rule["verbs"]) <= {"get", "list", "watch"}
        assert "secrets" not in rule["resources"]
    teams = values.get("sessions", {}).get("teams", [])
    wanted = {"gpufairy-sessions", *(f"gpufairy-sessions-{team}" for team in teams)}
    for kind in ("Role", "RoleBinding", "Namespace", "NetworkPolicy"):
        found = {document["metadata"].get("namespace", document["metadata"]["name"]) for document in documents if document["kind"] == kind}
        assert found - {"lab"} == wanted, kind
    for role in (document for document in documents if document["kind"] in ("Role", "ClusterRole")):
        assert not re.search(r"\*", json.dumps(role["rules"]))


def test_no_pod_of_a_session_could_pass_for_an_agent(admin):
    space = one(admin.rendered(), "Namespace")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert space["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def reaches(policy: dict[str, Any], address: str, port: int) -> bool:
    """By address alone, as a network reads the policy."""
    at = ip_address(address)
    for rule in policy["egress"]:
        if rule.get("ports") and port not in [told["port"] for told in rule["ports"]]:
            continue
        for block in (told["ipBlock"] for told in rule["to"] if "ipBlock" in told):
            if at in ip_network(block["cidr"]) and not any(at in ip_network(left_out) for left_out in block.get("except", ())):
                return True
    return False


def test_sessions_reach_the_world_dns_and_the_server_and_nobody_reaches_them(admin):
    policy = one(admin.rendered(), "NetworkPolicy", "-sessions")["spec"]
    assert (policy["podSelector"], policy["ingress"], policy["policyTypes"]) == ({}, [], ["Ingress", "Egress"])
    assert all(reaches(policy, world, 443) for world in ("198.51.100.7", "2001:db8::7"))
    inside = ("169.254.169.254", "10.96.0.1", "10.244.3.4", "192.168.1.10", "172.17.0.1", "100.64.0.9", "fd00::1", "fe80::1")
    assert [address for address in inside if reaches(policy, address, 443)] == []
    server, dns = policy["egress"][:2]
    assert server["ports"] == [{"port": 8420, "protocol": "TCP"}]
    assert server["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "server"
    assert {told["port"] for told in dns["ports"]} == {53}


def test_sessions_reach_what_the_admin_names(admin):
    policy = one([document for document in admin.rendered(values=EVERYTHING) if document["metadata"].get("namespace") == "gpufairy-sessions"], "NetworkPolicy", "-sessions")["spec"]
    assert (reaches(policy, "10.1.2.3", 5000), reaches(policy, "10.1.2.3", 22), reaches(policy, "fd00::5", 2049)) == (True, False, True)


def test_agents_that_give_out_parts_of_gpus_have_what_that_takes(admin):
    documents = admin.rendered("--set", "agents.dra.enabled=true")
    assert one(documents, "DeviceClass")["metadata"]["name"] == "gpu.fairy"
    pod = one(documents, "DaemonSet")["spec"]["template"]["spec"]
    assert "--dra" in pod["containers"][0]["args"]
    mounted = {mount["mountPath"]: mount.get("readOnly", False) for mount in pod["containers"][0]["volumeMounts"]}
    assert {path: mounted[path] for path in ("/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi")} == {"/var/lib/kubelet/plugins": False, "/var/lib/kubelet/plugins_registry": False, "/var/run/cdi": False}
    assert kinds(admin.rendered())["DeviceClass"] == 0
    granted = {(group, resource): set(rule["verbs"]) for rule in one(documents, "ClusterRole", "-agent")["rules"] for group in rule["apiGroups"] for resource in rule["resources"]}
    for rule in DRIVER_RIGHTS:  # those that the driver's own tests have
        assert set(rule["verbs"]) <= granted[rule["apiGroups"][0], rule["resources"][0]], rule
    with pytest.raises(CommandFailed, match="agents that stay and report to a server"):
        admin.rendered("--set", "agents.dra.enabled=true,agents.collection.mode=cronjob")


def test_agents_that_tell_of_disks_may_list_closed_folders_and_others_may_not(admin):
    def container(*options):
        return one(admin.rendered(*options), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]

    assert "--disk=none" in (usual := container())["args"]
    assert usual["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    walking = container("--set", "agents.disk={auto}")
    assert "--disk=auto" in walking["args"]
    assert walking["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]}
    assert not [word for word in container("--set", "server.enabled=false,agents.disk={/data}")["args"] if word.startswith("--disk")]
    with pytest.raises(CommandFailed, match=r"agents.disk takes agents.hostFileSystems"):
        admin.rendered("--set", "agents.disk={/data},agents.hostFileSystems=false")


def test_agents_under_which_mps_runs_are_replaced_only_when_somebody_deletes_them(admin):
    made = one(admin.rendered("--set", "agents.dra.enabled=true,agents.dra.sharing=mps"), "DaemonSet")["spec"]
    assert made["updateStrategy"] == {"type": "OnDelete"}
    container = made["template"]["spec"]["containers"][0]
    assert "--dra-sharing=mps" in container["args"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}


def test_the_images_two_recipes_say_the_same():
    folder = CHART.parents[1] / "image"
    docker = (folder / "Dockerfile").read_text()
    for part, image in runpy.run_path(str(folder / "build.py"))["PARTS"].items():
        stage = docker.partition(f"FROM scratch AS {part}\n")[2].partition("\nFROM ")[0]
        told = image.settings
        assert f"ENV {' '.join(told['Env'])}\n" in stage
        assert f"USER {told['User']}\n" in stage
        assert f"CMD {json.dumps(told['Cmd'])}" in stage
        assert told.get("WorkingDir", "/") == next((line.removeprefix("WORKDIR ") for line in stage.splitlines() if line.startswith("WORKDIR")), "/")
    assert (folder / "Dockerfile.dockerignore").exists()
