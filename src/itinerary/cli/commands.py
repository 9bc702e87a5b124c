"""Declaration of commands: a function is a command, and its annotated arguments are the options.

    def pause(job: Annotated[str, Argument("JOB", help="The name of a job.")], store: Store = None) -> None:
        \"\"\"Skip a job's instants …\"\"\"            the help of the command

    app.add(pause)

An argument of type `bool` is a switch, a list may be given several times, and an enumeration takes its values. click
parses the command line.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from enum import Enum
from inspect import Parameter, cleandoc, signature
from typing import Any, Final, Union, assert_never, get_args, get_origin, get_type_hints

import click
import msgspec

__all__ = ["Argument", "Commands", "Option"]

_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}

Checked = Callable[[click.Context, Any], Any]
Offered = Callable[[click.Context, str], list[str]]


class Option:
    """An option. Without names, the name of the function's argument is its name."""

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 - as click has it
        metavar: str | None = None,
        min: int | None = None,  # noqa: A002 - as click has it
        max: int | None = None,  # noqa: A002 - as click has it
        check: Checked | None = None,
    ) -> None:
        self.names, self.help, self.metavar, self.check = names, help, metavar, check
        self.range = click.IntRange(min, max) if min is not None or max is not None else None


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument without a name. `offers` returns the words that a shell completes."""

    metavar: str
    help: str
    offers: Offered | None = None


class Commands(click.Group):
    """A group of commands."""

    def __init__(self, name: str | None = None, *, about: str, main: Callable[..., Any] | None = None) -> None:
        """Make an empty group.

        Args:
            name: The name of the group.
            about: The help of the group.
            main: The function that runs if no command of the group is given; None: the group shows its help.
        """
        super().__init__(
            name,
            help=about,
            params=[] if main is None else _Reader(main).parameters,
            callback=None if main is None else _Reader(main).call,
            invoke_without_command=main is not None,
            no_args_is_help=main is None,
            context_settings=dict(_SETTINGS),
        )

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's call
        """Return the names of the commands, in the order in which they were added."""
        return list(self.commands)

    def add(self, function: Callable[..., Any], name: str | None = None) -> None:
        """Add a command: its name is that of the function, if no other is given."""
        reader = _Reader(function)
        self.add_command(
            _Command(
                name or function.__name__.replace("_", "-"),
                help=cleandoc(function.__doc__ or ""),
                params=reader.parameters,
                callback=reader.call,
                context_settings=dict(_SETTINGS),
            )
        )


class _Command(click.Command):
    """A command whose help lists the arguments, too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, and then the options."""
        rows = [(one.make_metavar(ctx), one.about) for one in self.params if isinstance(one, _Positional)]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


class _Positional(click.Argument):
    """An argument with a help text."""

    about: str = ""


class _Reader:
    """The arguments of a function as click parses them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        hints = get_type_hints(function, include_extras=True)
        self._context = [name for name, hint in hints.items() if hint is click.Context]
        self._fields = {
            one.name: _Field(one, hints[one.name])
            for one in signature(function).parameters.values()
            if one.name not in self._context
        }

    @property
    def parameters(self) -> list[click.Parameter]:
        """The options and arguments."""
        return [field.parameter() for field in self._fields.values()]

    def call(self, **given: Any) -> Any:
        """Call the function with the values that click has read."""
        values = {name: field.converted(given[name]) for name, field in self._fields.items()}
        return self._function(**values, **dict.fromkeys(self._context, click.get_current_context()))


class _Field:
    """One argument of a function."""

    def __init__(self, argument: Parameter, hint: Any) -> None:
        kind, declared = get_args(hint)
        assert isinstance(declared, Option | Argument), f"{argument.name} is declared as Option or Argument"
        self._declared: Option | Argument = declared
        members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
        kind = next(member for member in members if member is not types.NoneType)
        self._is_list = get_origin(kind) is list
        self._kind = get_args(kind)[0] if self._is_list else kind
        self._name, self._default = argument.name, argument.default
        self._is_required = self._default is Parameter.empty

    def parameter(self) -> click.Parameter:
        """Return the option or argument for click."""
        common: dict[str, Any] = {"required": self._is_required}
        if not (self._is_required or self._is_list):
            common["default"] = self._default.value if isinstance(self._default, Enum) else self._default
        match self._declared:
            case Argument() as one:
                return self._positional(one, common)
            case Option() as one:
                return self._option(one, common)
            case _:
                assert_never(self._declared)

    def converted(self, value: Any) -> Any:
        """Return a value as the function takes it."""
        if self._is_list:
            return [self._one(each) for each in value] or (None if self._is_required else self._default)
        return None if value is None else self._one(value)

    def _one(self, value: Any) -> Any:
        return self._kind(value) if issubclass(self._kind, Enum) else value

    @property
    def _type(self) -> Any:
        return click.Choice([each.value for each in self._kind]) if issubclass(self._kind, Enum) else self._kind

    def _positional(self, one: Argument, common: dict[str, Any]) -> click.Parameter:
        offers = one.offers
        made = _Positional(
            [self._name],
            metavar=one.metavar,
            type=self._type,
            nargs=-1 if self._is_list else 1,
            shell_complete=None if offers is None else lambda context, _, text: list(offers(context, text)),
            **common,
        )
        made.about = one.help
        return made

    def _option(self, one: Option, common: dict[str, Any]) -> click.Parameter:
        check, is_switch = one.check, self._kind is bool
        return click.Option(
            [self._name, *(one.names or (f"--{self._name.replace('_', '-')}",))],
            help=one.help,
            metavar=one.metavar,
            type=one.range or self._type,
            is_flag=is_switch,
            multiple=self._is_list,
            show_default=not is_switch,
            callback=None if check is None else lambda context, _, value: check(context, value),
            **common,
        )
