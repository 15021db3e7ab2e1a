"""Pools on EKS, against moto: what is made, that it is made once, found again after a kill, changed, and taken away."""
import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from pool_scene import NO_PLUGIN_YET, FakeKube, a_pool

from gpufairy.control.pools import bare_machine
from gpufairy.core.errors import BadInput, EngineRefused, EngineSilent
from gpufairy.core.pool import Cloud, Pool
from gpufairy.engines.clouds.eks import EksPools
from gpufairy.engines.clouds.eks_bodies import ami_type, autoscaler_tags, machine_told
from gpufairy.engines.clouds.plugin import PATH

pytestmark = pytest.mark.slow
ROLE_ARN = "arn:aws:iam::123456789012:role/nodes"
TRUST = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}'


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        ec2 = boto3.client("ec2")
        subnets = [one["SubnetId"] for one in ec2.describe_subnets()["Subnets"]][:2]
        boto3.client("iam").create_role(RoleName="nodes", AssumeRolePolicyDocument=TRUST)
        boto3.client("eks").create_cluster(name="lab", version="1.34", roleArn=ROLE_ARN, resourcesVpcConfig={"subnetIds": subnets})
        yield


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def pools(aws: None, kube: FakeKube) -> EksPools:
    return EksPools(kube)


def wanted(**fields: Any) -> Pool:
    return a_pool(Cloud.EKS, **{"cluster": "lab", "options": {"node_role": ROLE_ARN}, **fields})


def group(name: str = "train-gpu") -> dict[str, Any]:
    return boto3.client("eks").describe_nodegroup(clusterName="lab", nodegroupName=name)["nodegroup"]


def make_scaling_group() -> str:
    """As AWS does for a node group; moto has only its name."""
    name = group()["resources"]["autoScalingGroups"][0]["name"]
    ec2, scaling = boto3.client("ec2"), boto3.client("autoscaling")
    image = ec2.describe_images()["Images"][0]["ImageId"]
    scaling.create_launch_configuration(LaunchConfigurationName=name, ImageId=image, InstanceType="g5.xlarge")
    scaling.create_auto_scaling_group(AutoScalingGroupName=name, LaunchConfigurationName=name, MinSize=0, MaxSize=4, AvailabilityZones=["us-east-1a"])
    return name


async def made(pools: EksPools, pool: Pool) -> str:
    """Again and again, as the loop does it, until all is there."""
    waits = [await pools.make(pool)]
    make_scaling_group()
    waits.append(await pools.make(pool))
    assert waits == ["its node group is being made", ""]
    return group()["resources"]["autoScalingGroups"][0]["name"]


async def test_a_plan_tells_every_object_and_makes_none(pools, kube):
    pool = replace(wanted(), machine=await pools.machine(wanted()))
    steps = await pools.steps(pool)
    assert [(step.what, step.there) for step in steps] == [("EKS node group", False), ("tags of its Auto Scaling group", False), ("NVIDIA device plugin", False)]
    assert steps[0].details["nodes"] == "0 to 4"
    assert boto3.client("eks").list_nodegroups(clusterName="lab")["nodegroups"] == []
    assert kube.objects == {}


