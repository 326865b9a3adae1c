"""What pytest leaves out: modules for packages that are not installed."""

from importlib.util import find_spec

collect_ignore = [f"src/orthoframe/{name}.py" for name in ("lightning", "transformers") if find_spec(name) is None]
