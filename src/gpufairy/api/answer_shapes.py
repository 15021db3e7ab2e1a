"""What the things that people ask for most look like in answers, for the description. A test holds each against what is really answered.

`also`: fields that are there in some answers alone.
"""
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}
MOMENT: Schema = {"type": "string", "format": "date-time"}


def shape(also: Schema | None = None, **fields: Schema) -> Schema:
    return {"type": "object", "properties": {**fields, **(also or {})}, "required": list(fields)}


def maybe(schema: Schema) -> Schema:
    """Or null: not known, not yet, none."""
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


SHAPES: dict[str, Schema] = {
    "Session": shape(
        id=TEXT, name=TEXT, owner=TEXT, team=maybe(TEXT), kind={"enum": ["batch", "interactive"]},
        state={"enum": ["PENDING", "STARTING", "RUNNING", "STOPPING", "LOST", "ENDED"]}, outcome=maybe(TEXT), exit_code=maybe(WHOLE),
        why=TEXT, request=named("SessionRequest"), seat=maybe(named("Seat")), place=maybe(WHOLE), forecast_start=maybe(MOMENT),
        forecast_low=maybe(MOMENT), forecast_high=maybe(MOMENT), submitted_at=MOMENT, started_at=maybe(MOMENT), ended_at=maybe(MOMENT),
        attempt=WHOLE, priority=WHOLE, revision=WHOLE, ends_at=maybe(MOMENT),
        idle=shape(step=maybe(TEXT), since=maybe(MOMENT), kept_until=maybe(MOMENT)), preempted=WHOLE,
        also={"root_inside": YES_NO, "notes": listed(TEXT)},
    ),
    "SessionRequest": shape(
        gpus=TEXT, gpu_kind=maybe(TEXT), gpu_memory_bytes=maybe(WHOLE), cpus=maybe(NUMBER), memory_bytes=maybe(WHOLE), image=maybe(TEXT),
        command=listed(TEXT), time_s=maybe(NUMBER), env={"type": "object", "additionalProperties": maybe(TEXT)}, mounts=listed(TEXT),
        ports=listed(WHOLE), pool=maybe(TEXT), workdir=maybe(TEXT), retry=WHOLE, after=listed(TEXT), preemptible=YES_NO,
        together=maybe(WHOLE),
    ),
    "Seat": shape(node=TEXT, cpus=NUMBER, memory_bytes=WHOLE, gpu_equivalents=NUMBER, gpus=listed(named("GpuSeat"))),
    "GpuSeat": shape(
        index=WHOLE, uuid=TEXT, kind=TEXT, share=NUMBER, memory_bytes=WHOLE, profile=maybe(TEXT), instance_uuid=maybe(TEXT),
        simulated=YES_NO, sharing=TEXT, enforced=listed(TEXT), accounted=listed(TEXT), note=maybe(TEXT),
    ),
    "Why": shape(
        session=named("Session"), summary=TEXT, place=maybe(WHOLE), of=WHOLE, forecast_start=maybe(MOMENT), forecast_low=maybe(MOMENT),
        forecast_high=maybe(MOMENT), forecast_why=maybe(TEXT), own_time=maybe(TEXT), nodes=listed(shape(node=TEXT, refusal=TEXT)),
        more_nodes=WHOLE, next=TEXT, helps=listed(TEXT),
    ),
    "ResultFile": shape(path=TEXT, size_bytes=WHOLE),
    "Waiting": shape(
        place=maybe(WHOLE), name=maybe(TEXT), owner=TEXT, gpus=TEXT, since=MOMENT, why=TEXT, forecast_start=maybe(MOMENT),
        forecast_low=maybe(MOMENT), forecast_high=maybe(MOMENT), forecast_why=maybe(TEXT),
    ),
    "Event": shape(
        number=WHOLE, at=MOMENT, what=TEXT, session=maybe(TEXT), id=maybe(TEXT), owner=maybe(TEXT), state=maybe(TEXT), why=TEXT,
        gpu=maybe(shape(uuid=TEXT, name=TEXT)), about=maybe(TEXT), attempt=WHOLE, actor=maybe(TEXT),
    ),
    "User": shape(name=TEXT, role={"enum": ["user", "admin"]}, team=maybe(TEXT), share=NUMBER, disabled=YES_NO, created_at=maybe(MOMENT)),
    "Me": shape(
        name=TEXT, role={"enum": ["user", "admin"]}, team=maybe(TEXT), share=NUMBER, disabled=YES_NO, created_at=maybe(MOMENT),
        token=shape(scope=TEXT, id=maybe(TEXT), session=maybe(TEXT)), machine=maybe(TEXT), ssh_port=maybe(WHOLE), ssh_host_key=maybe(TEXT),
    ),
    "Token": shape(
        id=TEXT, user=TEXT, label=TEXT, scope=TEXT, created_at=maybe(MOMENT), expires_at=maybe(MOMENT), also={"token": TEXT},
    ),
    "Key": shape(fingerprint=TEXT, user=TEXT, key=TEXT, comment=TEXT, added_at=maybe(MOMENT)),
    "Team": shape(name=TEXT, share=NUMBER, users=listed(TEXT), gpus_held=NUMBER, sessions=WHOLE, created_at=maybe(MOMENT)),
    "Quota": shape(
        of=TEXT, who=TEXT, gpu_kind=TEXT, gpus=maybe(NUMBER), gpu_hours=maybe(NUMBER), sessions=maybe(WHOLE), disk_bytes=maybe(WHOLE),
        used=maybe(shape(gpus=NUMBER, gpu_hours=NUMBER, sessions=WHOLE)), notes=listed(TEXT),
    ),
    "Booking": shape(
        id=TEXT, title=TEXT, made_by=TEXT, who=listed(TEXT), until=MOMENT, made_at=MOMENT, state=TEXT, trouble=maybe(TEXT),
        gpus=listed(shape(
            uuid=TEXT, node=maybe(TEXT), index=maybe(WHOLE), kind=maybe(TEXT), simulated=maybe(YES_NO), trouble=maybe(TEXT), lent=YES_NO,
        )),
        also={"from": MOMENT, "note": TEXT},
    ),
    "Link": shape(url=TEXT),
    "Health": shape(status=TEXT, version=TEXT, also={"wrong": {"type": "object", "additionalProperties": TEXT}}),
}  # fmt: skip