async def test_one_command_makes_the_node_group_its_tags_and_the_plugin(pools, kube):
    pool = wanted()
    name = await made(pools, pool)
    found = group()
    assert (found["instanceTypes"], found["amiType"], found["scalingConfig"]) == (["g5.xlarge"], "AL2023_x86_64_NVIDIA", {"minSize": 0, "maxSize": 4, "desiredSize": 0})
    assert found["labels"]["role"] == "train-gpu"
    assert found["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    tags = {one["Key"]: one["Value"] for one in boto3.client("autoscaling").describe_tags(Filters=[{"Name": "auto-scaling-group", "Values": [name]}])["Tags"]}
    assert tags == autoscaler_tags(pool)
    assert tags["k8s.io/cluster-autoscaler/node-template/label/role"] == "train-gpu"
    assert tags["k8s.io/cluster-autoscaler/node-template/taint/nvidia.com/gpu"] == "present:NoSchedule"
    assert tags["k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu"] == "1"
    assert (tags["k8s.io/cluster-autoscaler/enabled"], tags["k8s.io/cluster-autoscaler/lab"]) == ("true", "owned")
    assert PATH in kube.objects
    assert all(step.there for step in await pools.steps(pool))


async def test_made_again_or_by_another_server_it_is_the_same_one(pools, kube):
    pool = wanted()
    await made(pools, pool)
    before = group()
    assert await EksPools(kube).make(pool) == ""
    assert group() == before


async def test_a_kill_at_any_call_is_made_good_by_calling_again(aws, kube, monkeypatch):
    """Every call to AWS is the last of some server; the next one goes on."""
    pool, calls = wanted(), 0

    class Killed(EksPools):
        left = 0

        async def _ask(self, pool: Pool, service: str, what: str, **asked: Any) -> Any:
            if self.left == 0:
                raise asyncio.CancelledError
            self.left -= 1
            return await super()._ask(pool, service, what, **asked)

    for calls in range(40):
        one = Killed(kube)
        one.left = calls
        try:
            waits = await one.make(pool)
        except asyncio.CancelledError:
            continue
        if waits == "":
            break
        make_scaling_group()
    assert waits == ""
    assert boto3.client("eks").list_nodegroups(clusterName="lab")["nodegroups"] == ["train-gpu"]
    assert all(step.there for step in await EksPools(kube).steps(pool))


async def test_other_bounds_are_changed_in_place(pools):
    await made(pools, wanted())
    assert await pools.make(wanted(most=8, least=1)) == ""
    sizes = group()["scalingConfig"]
    assert (sizes["minSize"], sizes["maxSize"]) == (1, 8)


async def test_it_is_taken_away_again_and_twice_is_no_harm(pools):
    await made(pools, wanted())
    assert await pools.remove(wanted()) == ""
    assert boto3.client("eks").list_nodegroups(clusterName="lab")["nodegroups"] == []
    assert await pools.remove(wanted()) == ""


async def test_a_node_group_of_somebody_else_is_left_alone(pools):
    boto3.client("eks").create_nodegroup(clusterName="lab", nodegroupName="train-gpu", subnets=["subnet-1"], nodeRole=ROLE_ARN)
    with pytest.raises(EngineRefused, match="a node group train-gpu that gpufairy has not made"):
        await pools.make(wanted())
    with pytest.raises(EngineRefused, match="has not made"):
        await pools.remove(wanted())
    assert group()["nodegroupName"] == "train-gpu"


async def test_the_role_of_other_node_groups_serves_and_without_one_it_is_asked_for(pools):
    bare = wanted(options={})
    with pytest.raises(BadInput, match="has no node group yet") as caught:
        await pools.steps(bare)
    assert "--node-role" in caught.value.next_step
    boto3.client("eks").create_nodegroup(clusterName="lab", nodegroupName="cpu", subnets=["subnet-1"], nodeRole=ROLE_ARN)
    assert (await pools.steps(bare))[0].details["node role"] == ROLE_ARN


async def test_a_cluster_that_is_not_there_is_told_with_what_may_be_missing(pools):
    with pytest.raises(EngineRefused, match=r"AWS refused to describe cluster for pool train-gpu.*nowhere") as caught:
        await pools.steps(wanted(cluster="nowhere"))
    assert "docs/pools.md" in caught.value.next_step


async def test_without_credentials_nothing_is_done_and_the_reason_told(kube, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(EngineSilent, match="AWS was not asked to") as caught:
        await EksPools(kube).steps(wanted(options={"region": "us-east-1"}))
    assert "credentials" in caught.value.next_step


async def test_a_plugin_that_is_there_already_is_used(pools, kube):
    kube.others = [NO_PLUGIN_YET, kube.a_daemon("gpu-operator", "nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0")]
    step = (await pools.steps(wanted()))[2]
    assert (step.name, step.there) == ("DaemonSet gpu-operator/nvidia-device-plugin-daemonset", True)
    await pools.make(wanted())
    assert kube.objects == {}


async def test_an_instance_that_is_not_in_the_table_is_asked_of_aws(pools):
    found = await pools.machine(wanted(machine=bare_machine("g6.4xlarge")))
    assert (found.gpus, found.cpus_milli, found.price_micros) == (1, 16000, None)
    with pytest.raises(BadInput, match=r"nothing is known here of 'm5\.large'") as caught:
        await pools.machine(wanted(machine=bare_machine("m5.large")))
    assert "--gpus 1 --gpu-kind A10" in caught.value.next_step
    with pytest.raises(EngineRefused, match="g99"):
        await pools.machine(wanted(machine=bare_machine("g99.xlarge")))


def test_a_gpu_of_another_maker_is_none():
    assert machine_told({"InstanceType": "g4ad.xlarge", "GpuInfo": {"Gpus": [{"Name": "Radeon Pro V520", "Manufacturer": "AMD", "Count": 1}]}}) is None


def test_the_image_has_nvidias_driver_in_every_version():
    assert (ami_type("1.29"), ami_type("1.34"), ami_type("")) == ("AL2_x86_64_GPU", "AL2023_x86_64_NVIDIA", "AL2023_x86_64_NVIDIA")
