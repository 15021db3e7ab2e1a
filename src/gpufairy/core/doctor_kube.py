"""What the doctor says of a Kubernetes cluster: pure judgements of what was found."""
from collections.abc import Sequence

from gpufairy.core.doctor import Judged, bad, ok, skipped, unknown, warn
from gpufairy.core.doctor_facts import Facts, Kube, KubeFacts, Right

OLDEST = (1, 30)
DRA_FROM, DRA_GATED_BELOW = (1, 34), (1, 36)
GATE = "DRAConsumableCapacity"
RESTRICTED = "restricted"
ACCOUNT = "system:serviceaccount:"
IN_NAMESPACE: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): ("create", "get", "list", "watch", "delete"), ("", "pods/exec"): ("create", "get"), ("", "pods/log"): ("get",),
    ("", "secrets"): ("create", "get", "list", "delete"), ("", "persistentvolumeclaims"): ("create", "get"),
    ("", "events"): ("list",),
}  # fmt: skip
FOR_PARTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("resource.k8s.io", "resourceclaims"): ("create", "get", "list", "watch", "patch", "delete")
}
EVERYWHERE: dict[tuple[str, str], tuple[str, ...]] = {("", "nodes"): ("list", "watch"), ("", "pods"): ("list", "watch")}


def needed_rights(*, parts: bool) -> tuple[Right, ...]:
    """What the engine asks of the API server. `parts`: of GPUs, by DRA."""
    inside = {**IN_NAMESPACE, **(FOR_PARTS if parts else {})}
    return (
        *(Right(verb, resource, group) for (group, resource), verbs in inside.items() for verb in verbs),
        *(Right(verb, resource, group, everywhere=True) for (group, resource), verbs in EVERYWHERE.items() for verb in verbs),
    )


def not_asked(found: KubeFacts) -> Judged | None:
    """None: it answers."""
    if found.state is Kube.ABSENT:
        return skipped("no way to a Kubernetes is known here")
    if found.state is Kube.NOT_ASKED:
        return unknown("the cluster was not asked in time")
    if found.state is Kube.SILENT:
        return unknown("the cluster does not answer: see the check kubernetes")
    if found.namespace_there is False and not found.in_use:
        return skipped(f"there is no namespace {found.namespace}: gpufairy runs no sessions in this cluster")
    return None


def kubernetes(facts: Facts) -> Judged:
    found = facts.kube
    if found.state is Kube.SILENT:
        judged = bad if found.in_use else warn
        return judged(f"the cluster does not answer: {found.words}", "kubectl version", "kubectl cluster-info")
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if found.namespace_there is False:
        return bad(
            f"there is no namespace {found.namespace} for sessions", f"kubectl create namespace {found.namespace}", *label_line(found)
        )
    if found.version is None:
        return unknown("the cluster tells no version")
    words = f"Kubernetes {shown(found.version)}"
    if found.version < OLDEST:
        return warn(f"{words} is old: gpufairy was tried from {shown(OLDEST)} on", "# upgrade the cluster, one version after the other")
    return ok(f"{words} answers")


def rights(facts: Facts) -> Judged:
    found = facts.kube
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if found.denied is None:
        return unknown("which rights this account has could not be asked")
    if not found.denied:
        return ok("this account may do all that sessions need")
    return bad(f"the account may not {', '.join(right.words for right in found.denied[:5])}", *grants(found, found.denied))


def grants(found: KubeFacts, denied: Sequence[Right]) -> tuple[str, ...]:
    """The lines that grant just what is missing; the chart's own way first."""
    lines = ["# by the Helm chart: helm upgrade gpufairy . --reuse-values --set rbac.create=true; or by hand:"]
    subject = (
        f"--serviceaccount={found.account.removeprefix(ACCOUNT)}"
        if found.account.startswith(ACCOUNT)
        else f"--user={found.account or 'ACCOUNT'}"
    )
    for everywhere in (False, True):
        wanted: dict[str, list[str]] = {}
        for right in denied:
            if right.everywhere is everywhere:
                wanted.setdefault(f"{right.resource}.{right.group}" if right.group else right.resource, []).append(right.verb)
        kind, place = ("clusterrole", "") if everywhere else ("role", f" -n {found.namespace}")
        for resource, verbs in wanted.items():
            name = f"gpufairy-{resource.replace('/', '-').replace('.', '-')}"
            lines.append(f"kubectl create {kind} {name}{place} --verb={','.join(verbs)} --resource={resource}")
            lines.append(f"kubectl create {kind}binding {name}{place} --{kind}={name} {subject}")
    return tuple(lines)


