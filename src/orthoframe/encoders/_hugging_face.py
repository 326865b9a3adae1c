"""Image models of transformers: their weights, their pooled features, and what their image processors do."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_module_registration_hook

from orthoframe.errors import DataError, brief

_EXTRA = "pip install 'orthoframe[transformers]'"
_SIDE = 512  # pixels of the images that show what a processor does
_PROCESSOR = ("preprocessor_config.json", "processor_config.json")
_MOST_MODULES = 20_000  # in a network that a file describes: two numbers in it may ask for a billion layers
# Settings that are not about shapes, or make transformers look for something elsewhere.
_IGNORED = {"id2label", "label2id", "dtype", "torch_dtype", "auto_map", "quantization_config", "architectures"}
_IGNORED |= {"transformers_version", "name_or_path", "attn_implementation"}
_FETCHING = ("backbone", "use_pretrained_backbone", "use_timm_backbone")


class PooledModel(nn.Module):
    """An image model of transformers, as a function from images to one row of features for each.

    The features are its `pooler_output`, or else the mean over tokens or pixels of its `last_hidden_state`.

    Args:
        model: The model.
        pooler: Whether its pooler has weights and is used; otherwise it is removed.
    """

    def __init__(self, model: Any, pooler: bool = True) -> None:
        super().__init__()
        self.model, self.pooler = model, pooler
        if not pooler and isinstance(getattr(model, "pooler", None), nn.Module):
            model.pooler = None  # nothing would train it

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, dim]` of images."""
        output = self.model(pixel_values=images)
        pooled = getattr(output, "pooler_output", None) if self.pooler else None
        if pooled is not None and pooled.numel() == pooled.shape[0] * pooled.shape[1]:  # [b, d], or [b, d, 1, 1]
            flat: Tensor = pooled.flatten(1)
            return flat
        last: Tensor = output.last_hidden_state
        return last.mean((2, 3)) if last.ndim == 4 else last.mean(1)


