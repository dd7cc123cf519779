"""The documentation as the tests read it: its pages, and the blocks of code in them."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def blocks(page: Path, language: str, mark: str = "") -> list[str]:
    """The page's blocks of a language, or those that come right after the mark."""
    fence = rf"{re.escape(mark)}\s*" if mark else ""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^{fence}```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def module(path: Path) -> ModuleType:
    """A script of the repository, imported and not run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