def pod_security(facts: Facts) -> Judged:
    found = facts.kube
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if found.pod_security is None:
        return unknown(
            f"what the namespace {found.namespace} enforces could not be learnt", f"kubectl get namespace {found.namespace} --show-labels"
        )
    if found.pod_security == RESTRICTED:
        return ok(f"the namespace {found.namespace} enforces Pod Security restricted")
    if found.pod_security:
        return warn(f"the namespace {found.namespace} enforces Pod Security {found.pod_security} alone", *label_line(found))
    return warn(f"the namespace {found.namespace} enforces no Pod Security", *label_line(found))


def label_line(found: KubeFacts) -> tuple[str, ...]:
    return (f"kubectl label --overwrite namespace {found.namespace} pod-security.kubernetes.io/enforce={RESTRICTED}",)


def storage_class(facts: Facts) -> Judged:
    found = facts.kube
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if not found.homes:
        return skipped("sessions have no homes here")
    if found.storage_classes is None:
        return unknown("the cluster's storage classes could not be listed")
    others = f"# there are: {', '.join(found.storage_classes) or 'none'}; set sessions.homes.storageClass"
    if found.wanted_class and found.wanted_class not in found.storage_classes:
        return bad(f"there is no storage class {found.wanted_class} for homes", others)
    if not found.wanted_class and not found.default_class:
        mark = (
            """kubectl patch storageclass NAME -p '{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}'"""
        )
        return bad("no storage class is the default one, and homes name none", others, mark)
    return ok(f"homes are claims of {found.wanted_class or found.default_class}")


def device_plugin(facts: Facts) -> Judged:
    found = facts.kube
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if found.gpu_resources is None:
        return unknown("the cluster's nodes could not be listed")
    if found.gpu_resources and found.dra_gpus:
        words = f"GPUs are offered twice, as {found.gpu_resources[0]} and by DRA: neither knows what the other gave"
        return warn(words, "# take NVIDIA's device plugin off the nodes whose agents offer GPUs by DRA")
    if found.gpu_resources:
        return ok(f"nodes offer {', '.join(found.gpu_resources)}")
    if found.dra_gpus:
        return ok("nodes offer GPUs by DRA")
    plugin = "https://raw.githubusercontent.com/NVIDIA/k8s-device-plugin/main/deployments/static/nvidia-device-plugin.yml"
    return warn(
        "no node of the cluster offers a GPU",
        f"kubectl create -f {plugin}",
        "kubectl get nodes -o custom-columns=NAME:.metadata.name,GPU:.status.allocatable.nvidia\\\\.com/gpu",
    )


def dra(facts: Facts) -> Judged:
    found = facts.kube
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if found.dra_trouble is None:
        return unknown("whether parts of GPUs can be had by DRA could not be asked")
    if not found.dra_trouble:
        return ok("parts of GPUs can be had by DRA")
    if found.version is not None and found.version < DRA_FROM:
        return skipped(f"parts of GPUs by DRA take Kubernetes {shown(DRA_FROM)}; this is {shown(found.version)}")
    if "no device class" in found.dra_trouble:
        return skipped("the agents are no DRA driver here", "helm upgrade gpufairy . --reuse-values --set agents.dra.enabled=true")
    gate = f"# add --feature-gates={GATE}=true to kube-apiserver, kube-scheduler, kube-controller-manager and every kubelet"
    below = found.version is not None and found.version < DRA_GATED_BELOW
    return warn(found.dra_trouble, *((gate,) if below else ()))


def agents(facts: Facts) -> Judged:
    found = facts.kube
    nothing = not_asked(found)
    if nothing is not None:
        return nothing
    if found.agents is None:
        return unknown("the agents' pods could not be listed")
    ready, count = found.agents
    if not count:
        return warn(
            "no agent of gpufairy runs in this cluster",
            "kubectl label node NODE accelerator=nvidia",
            "helm upgrade gpufairy . --reuse-values --set agents.enabled=true",
        )
    if ready < count:
        return bad(f"{count - ready} of {count} agents are not ready", "kubectl get pods -A -l app.kubernetes.io/component=agent -o wide")
    return ok(f"{count} agents are ready")


def shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
