"""Settings, the loop, the run from settings to report, checkpoints, evaluation, diagnosis.

Names are loaded when they are first used: the help of the command needs the settings only.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from typing import TYPE_CHECKING

from orthoframe.lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe.training._causes import *
    from orthoframe.training._criteria import *
    from orthoframe.training._diagnosis import *
    from orthoframe.training._evaluation import *
    from orthoframe.training._fields import *
    from orthoframe.training._groups import *
    from orthoframe.training._images import *
    from orthoframe.training._loop import *
    from orthoframe.training._objectives import *
    from orthoframe.training._onnx import *
    from orthoframe.training._processes import *
    from orthoframe.training._recipes import *
    from orthoframe.training._run import *
    from orthoframe.training._settings import *
    from orthoframe.training._start import *
    from orthoframe.training._task import *
else:
    _NAMES = {
        "_run": "train resume RunResult RunListener SAVE_SECONDS",
        "_settings": "Settings option_groups option_names",
        "_fields": "AUTO Group Ramp TemperatureSchedule usual type_hints",
        "_groups": "EncoderSettings BatchSettings ScheduleSettings EvaluationSettings MachineSettings",
        "_images": "ImageSettings BenchmarkImages ImageFiles TableImages ArrayImages PythonImages "
        "image_kind IMAGE_KINDS",
        "_recipes": "RECIPES RecipeValues resolve",
        "_task": "Task Network",
        "_start": "make_task",
        "_evaluation": "Evaluation encode",
        "_objectives": "Objective Contrastive FrameTerm CrossEntropy BalancedSoftmax OBJECTIVES",
        "_criteria": "Criterion NetworkOutputs Problem",
        "_loop": "Loop",
        "_processes": "is_first_process Interrupted Stopped NonFiniteLoss",
        "_causes": "LikelyCause",
        "_diagnosis": "diagnose Diagnosis",
        "_onnx": "export_onnx",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES, "train")
