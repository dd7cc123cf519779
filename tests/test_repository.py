"""The repository keeps its promises: layers, folder READMEs, examples that run."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sagewing"
# A layer imports only from itself and those before it. `logs.estimate` is a layer of its own.
LAYERS = [
    "models",
    "filters",
    "policy",
    "sim",
    "metrics",
    "logs",
    "problems",
    "codegen",
    "runtime",
    "train",
    "jobs",
    "studies",
    "logs.estimate",
    "report",
    "cli",
]


def _layer(module: str) -> str | None:
    """The layer of a module of the package; None for what stands beside the folders."""
    inside = [name for name in LAYERS if f"{module}.".startswith(f"sagewing.{name}.")]
    return max(inside, key=len, default=None)


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_from_those_above_it(layer):
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for path in (PACKAGE / layer.replace(".", "/")).rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if _layer(module) == layer:
            for name in _imports(path):
                found = _layer(name)
                assert found is None or found in allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_every_folder_of_the_package_is_a_layer_and_says_what_lives_there():
    for folder in (p for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"):
        assert folder.name in LAYERS
        readme = (folder / "README.md").read_text()
        assert len(readme.splitlines()) <= 20, folder.name


def test_no_class_name_is_defined_twice():
    places: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_the_code_in_the_readme_runs(capsys):
    """All blocks of a page share their names, as a reader's session would."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert "nan" not in capsys.readouterr().out


def test_the_links_in_the_readme_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
            assert "://" in target or (ROOT / target).exists(), f"{page}: {target}"


def test_the_files_that_a_page_names_exist():
    """Paths of the package, with `.py`, `.md` or a slash at their end."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for path in re.findall(r"`(?:sagewing|tests|benchmarks|docs)/[\w/.]+`", page.read_text()):
            assert (ROOT / path.strip("`")).exists(), f"{page.name}: {path}"


def test_there_is_one_loop_over_the_steps_of_a_filter():
    """A whole record, one measurement at a time, and what C is generated from."""
    tracing = {"codegen/program.py", "codegen/training/program.py"}
    allowed = {"filters/loop.py", "runtime/in_jax.py", *tracing}
    calling = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\b(filt|self\._filt|learned|ekf|oracle)\.step\(", path.read_text())
    }
    assert calling == allowed


def test_filters_have_a_type_and_no_module_is_long():
    lengths = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"\bfilt: Any\b", text), path
        lengths[str(path.relative_to(PACKAGE))] = len(text.splitlines())
    assert max(lengths.values()) <= 350, max(lengths, key=lengths.__getitem__)


def test_the_recursion_and_its_step_are_short_enough_to_read():
    text = (PACKAGE / "filters" / "recursion.py").read_text()
    assert len(text.splitlines()) <= 200
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    (step,) = (n for n in functions if n.name == "plain_step")
    assert step.end_lineno is not None
    assert step.end_lineno - step.lineno < 45
