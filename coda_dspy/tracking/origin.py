"""Where a run comes from: versions, and the commit of the folder that it was started in."""

import platform
import subprocess

from coda_dspy.profile import installed_versions

_PATIENCE = 5  # seconds for git, which may wait for a network drive


def origin() -> dict[str, str]:
    """Tags for a run; without a commit where the working folder is in no git repository."""
    found = {f"version.{package}": version for package, version in installed_versions().items()}
    found["version.python"] = platform.python_version()
    commit = _commit()
    return found | ({"mlflow.source.git.commit": commit} if commit else {})


def _commit() -> str | None:
    command = ["git", "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
