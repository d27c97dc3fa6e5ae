"""Secret. Its data never appears in messages: ``repr`` leaves it out."""

from msgspec import Struct, field

from kubewire.api.meta import ObjectMeta


class Secret(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Secret {self.metadata.namespace}/{self.metadata.name}>"
