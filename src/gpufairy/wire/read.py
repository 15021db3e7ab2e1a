"""Reading what strangers sent into a model, and saying in one sentence what is wrong with it."""
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.names import nearest

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """No unknown field, no silent conversion, gone after one call."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def read(model: type[Model], sent: Any, where: str) -> Model:
    if not isinstance(sent, dict):
        raise BadInput(f"{where}: expected fields and values, found {type(sent).__name__}", 'Send an object such as {"gpus": "0.5"}.')
    try:
        return model.model_validate(sent)
    except ValidationError as error:
        raise BadInput(f"{where}: {sentence(model, error)}", advice(model, error)) from None


def advice(model: type[BaseModel], error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False)[0]
    if fault["type"] in ("extra_forbidden", "missing"):
        return f"Fields that are known: {', '.join(fields_at(model, [str(part) for part in fault['loc'][:-1]]))}."
    return "Mend that field; docs/manual.md and /docs show what each one takes."


def sentence(model: type[BaseModel], error: ValidationError) -> str:
    """The first fault, in words: which field, what was found, what was expected."""
    fault = error.errors(include_url=False, include_context=False)[0]
    path = [str(part) for part in fault["loc"] if not is_union_branch(part)]
    field = ".".join(path)[:80]
    if fault["type"] == "extra_forbidden":
        return f"unknown field {shown(field)}{nearest(path[-1], fields_at(model, path[:-1]))}"
    if fault["type"] == "missing":
        return f"field {field} is missing"
    return f"{field}: {fault['msg'][0].lower()}{fault['msg'][1:]}, found {shown(str(fault['input']))}"


def fields_at(model: type[BaseModel], path: list[str]) -> list[str]:
    """The fields known at that depth: of the model itself, or of a part of it."""
    for name in path:
        part = model.model_fields[name].annotation if name in model.model_fields else None
        if not (isinstance(part, type) and issubclass(part, BaseModel)):
            break
        model = part
    return [field.alias or name for name, field in model.model_fields.items()]


def is_union_branch(part: Any) -> bool:
    """Pydantic names the branch of a union it tried in the path; people did not write that."""
    branches = ("list[", "dict[", "constrained-", "function-")
    return isinstance(part, str) and (part in {"str", "int", "float", "bool"} or part.startswith(branches))
