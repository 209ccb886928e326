"""Protos from Python's own values: dicts, datetimes, seconds, names of enum values, JSON."""
from __future__ import annotations

import datetime
import json
from typing import Any, Mapping, Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from .v1 import runner_pb2 as v1


def to_json(value: Any) -> str:
    """The text of a JSON object; a text stands for itself, None is the empty object."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"a JSON object must be a dict, not {type(value).__name__}")
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> Any:
    return json.loads(text) if text else {}


def to_duration(value: Any) -> Duration:
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    duration = Duration()
    duration.FromNanoseconds(round(value * 1e9))
    return duration


def to_timestamp(value: Any) -> Timestamp:
    timestamp = Timestamp()
    if isinstance(value, str):
        timestamp.FromJsonString(value)
    else:
        timestamp.FromDatetime(value.astimezone(datetime.timezone.utc).replace(tzinfo=None))
    return timestamp


def transition_report(instance: str, claim: str, transition: str) -> bytes:
    """A TransitionRequest of these and no more, which most are: so it takes a tenth of the time."""
    texts = instance.encode(), transition.encode(), claim.encode()
    one, two, three = map(len, texts)
    if one < 128 and two < 128 and three < 128:  # a length is one byte
        return b"\x12%c%b\x1a%c%b\x2a%c%b" % (one, texts[0], two, texts[1], three, texts[2])
    return v1.TransitionRequest(instance=instance, claim=claim,
                                transition=transition).SerializeToString()


def is_accepted(result: bytes) -> bool:
    """Whether a TransitionResult begins with `accepted`."""
    return result.startswith(b"\x0a")


def _convert(field: Any, value: Any) -> Any:
    """One value of a field."""
    if field.message_type is not None:
        name = field.message_type.full_name
        if isinstance(value, field.message_type._concrete_class):
            return value
        if name == Timestamp.DESCRIPTOR.full_name:
            return to_timestamp(value)
        if name == Duration.DESCRIPTOR.full_name:
            return to_duration(value)
        if name == FieldMask.DESCRIPTOR.full_name:
            return FieldMask(paths=value)
        return build(field.message_type, value)
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value.upper())
        if known is None:
            raise ValueError(f"{field.name} is one of {', '.join(field.enum_type.values_by_name)}, "
                             f"not {value!r}")
        return known.number
    if field.type == field.TYPE_STRING and isinstance(value, Mapping):
        return to_json(value)
    return value


def is_repeated(field: Any) -> bool:
    """Of any version of protobuf: 7 has no `label`, and those before 6.31 no `is_repeated`."""
    known = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if known is None else bool(known)


def fill_in(message: Any, namespace: str) -> None:
    """Puts a request, and the requests in it, into a namespace where they name none; what is in one
    that does belongs to that."""
    if "namespace" in message.DESCRIPTOR.fields_by_name:
        namespace = message.namespace = message.namespace or namespace
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for part in value if is_repeated(field) else [value]:
            fill_in(part, namespace)


def build(descriptor: Any, fields: Mapping[str, Any]) -> Any:
    """A message with these fields; those that are None stay unset."""
    message = descriptor._concrete_class()
    for name, value in fields.items():
        if value is None:
            continue
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise TypeError(f"{descriptor.name} has no {name!r}; it has "
                            f"{', '.join(descriptor.fields_by_name)}")
        entry = field.message_type is not None and field.message_type.GetOptions().map_entry
        if entry:
            getattr(message, name).update(
                {key: _convert(field.message_type.fields_by_name["value"], item)
                 for key, item in value.items()})
        elif is_repeated(field):
            items: Sequence[Any] = [value] if isinstance(value, str) else value
            getattr(message, name).extend(_convert(field, item) for item in items)
        elif field.message_type is not None:
            getattr(message, name).CopyFrom(_convert(field, value))
        else:
            setattr(message, name, _convert(field, value))
    return message