def load_model(name: str) -> PooledModel:
    """A model from a folder or the hub, with the weights of its safetensors file."""
    with _quietly(name) as transformers:
        place, local = _place(name)
        config = transformers.AutoConfig.from_pretrained(place, local_files_only=local, trust_remote_code=False)
        config = getattr(config, "vision_config", config)  # the part for images, if there is one for text too
        if type(config) not in transformers.models.auto.modeling_auto.MODEL_MAPPING:
            raise DataError(f"hf:{name}: transformers has no model of the kind {brief(config.model_type, 40)!r}")
        if local and not any(Path(place).glob("*.safetensors")):
            raise DataError(f"hf:{name}: there is no model.safetensors in it; save it with model.save_pretrained")
        model, report = transformers.AutoModel.from_pretrained(
            place,
            config=config,
            use_safetensors=True,
            local_files_only=local,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
    _image_model(name, model)
    missing = sorted(report["missing_keys"])
    others = [key for key in missing if not key.startswith("pooler.")]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise DataError(
            f"hf:{name}: the checkpoint lacks {brief(others[0], 80)}{more}, which would be initialised at random"
        )
    return PooledModel(model, pooler=not missing)


def make_model(config: Mapping[str, Any], pooler: bool) -> PooledModel:
    """Make a model from its `shape_settings`, without the folder it came from and without internet access.

    Under `shapes_only` it has shapes only.
    """
    kind = config.get("model_type")
    settings = shape_settings(config)
    settings.pop("model_type", None)
    if not isinstance(kind, str) or kind.startswith("timm") or any(settings.get(key) for key in _FETCHING):
        raise DataError(f"a model of the kind {brief(kind, 40)!r} cannot be made from its description")
    with _quietly(kind) as transformers, ExitStack() as stack:
        from transformers import initialization

        if torch.get_default_device().type == "meta":
            stack.enter_context(initialization.no_init_weights())
            stack.enter_context(initialization.meta_device_safe_creation_ops())
        stack.enter_context(_limited_size())
        restored = transformers.AutoConfig.for_model(kind, **settings)
        model = transformers.AutoModel.from_config(restored, dtype=torch.float32)
        return PooledModel(_image_model(kind, model), pooler)


def shape_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model that are needed to make it again."""
    return {key: value for key, value in config.items() if key not in _IGNORED and not key.startswith("_")}


def read_processing(name: str) -> tuple[tuple[int, int, int], tuple[float, ...], tuple[float, ...]]:
    """The image shape, mean and std of an image processor: apart from cropping, it does (pixel / 255 - mean) / std.

    Inferred from its output for black, white and red images, because the settings that say so have too many names.
    """
    from PIL.Image import new

    with _quietly(name) as transformers:
        place, local = _place(name)
        if local and not any((Path(place) / file).is_file() for file in _PROCESSOR):
            problem = f"there is no {_PROCESSOR[0]} in it, which has the size of images"
            raise DataError(f"hf:{name}: {problem}; save its image processor beside it with save_pretrained")
        processor = transformers.AutoImageProcessor.from_pretrained(
            place, local_files_only=local, trust_remote_code=False
        )
        images = [new("RGB", (_SIDE, _SIDE), colour) for colour in ("black", "white", "red")]
        pixels = processor(images, return_tensors="pt")["pixel_values"]
    if pixels.ndim != 4 or pixels.shape[1] != 3:
        raise DataError(f"hf:{name}: its image processor turns a colour image into {brief(list(pixels.shape[1:]), 60)}")
    black, white, red = pixels[:, :, pixels.shape[2] // 2, pixels.shape[3] // 2].double()
    if not torch.equal(red, torch.stack([white[0], black[1], black[2]])):
        raise DataError(f"hf:{name}: its image processor exchanges or mixes colours, which is not supported")
    # Seven digits, as many as float32 has: 0.485 instead of 0.48500001.
    std = [float(f"{value:.7g}") for value in (1 / (white - black)).tolist()]
    mean = [float(f"{value:.7g}") + 0.0 for value in (-black / (white - black)).tolist()]
    return (3, int(pixels.shape[2]), int(pixels.shape[3])), tuple(mean), tuple(std)


def _image_model(name: str, model: Any) -> Any:
    if getattr(model, "main_input_name", None) != "pixel_values":
        raise DataError(f"hf:{name}: {type(model).__name__} is not a model of images; give one that takes pixel_values")
    return model


def _place(name: str) -> tuple[str, bool]:
    """Where transformers finds a model, and whether that is a folder; a `DataError` for a path that is not there."""
    folder = os.path.expanduser(name)
    if os.path.isdir(folder):
        return folder, True
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise DataError(f"hf:{name}: no such folder")
    return name, False


@contextmanager
def _quietly(name: str) -> Iterator[Any]:
    """The package, without progress bars and log messages; its errors become one sentence."""
    try:
        transformers: Any = import_module("transformers")
        logger: Any = import_module("transformers.utils.logging")
    except ImportError as absent:
        raise DataError(f"hf:{name} needs transformers ({brief(absent, 80)}): {_EXTRA}") from None
    level, bars = logger.get_verbosity(), logger.is_progress_bar_enabled()
    logger.set_verbosity(logging.CRITICAL)
    logger.disable_progress_bar()
    try:
        yield transformers
    except DataError:
        raise
    except Exception as error:  # a broken folder, a name that the hub does not have, no internet access
        reason = brief(str(error).partition("\n")[0], 120) or type(error).__name__
        local = os.path.isdir(os.path.expanduser(name))
        problem = "transformers cannot use it" if local else "no such folder, and no model that transformers finds"
        raise DataError(f"hf:{brief(name, 80)}: {problem} ({reason})") from None
    finally:
        logger.set_verbosity(level)
        if bars:
            logger.enable_progress_bar()


@contextmanager
def _limited_size() -> Iterator[None]:
    """Networks made in here have at most `_MOST_MODULES` layers."""
    numbers = count(1)

    def check(*_: Any) -> None:
        if next(numbers) > _MOST_MODULES:
            raise ValueError(f"more than {_MOST_MODULES} layers")

    hook = register_module_module_registration_hook(check)
    try:
        yield
    finally:
        hook.remove()
