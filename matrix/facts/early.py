"""Facts of the early stages: CUDA graph configuration, memory, platform defaults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .registry import fact


@fact("model_path")
def model_path_key(path: str | None) -> str | None:
    """The model path in lower case, as special names are compared."""
    return None if path is None else path.lower()


@fact("device")
def device_type(device: str | None) -> str | None:
    """The device without an index: `type:0` is a `type`."""
    return None if device is None else device.split(":")[0]


@fact("tp_size", "nnodes", "pp_size")
def tp_size_per_node(tp_size: int, nnodes: int, pp_size: int) -> int:
    """Tensor-parallel ranks that share a node."""
    return tp_size // max(nnodes // pp_size, 1)


# --- CUDA graphs: the JSON of both phases


def _phases(settings: Any) -> Mapping[str, Mapping[str, Any]]:
    """Settings per phase, from parsed JSON or its text; what is no mapping counts for nothing."""
    if isinstance(settings, str):
        settings = json.loads(settings)
    if not isinstance(settings, Mapping):
        return {}
    return {phase: value for phase, value in settings.items() if isinstance(value, Mapping)}


@fact("raw.cuda_graph_config")
def graph_json_keys(settings: Any) -> tuple[str, ...]:
    """The settings that the JSON gives, as `phase.key`; use with `contains`."""
    return tuple(f"{phase}.{key}" for phase, values in _phases(settings).items() for key in values)


def _graph_json_value(phase: str, key: str) -> Callable[[Any], Any]:
    def value(settings: Any) -> Any:
        return _phases(settings).get(phase, {}).get(key)

    value.__name__ = f"graph_json_{phase}_{key}"
    value.__doc__ = f"The value of `{phase}.{key}` in the JSON, null where it is not given."
    return value


for _phase, _keys in {
    "decode": ("backend", "max_bs", "bs"),
    "prefill": ("backend", "max_bs", "bs", "max_context_size"),
}.items():
    for _key in _keys:
        fact("raw.cuda_graph_config")(_graph_json_value(_phase, _key))


def _sizes_usable(sizes: Any, largest: Any) -> bool:
    if sizes is None:
        return isinstance(largest, int)
    return (
        isinstance(sizes, (list, tuple))
        and bool(sizes)
        and all(isinstance(size, (int, float)) for size in sizes)
    )


@fact("cuda_graph_decode_bs", "cuda_graph_decode_max_bs")
def decode_graph_sizes_usable(sizes: Any, largest: Any) -> bool:
    """Whether batch sizes can be made of the list, or of the largest size where there is none."""
    return _sizes_usable(sizes, largest)


@fact("cuda_graph_prefill_bs", "cuda_graph_prefill_max_bs")
def prefill_graph_sizes_usable(sizes: Any, largest: Any) -> bool:
    """Whether token buckets can be made of the list, or of the largest size where there is none."""
    return _sizes_usable(sizes, largest)


@fact("cuda_graph_decode_bs")
def largest_decode_graph(sizes: list[int]) -> int:
    """The largest batch size of the list that was given."""
    return max(sizes)


@fact("cuda_graph_prefill_max_context_size", "page_size")
def aligned_prefill_context(tokens: int, page_size: int) -> int:
    """The requested context rounded up to whole pages."""
    return int((tokens + page_size - 1) // page_size * page_size)


# --- flags that take structures


@fact("mm_process_config")
def mm_process_config_is_mapping(config: Any) -> bool:
    """Whether the multimodal settings are an object."""
    return config is None or isinstance(config, Mapping)


@fact("mm_process_config")
def mm_process_sections_are_mappings(config: Any) -> bool:
    """Whether the settings of each modality are an object too."""
    if not isinstance(config, Mapping):
        return True
    return all(
        isinstance(config[modality], Mapping)
        for modality in ("image", "video", "audio")
        if modality in config
    )


@fact("sidecar_args")
def sidecar_args_are_texts(arguments: Any) -> bool:
    """Whether the arguments are a list of texts."""
    return isinstance(arguments, list) and all(isinstance(item, str) for item in arguments)


@fact("allowed_media_domains")
def media_domains_are_hostnames(domains: list[str] | None) -> bool:
    """Whether every domain is a plain hostname or address, without scheme, port or path."""
    return all(_is_hostname(domain) for domain in domains or ())


def _is_hostname(domain: Any) -> bool:
    if not isinstance(domain, str):
        return False
    domain = domain.strip().rstrip(".")
    if not domain or "://" in domain or any(char in domain for char in "/?#@"):
        return False
    if ":" in domain:
        import ipaddress

        try:
            ipaddress.ip_address(domain.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True
    try:
        return bool(domain.encode("idna"))
    except UnicodeError:
        return False


def _loader_config(config: Any) -> Any:
    if isinstance(config, str):
        return json.loads(config)
    return config or {}


@fact("model_loader_extra_config")
def loader_config_is_mapping(config: Any) -> bool:
    """Whether the loader's own settings are a JSON object."""
    try:
        return isinstance(_loader_config(config), Mapping)
    except ValueError:
        return False


@fact("model_loader_extra_config")
def loader_pack_path(config: Any) -> Any:
    """The file of packed experts that the loader's settings name."""
    config = _loader_config(config)
    return config.get("pack_path") if isinstance(config, Mapping) else None
