"""The help of a command: options in groups, as plain text that every pipe and pager takes.

Typer's own grouped help imports a Markdown renderer and more, for longer than all else takes.
"""

from typing import Any

from typer.core import TyperCommand

__all__ = ["GroupedCommand"]


class GroupedCommand(TyperCommand):
    """A command that shows its options under the headings of their `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, those of one heading together."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                heading = getattr(param, "rich_help_panel", None) or _heading(param)
                groups.setdefault(heading, []).append((_name(param, ctx), record[1]))
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _heading(param: Any) -> str:
    return "Arguments" if param.param_type_name == "argument" else "Options"


def _name(param: Any, ctx: Any) -> str:
    """Show an option as it is written, with what stands for its value."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = ", ".join(param.opts)
    return names if param.is_flag else f"{names} {param.display_type_rich(ctx)}"
