"""Models by their name on the Hugging Face hub: from its local cache without network, or downloaded into it.

Only what a text model needs is fetched, from the top level of the main revision. A hub that does not answer is
reported after seconds. Not covered: other revisions, and progress inside a file.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from huggingface_hub import HfApi, constants, scan_cache_dir, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import CacheNotFound, GatedRepoError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id

from fewer.errors import ModelError, bad
from fewer.model.checkpoint import check_directory
from fewer.model.disk import REFUSALS, check_space, storage_error
from fewer.model.quiet import quiet, summarise

__all__ = ["find_hub_model", "list_hub_models"]

TIMEOUT_S = 5.0
CONFIGURATION = ("*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")
WEIGHTS = {False: ("model.safetensors", "model*.safetensors"), True: ("pytorch_model.bin", "pytorch_model*.bin")}
WAY_OUT = "Free some space, or set HF_HUB_CACHE to a directory with room that can be written."


def find_hub_model(name: str, *, allow_pickle: bool, report: Callable[[str], None]) -> Path:
    """The local directory of a hub model, downloaded where it is not already in the hub's cache.

    ModelError for a name that does not exist, is not open to this user, holds nothing that can be loaded, or cannot
    be reached; StorageError where it does not fit on the disk.
    """
    try:
        validate_repo_id(name)
    except HFValidationError:
        legal = "a hub name such as org/name, or the path of a directory or a GGUF file"
        raise bad("model", name, legal, "Run `fewer models` for the models at hand.") from None
    cached, problem = _find_cached(name), ""
    if cached is not None:
        try:
            check_directory(cached, allow_pickle=allow_pickle)
            return cached
        except ModelError as error:
            problem = f" The cached copy cannot be used: {error}"
    files = _list_files(name, problem)
    wanted = _choose(name, files, allow_pickle)
    directory = _download(name, wanted, sum(files[file] for file in wanted), report)
    check_directory(directory, allow_pickle=allow_pickle)
    return directory


def list_hub_models() -> list[tuple[str, Path, int]]:
    """Name, directory and bytes of every model in the hub's cache that has all it needs to be loaded."""
    try:
        with quiet():
            repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    found = []
    for repository in repositories:
        revision = repository.refs.get("main") if repository.repo_type == "model" else None
        if revision is not None and _is_loadable(revision.snapshot_path):
            found.append((repository.repo_id, revision.snapshot_path, revision.size_on_disk))
    return sorted(found)


def _find_cached(name: str) -> Path | None:
    config = try_to_load_from_cache(name, "config.json")
    return Path(config).parent if isinstance(config, str) else None


def _is_loadable(directory: Path) -> bool:
    try:
        check_directory(directory)
    except ModelError:
        return False
    return True


def _list_files(name: str, problem: str) -> dict[str, int]:
    """The files at the top level of the repository with their sizes, or ModelError after TIMEOUT_S without answer."""
    try:
        with quiet():
            siblings = HfApi().model_info(name, timeout=TIMEOUT_S, files_metadata=True).siblings or ()
    except GatedRepoError as error:
        raise ModelError(
            f"{name} is open only to those who accepted its terms. Accept them at {constants.ENDPOINT}/{name} and run "
            "`hf auth login`, or pass a local directory."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"{name} is neither a local path nor a public model on {constants.ENDPOINT}. Check the spelling, run "
            "`hf auth login` if it is private, or pass a local directory."
        ) from error
    except Exception as error:  # whatever the HTTP client of this version of the hub raises
        raise ModelError(_unreachable(name, error) + problem) from error
    return {file.rfilename: file.size or 0 for file in siblings if "/" not in file.rfilename}


def _choose(name: str, files: dict[str, int], allow_pickle: bool) -> list[str]:
    """The files to fetch: configuration, tokenizer, and the weights in one form."""
    if "config.json" not in files:
        ggufs = [file for file in files if file.endswith(".gguf")]
        hint = f"Download one of its GGUF files and pass its path: `hf download {name} {ggufs[0]}`." if ggufs else ""
        raise ModelError(f"{name} has no config.json. {hint or 'Pass the name of a language model.'}")
    for pickled, (whole, pattern) in WEIGHTS.items():
        weights = [whole] if whole in files else [file for file in files if fnmatchcase(file, pattern)]
        if weights and pickled and not allow_pickle:
            raise ModelError(
                f"{name} has its weights in pickle files only ({weights[0]}), which can run code when opened. Look for "
                "a copy with safetensors, or pass allow_pickle=True if you trust where they come from."
            )
        if weights:
            return weights + [file for file in files if any(fnmatchcase(file, kind) for kind in CONFIGURATION)]
    raise ModelError(f"{name} has no {WEIGHTS[False][0]}. Look for a copy of the model with safetensors weights.")


def _download(name: str, wanted: list[str], size: int, report: Callable[[str], None]) -> Path:
    cache = Path(constants.HF_HUB_CACHE)
    check_space(cache, name, size, WAY_OUT)
    report(f"Downloading {name} ({size / 1e6:.0f} MB).")
    try:
        with quiet():
            return Path(snapshot_download(name, allow_patterns=wanted, etag_timeout=TIMEOUT_S))
    except Exception as error:  # as above, and what the disk answers
        if getattr(error, "errno", None) in REFUSALS:
            raise storage_error(error, cache, name, size, WAY_OUT) from error
        raise ModelError(_unreachable(name, error)) from error


def _unreachable(name: str, error: Exception) -> str:
    return (
        f"{name} is not on this machine, and {constants.ENDPOINT} cannot be reached ({summarise(error)}). Pass a local "
        f"directory instead; where there is network, `hf download {name} --local-dir DIRECTORY` makes one."
    )
