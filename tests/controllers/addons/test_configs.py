"""Which configurations an add-on has, without a hub."""

import hashlib

import pytest

from fairway.api.addon import (
    INSTALL_NAMESPACE,
    PLACEMENTS,
    AddOnConfig,
    ClusterManagementAddOn,
    ClusterManagementAddOnSpec,
    InstallStrategy,
    ManagedClusterAddOn,
    PlacementStrategy,
)
from fairway.api.addon_config import AddOnDeploymentConfigSpec, CustomizedVariable, ProxyConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.controllers.addons import configs
from fairway.controllers.addons.configs import UnusableConfig
from kubewire.api.salvage import salvage


def test_template_whose_spec_cannot_be_read_is_refused_by_name() -> None:
    group, resource = configs.TEMPLATES
    template = salvage(
        b'{"metadata":{"name":"t"},"spec":{"addonName":"a","registration":[7]}}', AddOnTemplate
    )
    with pytest.raises(
        UnusableConfig, match=r"^AddOnTemplate t: spec\.registration\[0\] cannot be read: Expected"
    ):
        configs.resolve(
            (AddOnConfig(group=group, resource=resource, name="t"),),
            add_on="a",
            templates={("", "t"): template},
            deployments={},
        )


@pytest.mark.parametrize(
    ("word", "recorded"),
    [
        ("test", "ea4e6089e8b2f584c1cd8b86e16a15df3186b30744f433ede7436091c93a4cc7"),
        ("test1", "b746cc98936955dd2168640f0011a14f2a74be306c747bc8ba829328cc772690"),
        ("test2", "3e6348b0c0f0a341ce28d0a2f99bc41fc63fb17d947eb5a45284729fbeb63b32"),
    ],
)
def test_hash_of_a_configuration_is_the_one_of_ocm(word: str, recorded: str) -> None:
    """The hashes are those in OCM's integration tests, of objects that a client in Go has created."""
    spec = AddOnDeploymentConfigSpec(
        customizedVariables=(CustomizedVariable(name=word, value=word),),
        agentInstallNamespace=INSTALL_NAMESPACE,
        proxyConfig=ProxyConfig(),
    )
    assert configs.spec_hash(spec) == recorded


def test_hash_is_of_the_json_that_go_writes() -> None:
    variables = (CustomizedVariable(name="a", value="<&>\u2028\u2029"),)
    written = rb'{"spec":{"customizedVariables":[{"name":"a","value":"\u003c\u0026\u003e\u2028\u2029"}]}}'
    digest = configs.spec_hash(AddOnDeploymentConfigSpec(customizedVariables=variables))
    assert digest == hashlib.sha256(written).hexdigest()


def test_last_of_several_placements_configures_a_cluster() -> None:
    """As the published ClusterManagementAddOn describes: a later strategy overrides an earlier one."""
    group, resource = configs.DEPLOYMENTS
    config = {name: AddOnConfig(group=group, resource=resource, name=name) for name in ("one", "two")}
    strategies = tuple(
        PlacementStrategy(namespace="ns", name=name, configs=(config[name],)) for name in ("one", "two")
    )
    offer = ClusterManagementAddOn(
        spec=ClusterManagementAddOnSpec(
            installStrategy=InstallStrategy(type=PLACEMENTS, placements=strategies)
        )
    )
    both = [("ns", "one"), ("ns", "two")]
    assert configs.named(ManagedClusterAddOn(), offer, placements=both) == (config["two"],)
    assert configs.named(ManagedClusterAddOn(), offer, placements=both[:1]) == (config["one"],)
