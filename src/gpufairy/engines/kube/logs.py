"""The log of a container, as bytes."""
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from gpufairy.engines.kube.api import KubeApi, pod_path
from gpufairy.engines.kube.http import Call


async def read_logs(
    api: KubeApi, namespace: str, pod: str, container: str, *, follow: bool, since_time: datetime | None = None,
    limit_bytes: int | None = None, tail_lines: int | None = None, previous: bool = False, timestamps: bool = False,
) -> AsyncIterator[bytes]:  # fmt: skip
    """With `follow` until the container ends. `since_time` counts whole seconds. Raises KubeRefused, KubeSilent."""
    query = {
        "container": container,
        **({"follow": "true"} if follow else {}),
        **({"sinceTime": since_time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if since_time is not None else {}),
        **({"limitBytes": str(limit_bytes)} if limit_bytes is not None else {}),
        **({"tailLines": str(tail_lines)} if tail_lines is not None else {}),
        **({"previous": "true"} if previous else {}),
        **({"timestamps": "true"} if timestamps else {}),
    }
    call = Call("GET", pod_path(namespace, pod, "log"), query, repeatable=True)
    async with api.http.going_on(call) as chunks:
        async for chunk in chunks:
            yield chunk
