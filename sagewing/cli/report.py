"""`sagewing report`: make the page of a result again."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from sagewing.cli import console
from sagewing.errors import InputError
from sagewing.files import utf8, write_atomically
from sagewing.report.page.result_page import overview_in, result_page
from sagewing.report.page.results_table import check_rows
from sagewing.report.page.scene_file import SCENE, read_scene
from sagewing.results import read_result


@dataclass(frozen=True)
class Report:
    """Make the page of a result again, from result.json and the scene.npz in the same folder.

    Example: sagewing report out/demo/result.json --out demo.html
    """

    result: tyro.conf.Positional[Path]
    """the result.json of `sagewing demo`, `sagewing bench flight` or `sagewing run`"""
    out: Path = Path("report.html")
    """the page"""
    force: bool = False
    """replace an existing file"""

    def __call__(self) -> None:
        """Run it."""
        console.check_writable(self.out.parent, None)
        if self.out.is_dir():
            raise InputError(f"--out takes a file; {self.out} is a folder.")
        if self.out.exists() and not self.force:
            raise InputError(f"{self.out} exists; choose another --out, or replace it by --force.")
        result = read_result(self.result)
        check_rows(result["rows"], str(self.result))
        drawing = read_scene(self.result.parent / SCENE)
        page = result_page(result, drawing, overview_in(self.result.parent))
        self.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.out, utf8(page))
        console.err.print(f"Written: {self.out}", soft_wrap=True)
