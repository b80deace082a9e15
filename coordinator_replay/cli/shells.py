"""Completion in bash, zsh and fish. Candidates are names that clients of a cluster chose, so they may be hostile.

Click does not quote candidates. Bash puts them into the command line, where ``$(rm x)`` in a name is a command. Click's
function for fish cuts a name at a comma, and its ``echo`` takes a name such as ``-n`` for an option. So this module has
functions of its own for bash and fish. Zsh needs none, because its ``compadd`` quotes its arguments.
"""

import os
import re
from typing import Any, ClassVar

from click.shell_completion import BashComplete, CompletionItem, FishComplete, add_completion_class

_BASH = """\
%(complete_func)s() {
    local response line
    response=$(IFS=$'\\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" \\
        COMP_TYPED="${COMP_WORDS[COMP_CWORD]}" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${line#plain,}") ;;
        esac
    done <<< "$response"
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp | string collect) \\
        COMP_CWORD=(commandline -t | string collect --allow-empty) %(prog_name)s)
    for completion in $response
        set -l metadata (string split --max 1 -- "," $completion)
        switch $metadata[1]
            case dir
                __fish_complete_directories $metadata[2]
            case file
                __fish_complete_path $metadata[2]
            case plain
                printf '%%s\\n' $metadata[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]")
"""Characters without a special meaning inside a word in any shell."""


def bash_quoted(name: str) -> str:
    r"""Return a name quoted, so that bash reads it as one word and runs no part of it.

    Special characters get backslashes.

    >>> print(bash_quoted("pay-$(touch x)"))
    pay-\$\(touch\ x\)
    """
    return "".join(
        character if _PLAIN.match(character) or not character.isascii() else f"\\{character}" for character in name
    )


class Bash(BashComplete):
    """Completion for bash, which puts candidates unquoted into the line."""

    source_template: ClassVar[str] = _BASH

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the candidates for what the user has typed.

        If the user has typed an opening quote, leave out names with special characters: bash could not read their
        backslashes.
        """
        items = super().get_completions(args, incomplete)
        if not re.search("[\"']", os.environ.get("COMP_TYPED", "")):
            return items
        return [item for item in items if bash_quoted(str(item.value)) == item.value]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return a candidate as a line that the shell function in ``_BASH`` reads."""
        return f"{item.type},{bash_quoted(str(item.value)) if item.type == 'plain' else item.value}"


class Fish(FishComplete):
    """Completion for fish, which quotes candidates itself."""

    source_template: ClassVar[str] = _FISH


def use_own_shells() -> None:
    """Make click use ``Bash`` and ``Fish`` for completion."""
    for shell in (Bash, Fish):
        add_completion_class(shell)
