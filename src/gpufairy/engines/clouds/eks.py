"""Pools on EKS: a managed node group that the cluster-autoscaler may grow from zero. By boto3, which is an extra of its own."""
import asyncio
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from gpufairy.core.errors import BadInput, EngineRefused, EngineSilent
from gpufairy.core.pool import Machine, Pool, Step
from gpufairy.engines.clouds.contract import GPU_TAINT
from gpufairy.engines.clouds.eks_bodies import (
    TEMPLATE,
    ami_type,
    autoscaler_tags,
    bounds,
    is_ours,
    machine_told,
    node_group,
    tag_rows,
)
from gpufairy.engines.clouds.machines import machine_of
from gpufairy.engines.clouds.plugin import DevicePlugin
from gpufairy.engines.kube.api import KubeApi

ABSENT = "ResourceNotFoundException"
REFUSED = "An AWS account that may do this: eks:*Nodegroup*, eks:DescribeCluster, iam:PassRole, autoscaling:*Tags. See docs/pools.md."


class EksPools:
    def __init__(self, api: KubeApi) -> None:
        self._plugin = DevicePlugin(api)

    async def machine(self, pool: Pool) -> Machine:
        try:
            return machine_of(pool, ("aws",))
        except BadInput:
            told = await self._ask(pool, "ec2", "describe_instance_types", InstanceTypes=[pool.machine.instance])
            seen = machine_told(next(iter(told.get("InstanceTypes", ())), {}))
            if seen is None:
                raise
            return machine_of(pool, ("aws",), seen)

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        wanted, group = await self._wanted(pool), await self._group(pool)
        details = {
            "cluster": pool.cluster, "instance": pool.machine.instance, "nodes": f"{pool.least} to {pool.most}", "AMI": wanted["amiType"],
            "label": f"role={pool.name}", "taint": f"{GPU_TAINT}:NoSchedule", "node role": wanted["nodeRole"],
        }  # fmt: skip
        made = Step("EKS node group", pool.name, group is not None and bounds(group) == (pool.least, pool.most), details)
        names, tags = scaling_groups(group), autoscaler_tags(pool)
        tagged = bool(names) and [await self._tags(pool, name) for name in names] == [tags] * len(names)
        shown = {name.removeprefix(TEMPLATE): value for name, value in tags.items()}
        of_group = Step("tags of its Auto Scaling group", ", ".join(names) or "once it is there", tagged, shown)
        return made, of_group, await self._plugin.step()

    async def make(self, pool: Pool) -> str:
        await self._plugin.make()
        group = await self._group(pool)
        if group is None:
            await self._ask(pool, "eks", "create_nodegroup", **await self._wanted(pool))
            return "its node group is being made"
        if group["status"] in ("CREATE_FAILED", "DEGRADED"):
            issues = "; ".join(str(one.get("message", "")) for one in (group.get("health") or {}).get("issues", ()))
            found = f"node group {pool.name} is {group['status']}: {issues or 'AWS says no more'}"
            raise EngineRefused(found, "See it in the AWS console.")
        if group["status"] != "ACTIVE":
            return f"its node group is {group['status'].lower()}"
        if bounds(group) != (pool.least, pool.most):
            sizes = {"minSize": pool.least, "maxSize": pool.most}
            await self._ask(pool, "eks", "update_nodegroup_config", clusterName=pool.cluster, nodegroupName=pool.name, scalingConfig=sizes)
        for name in scaling_groups(group):
            if await self._tags(pool, name) != autoscaler_tags(pool):
                await self._ask(pool, "autoscaling", "create_or_update_tags", Tags=tag_rows(name, autoscaler_tags(pool)))
            if await self._tags(pool, name) != autoscaler_tags(pool):
                return f"Auto Scaling group {name} has not all of its tags yet"
        return "" if scaling_groups(group) else "its Auto Scaling group is being made"

    async def remove(self, pool: Pool) -> str:
        group = await self._group(pool)
        if group is not None and group["status"] != "DELETING":
            await self._ask(pool, "eks", "delete_nodegroup", clusterName=pool.cluster, nodegroupName=pool.name)
            group = await self._group(pool)
        if group is not None:
            return "its node group is being removed"
        return ""  # the device plugin stays: other pools may use it, and it runs nowhere without them

    async def _wanted(self, pool: Pool) -> dict[str, Any]:
        """Raises BadInput for what nobody has said, and nobody can find out."""
        if not pool.cluster:
            raise BadInput("cluster: none is named", "Name the EKS cluster by --cluster.")
        cluster = (await self._ask(pool, "eks", "describe_cluster", name=pool.cluster))["cluster"]
        role = pool.options.get("node_role") or await self._role_of_others(pool)
        return node_group(pool, role, list(cluster["resourcesVpcConfig"]["subnetIds"]), ami_type(cluster.get("version", "")))

    async def _role_of_others(self, pool: Pool) -> str:
        for name in (await self._ask(pool, "eks", "list_nodegroups", clusterName=pool.cluster))["nodegroups"]:
            found = await self._ask(pool, "eks", "describe_nodegroup", clusterName=pool.cluster, nodegroupName=name)
            return str(found["nodegroup"]["nodeRole"])
        raise BadInput(f"cluster {pool.cluster} has no node group yet, whose IAM role could serve", "Name a role by --node-role ARN.")

    async def _group(self, pool: Pool) -> dict[str, Any] | None:
        """None: there is none. Raises EngineRefused: there is one of somebody else's."""
        try:
            told = await self._ask(pool, "eks", "describe_nodegroup", clusterName=pool.cluster, nodegroupName=pool.name)
        except EngineRefused as error:
            if isinstance(error.__cause__, ClientError) and code_of(error.__cause__) == ABSENT:
                return None
            raise
        group: dict[str, Any] = told["nodegroup"]
        if not is_ours(group):
            said = f"cluster {pool.cluster} has a node group {pool.name} that gpufairy has not made"
            raise EngineRefused(said, "Take another name, or remove that one.")
        return group

    async def _tags(self, pool: Pool, group: str) -> dict[str, str]:
        """Those of the autoscaler alone: AWS and others have theirs."""
        filters = [{"Name": "auto-scaling-group", "Values": [group]}]
        told = await self._ask(pool, "autoscaling", "describe_tags", Filters=filters)
        wanted = autoscaler_tags(pool)
        return {one["Key"]: one["Value"] for one in told["Tags"] if one["Key"] in wanted}

    async def _ask(self, pool: Pool, service: str, what: str, **asked: Any) -> Any:
        try:
            client = await asyncio.to_thread(boto3.client, service, region_name=pool.options.get("region"))
            return await asyncio.to_thread(getattr(client, what), **asked)
        except ClientError as error:
            raise EngineRefused(f"AWS refused to {what.replace('_', ' ')} for pool {pool.name}: {error}", REFUSED) from error
        except BotoCoreError as error:
            next_step = "Has the server AWS credentials and a region (--region, AWS_REGION), and does it reach AWS?"
            raise EngineSilent(f"AWS was not asked to {what.replace('_', ' ')} for pool {pool.name}: {error}", next_step) from error


def code_of(error: ClientError) -> str:
    told: Mapping[str, Any] = error.response
    return str((told.get("Error") or {}).get("Code") or "")


def scaling_groups(group: Mapping[str, Any] | None) -> list[str]:
    found = ((group or {}).get("resources") or {}).get("autoScalingGroups") or ()
    return [str(one["name"]) for one in found]


def open_pools(api: KubeApi) -> EksPools:
    return EksPools(api)
