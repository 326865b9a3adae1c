"""Settings that would have no effect together with others, or with the data: they are refused, never ignored."""

from orthoframe.data import Data
from orthoframe.errors import Option, OptionError
from orthoframe.options import has_data_dir, is_own_data
from orthoframe.training._settings import Settings

# What decides how data is read, and so has to be said where that happens.
_COLUMNS = ("path_column", "label_column", "split_column", "group_column")
_READING = ("data_dir", *_COLUMNS, "size", "fit", "validation", "workers", "memory")


def check_used(settings: Settings, data: Data | None = None) -> None:
    """Refuse settings that a new run would ignore; what `Settings.check` refuses contradicts itself.

    Not for a run that is resumed, whose settings were filled in. What image files alone can have, such as a size, is
    refused by `load_data`.

    Args:
        settings: Those of a new run.
        data: Images from Python, if there are any.

    Raises:
        OptionError: With a sentence that names the setting.

    Examples:
        >>> check_used(Settings(data="folder:cats", ratio=5))
        Traceback (most recent call last):
        orthoframe.errors.OptionError: ratio needs imbalance='step', because your own images are taken as they are
    """
    if data is not None:
        if settings.data not in (Settings.data, data.name):
            raise OptionError(Option("data", settings.data), " and images from Python; leave one of them out")
        for name in _READING:
            if getattr(settings, name) != getattr(Settings, name):
                where = ", because the images from Python are ready; give it to load_data or as_data"
                raise OptionError(Option(name), " has no effect", where)
    named = settings.data if data is None else data.name
    if settings.data_dir is not None and not has_data_dir(named):
        raise OptionError(Option("data_dir"), " is for data sets that are downloaded, not for ", Option("data", named))
    if is_own_data(named) and settings.imbalance is None and settings.ratio not in (Settings.ratio, 1):
        why = ", because your own images are taken as they are"
        raise OptionError(Option("ratio"), " needs ", Option("imbalance", "step"), why)
    if settings.init is not None and settings.features is not None:
        raise OptionError(Option("features"), " is decided by ", Option("init"), "; leave it out")
