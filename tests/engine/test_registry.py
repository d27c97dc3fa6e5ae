import pytest

from engine.toys import Points
from fairway.engine.errors import DuplicatePluginError, EngineError, PluginArgsError, UnknownPluginError
from fairway.engine.registry import Registry


class Priced(Points):
    def __init__(self, *, cents: int = 1) -> None:
        if cents < 0:
            raise ValueError(f"cents must be at least 0; got {cents}")
        super().__init__({}, "Priced")
        self.cents = cents


def registry() -> Registry:
    made = Registry()
    made.register("Priced", Priced)
    made.register("Costs", lambda: Points({}, "Costs"), kind=Points)
    return made


def test_registry_builds_plugins_by_name_with_keyword_arguments() -> None:
    made = registry()
    assert made.names() == ("Costs", "Priced")
    assert "Priced" in made
    assert "priced" not in made
    assert (made.kind("Priced"), made.kind("Costs")) == (Priced, Points)
    plugin = made.build("Priced", {"cents": 5})
    assert isinstance(plugin, Priced)
    assert plugin.cents == 5
    assert made.build("Priced") is not plugin


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("priced", "did you mean Priced?"),
        ("Cost", "did you mean Costs?"),
        ("Zebra", "registered plugins: Costs, Priced"),
    ],
)
def test_unknown_plugin_is_refused_with_near_names(name: str, hint: str) -> None:
    with pytest.raises(UnknownPluginError) as refused:
        registry().build(name)
    assert str(refused.value) == f"plugin {name} is not registered; {hint}"
    assert isinstance(refused.value, EngineError)
    with pytest.raises(UnknownPluginError, match=f"plugin {name} is not registered; no plugin is registered"):
        Registry().kind(name)


def test_duplicate_plugin_is_refused_with_the_class_that_has_the_name() -> None:
    with pytest.raises(DuplicatePluginError) as refused:
        registry().register("Priced", Points)
    assert str(refused.value) == (
        f"plugin Priced is registered already, as {Priced.__module__}.Priced: choose another name"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"cents": -1}, "cents must be at least 0; got -1"),
        ({"euros": 1}, "unexpected keyword argument 'euros'"),
    ],
)
def test_wrong_arguments_of_a_plugin_are_refused_with_its_name(args: dict[str, int], words: str) -> None:
    with pytest.raises(PluginArgsError) as refused:
        registry().build("Priced", args)
    assert str(refused.value).startswith("plugin Priced does not accept its arguments: ")
    assert words in str(refused.value)
    assert refused.value.plugin == "Priced"


def test_factory_must_return_the_class_and_the_name_that_it_was_registered_with() -> None:
    made = registry()
    made.register("Other", lambda: Points({}, "Other"), kind=Priced)
    with pytest.raises(
        PluginArgsError, match="factory of plugin Other returned Points, and was registered for Priced"
    ):
        made.build("Other")
    made.register("Alias", Priced)
    with pytest.raises(
        PluginArgsError, match="plugin Alias has the name 'Priced': register it under its own name"
    ):
        made.build("Alias")
    with pytest.raises(TypeError, match="plugin Late: a factory that is not a class needs kind"):
        made.register("Late", lambda: Points({}, "Late"))
