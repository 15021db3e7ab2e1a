"""Images as nodes of a cluster tell of them."""
import tracemalloc

import pytest

from gpufairy.core.image import Image
from gpufairy.engines.kube_nodes import slim_node
from gpufairy.engines.node_images import NodeImages, images_told

D1, D2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def a_status(*entries):
    return {"images": [{"names": list(names), "sizeBytes": size} for names, size in entries]}


def test_an_image_has_the_name_that_people_write_and_its_own_digest():
    images = NodeImages()
    images.changed((), images_told(a_status(((f"docker.io/library/ubuntu@{D1}", "docker.io/library/ubuntu:24.04", f"mirror.lab/ubuntu@{D2}"), 70))))
    assert images.by_name() == {"ubuntu:24.04": Image("ubuntu:24.04", D1, 70)}


def test_what_the_last_node_forgets_is_there_no_more():
    images = NodeImages()
    told = images_told(a_status((("docker.io/kim/a:1",), 7)))
    images.changed((), told)
    images.changed((), told)
    images.changed(told, ())
    assert set(images.by_name()) == {"kim/a:1"}
    images.changed(told, ())
    assert images.by_name() == {}


def test_of_two_under_one_name_the_one_that_most_nodes_have_counts():
    images = NodeImages()
    often, seldom = (images_told(a_status(((f"docker.io/kim/a@{digest}", "docker.io/kim/a:latest"), 7))) for digest in (D1, D2))
    for told in (often, seldom, often):
        images.changed((), told)
    assert images.by_name()["kim/a:latest"].id == D1


def test_what_the_cluster_runs_from_and_what_has_no_name_is_left_out():
    images = NodeImages()
    images.changed((), images_told(a_status((("registry.k8s.io/pause:3.10",), 1), (("<none>:<none>",), 1), ((f"docker.io/kim/a@{D1}",), 1), ((), 1))))
    assert images.by_name() == {}


def test_a_node_that_tells_nonsense_tells_nothing():
    assert images_told({"images": None}) == ()
    assert images_told({"images": [{"names": None}]})[0].names == ()


@pytest.mark.slow
def test_five_thousand_nodes_with_fifty_images_each_take_little_memory():
    def a_node(number):
        entries = [((f"docker.io/lab/image-{kind}@sha256:{kind:064x}", f"docker.io/lab/image-{kind}:1"), kind) for kind in range(number % 7, 50 + number % 7)]
        return {"metadata": {"name": f"node-{number}"}, "status": a_status(*entries)}

    images = NodeImages()
    slim_node(a_node(0))
    tracemalloc.start()
    nodes = []
    for number in range(5000):
        nodes.append(slim_node(a_node(number)))
        images.changed((), nodes[-1].images)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(images.by_name()) == 56
    assert used < 16 * 2**20
