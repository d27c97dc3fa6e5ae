"""Write YAML that kubectl, PyYAML and this package read the same way.

PyYAML leaves text such as `1e3` unquoted, which kubectl reads as a number. Here every ambiguous text is quoted. Anchors
are never written.
"""

from typing import Any

import yaml

from kubewire.documents.scalars import ScalarError, resolve


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    try:
        style = None if resolve(value) == value else "'"
    except ScalarError:
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(document: object, *, sort_keys: bool = True) -> str:
    """Format one document in block style, without a document marker."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=110)
    return text
